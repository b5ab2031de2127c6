"""Evidence that is gathered when it is first needed: a check whose findings are all in the cache
does not need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from bindery.core.config import Config
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.evidence.evidence import Evidence


class LateEvidence:
    """Stands in for an `Evidence`."""

    def __init__(self, gather: Callable[[], Evidence]) -> None:
        self._gather = gather

    @cached_property
    def _evidence(self) -> Evidence:
        return self._gather()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evidence, name)


def hash_evidence(tree: Tree, config: Config) -> str:
    """A hash of every file that the evidence of a book is made from, and of its plots."""
    folders = (config.views, config.data, config.figures, RECORDS_FOLDER)
    walked = (path for folder in folders for path in tree.walk_files(folder))
    return tree.hash_files((config.file, *(tool.path for tool in config.tools), *walked))
