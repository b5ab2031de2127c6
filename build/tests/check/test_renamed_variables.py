"""Renamed environment variables: the list, and where an old name is a mistake."""

import re

import pytest
from bindery.check.rules.renamed_variable import find_old_names, find_old_names_in_code
from bindery.check.rules.renamed_variables import RENAMES


def test_the_list_is_whole_and_leads_to_no_old_name() -> None:
    """Each entry has a source, and its new name is not itself an old one."""
    assert len(RENAMES) > 20
    for old, rename in RENAMES.items():
        assert re.fullmatch(r"[A-Z][A-Z0-9_]+", old)
        assert rename.old == old != rename.new
        assert rename.new not in RENAMES
        assert rename.source.startswith("https://")
        assert [found.old for _, found in find_old_names(f"Set {old} to 1.")] == [old]


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("set TORCH_NCCL_BLOCKING_WAIT and MY_NCCL_BLOCKING_WAIT", ""),
        ("NCCL_BLOCKING_WAIT2, NCCL_BLOCKING_WAITs and xNCCL_BLOCKING_WAIT", ""),
        ("NCCL_BLOCKING_WAIT, now TORCH_NCCL_BLOCKING_WAIT", ""),
        ("NCCL_BLOCKING_WAIT", "| NCCL_BLOCKING_WAIT | TORCH_NCCL_BLOCKING_WAIT |"),
        ("NCCL_BLOCKING_WAIT was renamed", ""),
        ("pass --attention-backend, not VLLM_ATTENTION_BACKEND", ""),
    ],
)
def test_what_speaks_of_the_change_is_left_alone(text: str, around: str) -> None:
    """Other names, and text that has the new name or says that the old one is old."""
    assert list(find_old_names(text, around)) == []


@pytest.mark.parametrize(
    ("code", "language", "found"),
    [
        ("echo $SLURM_JOBID\n", "", ["SLURM_JOBID"]),
        ("$ export A=1 NCCL_BLOCKING_WAIT=1\n", "console", ["NCCL_BLOCKING_WAIT"]),
        ("NCCL_BLOCKING_WAIT=1 python train.py\n", "", ["NCCL_BLOCKING_WAIT"]),
        ("docker run -e HUGGING_FACE_HUB_TOKEN image\n", "", ["HUGGING_FACE_HUB_TOKEN"]),
        ('os.environ["TRANSFORMERS_CACHE"] = "/data"\n', "", ["TRANSFORMERS_CACHE"]),
        ("- name: NCCL_DESYNC_DEBUG\n", "yaml", ["NCCL_DESYNC_DEBUG"]),
        ("# NCCL_DESYNC_DEBUG\n", "python", ["NCCL_DESYNC_DEBUG"]),
        ("SLURM_NPROCS=4\nSLURM_JOBID=7\n", "", []),
        ("[W] Environment variable NCCL_BLOCKING_WAIT was read\n", "text", []),
        ("NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT\n", "bash", []),
        ("export NCCL_BLOCKING_WAIT=1 TORCH_NCCL_BLOCKING_WAIT=1\n", "bash", []),
    ],
)
def test_what_a_command_sets_or_reads_is_found(code: str, language: str, found: list[str]) -> None:
    """A block in a language counts, and of one that may be output what is plainly a command. Both
    names together are on purpose."""
    assert [match[0] for match, _ in find_old_names_in_code(code, language)] == found
