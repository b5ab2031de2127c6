"""see_mem_usage: memory that is really taken, and devices that are not touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/see_mem_usage.py"
MIB = 1024**2
GIB = 1024**3

pytestmark = pytest.mark.needs("/proc/self/smaps_rollup")


# A program of its own: the process of the tests has threads that take and give back memory.
TAKE = """
import json, mmap
import see_mem_usage
see = see_mem_usage.see_memory_usage
rows = [see("base", reset_peaks=True)]
block = mmap.mmap(-1, 32 * 1024**2)
for start in range(0, len(block), mmap.PAGESIZE):
    block[start] = 1
rows.append(see("taken"))
block.close()
rows += [see("gone", reset_peaks=True), see("low")]
print(json.dumps(rows))
"""


def test_memory_that_is_taken_is_seen() -> None:
    """32 MiB written make PSS grow by 32 MiB, and the peak stays until it is reset. The demo has
    the growth of RSS."""
    command = [sys.executable, "-c", TAKE]
    environ = {**os.environ, "PYTHONPATH": str((SCRIPTS / TOOL).parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=True)
    base, taken, gone, low = json.loads(done.stdout)
    assert taken["pss_growth_bytes"] == pytest.approx(32 * MIB, abs=2 * MIB)
    assert gone["peak_rss_bytes"] - base["rss_bytes"] >= 28 * MIB
    assert low["peak_rss_bytes"] - base["rss_bytes"] <= 8 * MIB
    line = done.stderr.splitlines()[1]
    wanted = r"\d\d:\d\d:\d\d taken \| cpu RSS \S+ .iB \(\+3[123](\.\d)? MiB\) PSS .* peak \S+ .iB"
    assert re.fullmatch(wanted, line), line


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch with a GPU 1 that is in use; what is asked of the driver is counted."""
    calls: list[int] = []

    def mem_get_info(index: int) -> tuple[int, int]:
        calls.append(index)
        return 20 * GIB, 64 * GIB

    module = SimpleNamespace(
        is_initialized=lambda: True, memory_allocated=lambda: 2 * GIB, calls=calls,
        memory_reserved=lambda: 3 * GIB, max_memory_allocated=lambda: 2.5 * GIB,
        mem_get_info=mem_get_info, get_device_properties=lambda _: SimpleNamespace(uuid="u-1"),
    )  # fmt: skip
    torch = SimpleNamespace(
        accelerator=SimpleNamespace(
            is_available=lambda: True, current_device_index=lambda: 1,
            current_accelerator=lambda: SimpleNamespace(type="cuda"),
        ),
        get_device_module=lambda _kind: module,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    return module


def test_nvml_is_asked_by_uuid(
    module: Any, fake_torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's index counts only the visible GPUs; the driver is then not asked."""
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-u-1": 7}[uuid],
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=handle * GIB, total=80 * GIB),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    row = module.read_device()
    assert (row["device_used_bytes"], row["device_total_bytes"]) == (7 * GIB, 80 * GIB)
    assert fake_torch.calls == []


def test_a_device_that_is_not_used_is_not_touched(module: Any, fake_torch: Any) -> None:
    """Looking would create a context."""
    fake_torch.is_initialized = lambda: False
    assert set(module.read_device().values()) == {None}
    assert fake_torch.calls == []
