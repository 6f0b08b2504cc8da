"""The load generator counts frames, notices errors, and ends when it should."""

import shutil
import struct
from importlib.util import find_spec

import pytest

from benchmarks import loadgen, references

pytestmark = pytest.mark.skipif(
    not shutil.which("cc") and not find_spec("ziglang"), reason="the load generator needs a C compiler"
)
REQUEST = struct.pack(">i", 96) + bytes(96)


@pytest.mark.parametrize("kind", ["echo", "sink", "source"])
def test_every_request_gets_a_whole_reply(kind: str) -> None:
    with references.running(kind, len(REQUEST), 5000) as (port, pid):
        seen = loadgen.run(
            port, REQUEST * 3, connections=3, depth=2, seconds=0.2, warm_up_s=0.05, server_pid=pid, error_offset=100
        )
    assert seen.requests > 0
    assert (seen.reply_size_min, seen.reply_size_max) == (4996, 4996)
    assert seen.server_cpu_us > 0


def test_an_open_loop_keeps_its_rate() -> None:
    with references.running("echo", len(REQUEST), 60) as (port, _):
        seen = loadgen.run(port, REQUEST, connections=2, rate=200, seconds=0.5, warm_up_s=0.05)
    assert 70 <= seen.requests <= 130


def test_refused_requests_are_not_taken_for_fast_ones() -> None:
    with references.running("echo", len(REQUEST), 60) as (port, _), pytest.raises(loadgen.LoadFailed):
        loadgen.run(port, REQUEST, seconds=0.1, warm_up_s=0.05, error_offset=200)


def test_without_a_server_a_load_fails() -> None:
    with pytest.raises(loadgen.LoadFailed, match="connect"):
        loadgen.run(1, REQUEST, seconds=0.1)


def test_a_byte_limit_ends_a_load_early() -> None:
    with references.running("sink", len(REQUEST), 60) as (port, _):
        seen = loadgen.run(port, REQUEST, seconds=30, warm_up_s=0.0, bytes_max=2_000_000)
    assert seen.seconds < 20


@pytest.mark.parametrize("bytes_max", [200_000, 2_000_000])
def test_a_byte_limit_leaves_something_to_measure_however_long_warming_up_may_take(bytes_max: int) -> None:
    """A server of 3 GB/s reaches any limit within half a second."""
    with references.running("sink", len(REQUEST), 60) as (port, _):
        seen = loadgen.run(port, REQUEST, connections=2, depth=2, seconds=30, warm_up_s=20, bytes_max=bytes_max)
    assert seen.seconds < 20
    assert bytes_max / 2 < seen.requests * (len(REQUEST) + 60) <= bytes_max
