"""The cost of the scrubber: CPU per GB by the size of batches, and the latency of produce requests beside a pass.

    python -m benchmarks.bench_scrub [--megabytes 64] [--seconds 20]

A node runs in this process, with a client on the same event loop. Windows with a pass and without one take turns, so
that a busy machine is busy for both; the ratio of their latencies is the result.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import trio

from benchmarks.node_here import node_here
from broker.client import Admin, NewTopic, Producer
from broker.storage.scrub import ScrubConfig
from broker.storage.scrub.index_checks import OffsetIndexCheck, TimeIndexCheck
from broker.storage.scrub.segment_check import SegmentCheck
from broker.storage.scrub.transactions_check import TransactionsCheck
from broker.wire.records import Record, encode_batch
from broker.wire.records.batch import patch
from kraft.env import RealDisk

_WINDOW_S: Final = 1.0
_TOPIC: Final = "scrubbed"
_SETTINGS: Final = {"log.initial.task.delay.ms": 0, "log.scrub.enable": "false", "log.scrub.interval.ms": 1}


def cpu_per_gb(directory: Path, megabytes: int, batch_bytes: int) -> float:
    """The CPU seconds of a check of a segment with batches of this size, per GB."""
    path, random = directory / f"{batch_bytes}.log", Random(1)
    batch = bytearray(encode_batch([Record(value=random.randbytes(max(batch_bytes - 75, 1)))]))
    count = megabytes * 1_000_000 // len(batch)
    with path.open("wb") as output:
        for offset in range(count):
            patch(memoryview(batch), 0, offset, 0)
            output.write(batch)
    size = path.stat().st_size
    disk = RealDisk()
    indexes = OffsetIndexCheck(b"", 0), TimeIndexCheck(b"", 0)
    file = disk.open(str(path))
    check = SegmentCheck(file, 0, 2**31 - 1, size, False, 4096, *indexes, TransactionsCheck({}), iter(()), 0)
    began = time.process_time()
    while check.position < size:
        check.step()
        assert check.suspect is None, check.suspect
    elapsed = time.process_time() - began
    file.close()
    path.unlink()
    return elapsed / size * 1e9


async def _latencies(producer: Producer, seconds: float) -> list[float]:
    found: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        await producer.send(_TOPIC, b"x" * 100)
        found.append(time.perf_counter() - began)
    return found


async def compare(directory: Path, megabytes: int, seconds: float) -> None:
    """Print the latencies of windows with and without a pass."""
    async with node_here(directory, _SETTINGS) as node:
        port = next(bound.port for bound in node.bound if bound.listener.name == "PLAINTEXT")
        address = f"127.0.0.1:{port}"
        async with Admin(address) as admin:
            await admin.create_topics([NewTopic(_TOPIC, num_partitions=1)])
        assert node.broker is not None
        scrubber = node.broker.scrubber
        on = ScrubConfig(enable=True, interval_ms=1, initial_delay_ms=0)
        off = ScrubConfig(enable=False, interval_ms=1, initial_delay_ms=0)
        async with Producer(address, linger_ms=0) as producer:
            value = Random(2).randbytes(15_000)
            for _ in range(megabytes * 1_000_000 // len(value)):
                await producer.send(_TOPIC, value)
            await _latencies(producer, 1.0)
            times: dict[bool, list[float]] = {False: [], True: []}
            for window in range(int(seconds / _WINDOW_S)):
                is_on = window % 2 == 1
                scrubber.configure(on if is_on else off)
                times[is_on] += await _latencies(producer, _WINDOW_S)
        read_mb = scrubber.statistics.bytes_read / 1e6
        print(f"scrubbed {read_mb:.0f} MB in {seconds / 2:.0f} s")
        for percentile in (50, 99, 99.9):
            without, beside = _at(times[False], percentile), _at(times[True], percentile)
            print(f"p{percentile}: {without:.2f} ms without, {beside:.2f} ms with, ratio {beside / without:.2f}")


def _at(times: Sequence[float], percentile: float) -> float:
    return sorted(times)[min(int(len(times) * percentile / 100), len(times) - 1)] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-scrub-") as directory:
        for batch_bytes in (200, 1_000, 16_000, 1_000_000):
            cost = cpu_per_gb(Path(directory), arguments.megabytes, batch_bytes)
            print(f"batches of {batch_bytes} bytes: {cost:.2f} s of CPU per GB")
        trio.run(compare, Path(directory), arguments.megabytes, arguments.seconds)


if __name__ == "__main__":
    main()
