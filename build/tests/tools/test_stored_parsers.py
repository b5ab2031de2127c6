"""Options of tools: what is no program with a parser, and no stored parser, is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bindery.tools.command_lines import dump_parser
from bindery.tools.command_lines.stored_parsers import read_stored_parser


def test_a_program_without_a_parser_is_an_error(tmp_path: Path) -> None:
    """There is nothing to store."""
    (tmp_path / "tool.py").write_text("print('done')")
    command = [sys.executable, dump_parser.__file__, str(tmp_path / "tool.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "the tool did not parse any arguments" in ended.stderr


def test_what_is_not_a_stored_parser_is_refused() -> None:
    """Broken JSON and JSON of another kind."""
    for text in ("{", "[]", '{"options": [{}]}', '{"colour": 1}'):
        with pytest.raises(ValueError, match="not a stored parser"):
            read_stored_parser(text)
