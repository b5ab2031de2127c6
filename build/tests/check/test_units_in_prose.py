"""Units in prose: which are certainly wrong, and which only look so."""

import pytest
from bindery.check.units_in_prose import UNIT_LIKE, Slip, find_slips
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.prose import read_passages
from hypothesis import given
from hypothesis import strategies as st


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
        ("at 9 GB/s per second", "9 GB/s", "remove 'per second'"),
        ("a link of 300GBs for NVLink", "300GBs", "write '300GBps'"),
        ("a link of 900 Gbs", "900 Gbs", "write '900 Gbps' for bits, '900 GBps' for bytes"),
        ("a link of 900Gbs", "900Gbs", "write '900Gbps' for bits, '900GBps' for bytes"),
        ("at 900 GB/S", "900 GB/S", "write '900 GB/s'"),
        ("at 900 Gb/S", "900 Gb/S", "write '900 Gb/s'"),
        ("at 900 gb/S", "900 gb/S", "write '900 GB/s' for bytes or '900 Gb/s' for bits"),
        ("ports of NDR at 400 GB/s", "400 GB/s", "write '400 Gb/s'"),
        ("with 200 GBps HDR InfiniBand", "200 GBps", "write '200 Gbps'"),
        ("with 0.8 TBps XDR", "0.8 TBps", "write '0.8 Tbps'"),
        ("NVLink 4 at 900 Gbps", "900 Gbps", "write '900 GBps'"),
        ("1.8 Tb/s of NVLink", "1.8 Tb/s", "write '1.8 TB/s'"),
        ("80 Gb of GPU memory", "80 Gb", "write '80 GB'"),
        ("memory of about 80Gb", "80Gb", "write '80GB'"),
        ("allocates 77Gb", "77Gb", "write '77GB'"),
        ("a 40-Gb checkpoint", "40-Gb", "write '40-GB'"),
        ("files of 4 kb, 4 kb files", "4 kb", "write '4 kB'"),
        ("The cache has 512 kb.", "512 kb", "write '512 kB'"),
        ("A checkpoint takes about 26 Gb.", "26 Gb", "write '26 GB'"),
        ("writes 7 GBs per second", "7 GBs", "write '7 GB'"),
        ("30 Mbs per second", "30 Mbs", "write '30 Mb'"),
        ("starting was slow (8 TFLOPs), then 73 TFLOPs", "73 TFLOPs", "write '73 TFLOPS'"),
        ("blocks of 16mb", "16mb", "write '16MB'; 'Mb' means bits"),
        ("holds 3 tB", "3 tB", "write '3 TB'"),
        ("holds 3 GIB", "3 GIB", "write '3 GiB'"),
        ("3 Gib of memory", "3 Gib", "write '3 GiB'"),
        ("a bandwidth of about 3.35 TB", "3.35 TB", "write '3.35 TBps'"),
        ("900 GB of bandwidth", "900 GB", "write '900 GBps'"),
        ("1 GB = 1024 MB", "GB", "write 'GiB'"),
        ("A KB is 1024 bytes", "KB", "write 'KiB'"),
        ("a MB (`2**20`)", "MB", "write 'MiB'"),
        ("TB means 1,024^4 or 1_099_511_627_776 bytes", "TB", "write 'TiB'"),
        ("1 GB = 1,073,741,824 bytes", "GB", "write 'GiB'"),
        ("at 1980Mhz", "1980Mhz", "write '1980MHz'"),
        ("5 tflop/s", "5 tflop/s", "write '5 TFLOP/s'"),
        ("5 TFLOPS/sec", "5 TFLOPS/sec", "write '5 TFLOPS'"),
        ("FLOPS per second", "FLOPS per second", "write 'FLOPS'"),
        ("reaching 5 TFLOPs of the peak", "5 TFLOPs", "write '5 TFLOPS'"),
        ("12 PFLOPs per GPU", "12 PFLOPs", "write '12 PFLOPS'"),
    ],
)
def test_a_wrong_unit_is_found(text: str, marked: str, advice: str) -> None:
    """A unit that cannot be is marked with its number, and the right one is told. The rule reads
    only passages in which the pattern for any unit is found."""
    assert (marked, advice) in find_in(text)
    assert UNIT_LIKE.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "80 GB of memory at 3.35 TB/s over 400 Gbps, 400 Gb/s, 64 MB, 16 KB, 16 kB and 5 MiB",
        "an A100 80GB, an A100 SXM 80gb, an H100-80gb and a llama-7b",
        "`80 gb` of memory and `5 GiB/s`",
        "chips of 16 Gb, and a density of 24 Gb a die of memory",
        "16 Gb memory chips",
        "160 GBs of memory, and a few GBs",
        "40 Gbs of data over the network, and a file of 40 Gbs",
        "a node has 400 GBps of NDR InfiniBand in total",
        "NDR400 links, NDR at 50 GBps and NVLink lanes of 900 Gbps in total",
        "a bandwidth of 10 GB per second, 10 GB a second and 10 GB/s",
        "100 GB of bandwidth a month; a bandwidth of 5 GB each day",
        "a throughput with a payload of 4GB, and bandwidth of 4 GB messages",
        "GiB (`2**30`) and GB (`10**9`); 1 GiB is 1024 MiB",
        "GB is 1024**2 kB, 1 MB = 1000 kB, KB is 2**20 at most, MB = 1024*1024",
        "sold as 80 GB, which means 80 GiB",
        "the bandwidth of 80 GB HBM, and a throughput of 100 MB per step",
        "The storage has 400 Gb InfiniBand, and a memory of 16 Gb chips.",
        "It reaches 5 TFLOPS. A token takes 2 TFLOPs.",
        "40 GB, not 40 GiB",
        "1 MAC = 2 FLOPs, and 100 FLOPs = 50 MACs",
        "a pass takes 5 TFLOPs per token and 3 EFLOPs of compute",
        "5 TFLOPS, 5 TFLOP/s and 5 TFLOPs/s",
        "Model Flops Utilization and tflops as a word",
        "5 GHz, 300 MHz and 5 kHz",
        "version 1.2.3 gb/s",
        "see a/5mb and x=5mb and #5mb",
    ],
)
def test_what_can_be_right_is_left_alone(text: str) -> None:
    """Products, code, densities, totals, counts and every unit that can be right stay silent."""
    assert find_in(text) == []


