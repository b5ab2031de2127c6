"""Units in prose: which are certainly wrong, and which only look so."""

from __future__ import annotations

import pytest
from bindery.check.rules.wrong_unit import find_slips
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.prose import read_passages


def find_in(source: str) -> list[tuple[str, str]]:
    """What is marked in a paragraph, and the advice."""
    (passage,) = read_passages(parse_chapter("README.md", source))
    return [(passage.text[slip.start : slip.end], slip.advice) for slip in find_slips(passage)]


@pytest.mark.parametrize(
    ("text", "marked", "advice"),
    [
        ("reads 5 GiB/s", "5 GiB/s", "rates are decimal: write '5.369 GB/s'"),
        ("reads 1,000 MiBps", "1,000 MiBps", "rates are decimal: write '1049 MBps'"),
        ("reads 2-4GiB/s", "4GiB/s", "rates are decimal: write '4.295GB/s'"),
        ("at 100 gbps", "100 gbps", "write '100 GBps' for bytes or '100 Gbps' for bits"),
        ("at 100 GBPS", "100 GBPS", "write '100 GBps' for bytes or '100 Gbps' for bits"),
        ("a link of 300GBs for NVLink", "300GBs", "write '300GBps'"),
        ("a link of 900 Gbs", "900 Gbs", "write '900 Gbps' for bits, '900 GBps' for bytes"),
        ("80 Gb of GPU memory", "80 Gb", "write '80 GB'"),
        ("allocates 77Gb", "77Gb", "write '77GB'"),
        ("files of 4 kb, 4 kb files", "4 kb", "write '4 kB'"),
        ("The cache has 512 kb.", "512 kb", "write '512 kB'"),
        ("A checkpoint takes about 26 Gb.", "26 Gb", "write '26 GB'"),
        ("starting was slow (8 TFLOPs), then 73 TFLOPs", "73 TFLOPs", "write '73 TFLOPS'"),
        ("blocks of 16mb", "16mb", "write '16MB'; 'Mb' are bits"),
        ("holds 3 GIB", "3 GIB", "write '3 GiB'"),
        ("3 Gib of memory", "3 Gib", "write '3 GiB'"),
        ("at 1980Mhz", "1980Mhz", "write '1980MHz'"),
        ("5 tflop/s", "5 tflop/s", "write '5 TFLOP/s'"),
        ("FLOPS per second", "FLOPS per second", "write 'FLOPS'"),
        ("reaching 5 TFLOPs of the peak", "5 TFLOPs", "write '5 TFLOPS'"),
    ],
)
def test_a_wrong_unit_is_found(text: str, marked: str, advice: str) -> None:
    """A unit that cannot be is marked with its number, and the right one is told."""
    assert (marked, advice) in find_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "80 GB of memory at 3.35 TB/s over 400 Gbps, 400 Gb/s, 64 MB, 16 KB, 16 kB and 5 MiB",
        "an A100 80GB, an A100 SXM 80gb, an H100-80gb and a llama-7b",
        "`80 gb` of memory and `5 GiB/s`",
        "chips of 16 Gb, and a density of 24 Gb a die of memory",
        "160 GBs of memory, and a few GBs",
        "40 Gbs of data over the network, and a file of 40 Gbs",
        "The storage has 400 Gb InfiniBand, and a memory of 16 Gb chips.",
        "It reaches 5 TFLOPS. A token takes 2 TFLOPs.",
        "1 MAC = 2 FLOPs, and 100 FLOPs = 50 MACs",
        "a pass takes 5 TFLOPs per token and 3 EFLOPs of compute",
        "Model Flops Utilization and tflops as a word",
        "5 GHz, 300 MHz and 5 kHz",
        "version 1.2.3 gb/s",
        "see a/5mb and x=5mb and #5mb",
    ],
)
def test_what_can_be_right_is_left_alone(text: str) -> None:
    """Products, code, densities, totals, counts and every unit that can be right stay silent."""
    assert find_in(text) == []


def test_each_place_is_reported() -> None:
    """Fixing what is reported does not bring up another one in the same line."""
    found = find_in("from 5 mb to 10 mb, and 3 mb, at 1980Mhz or 1830Mhz")
    assert [marked for marked, _ in found] == ["5 mb", "10 mb", "3 mb", "1980Mhz", "1830Mhz"]