def test_each_place_is_told() -> None:
    """Who fixes what is reported is not told of the next one of the same line afterwards."""
    found = find_in("from 5 mb to 10 mb, and 3 mb, at 1980Mhz or 1830Mhz")
    assert [marked for marked, _ in found] == ["5 mb", "10 mb", "3 mb", "1980Mhz", "1830Mhz"]


@given(st.integers(1, 9999), st.sampled_from(["", " ", "\u00a0"]), st.sampled_from("KMGTP"))
def test_binary_rates_are_told_with_the_same_number_of_bytes(
    number: int, gap: str, prefix: str
) -> None:
    """The decimal rate of the advice is the binary one, to four digits."""
    ((marked, advice),) = find_in(f"reads {number}{gap}{prefix}iB/s from disk")
    assert marked == f"{number}{gap}{prefix}iB/s"
    written = float(advice.split("'")[1].removesuffix(f"{gap}{prefix}B/s"))
    exact = number * 1.024 ** ("KMGTP".index(prefix) + 1)
    assert written == pytest.approx(exact, rel=1e-3)


@given(st.text(alphabet="0123456789 .,-GgMmTtKkibBps/sFLOPSfh\n*(=`", max_size=60))
def test_any_text_is_read_without_failing(text: str) -> None:
    """Whatever is in a passage, each slip is inside it."""
    for passage in read_passages(parse_chapter("README.md", text)):
        for slip in find_slips(passage):
            assert isinstance(slip, Slip)
            assert 0 <= slip.start < slip.end <= len(passage.text)
