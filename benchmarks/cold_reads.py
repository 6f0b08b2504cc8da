"""A consumer that catches up from files that are not in the page cache, beside a live consumer of the same partition.

    python -m benchmarks.cold_reads BOOTSTRAP TOPIC RECORDS

is the consumer that catches up, in a process of its own. It reads so many records after a line on its standard input,
and prints the result as JSON.
"""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import attrs
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from benchmarks import client_loads
from benchmarks.figures import Figure
from benchmarks.load_parts import AIM_BULK, CpuUse, FilledTopics, Load, cpu_figures, cpu_use
from benchmarks.loadgen import LoadFailed
from benchmarks.peers import Peer

_RECORD_BYTES: Final = 1024
_RECORDS: Final = 400_000
_LIVE_RATE: Final = 500
_LIVE_BYTES: Final = 100
_ALONE_S: Final = 0.5
_CATCH_UP_S_MAX: Final = 20
_TIME = struct.Struct(">d")
_PAGE_BYTES: Final = 4096
_SAMPLES: Final = 16


def drop_from_page_cache(directory: Path) -> None:
    """Write the segments in a directory to the disk, and drop them from the page cache. Raises LoadFailed if the file
    system keeps them in memory.
    """
    for path in directory.glob("*.log"):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            if _is_cached(file):
                raise LoadFailed(f"the file system keeps {path.name} in the page cache")
        finally:
            os.close(file)


def _is_cached(file: int) -> bool:
    """True if most of some pages, evenly spread over the records, are read without waiting for the disk."""
    # A preallocated segment is larger.
    size = min(os.fstat(file).st_size, _RECORDS * _RECORD_BYTES)
    cached = 0
    for sample in range(_SAMPLES if size >= _SAMPLES * _PAGE_BYTES else 0):
        with suppress(BlockingIOError):
            cached += bool(os.preadv(file, [bytearray(1)], size * sample // _SAMPLES, os.RWF_NOWAIT))
    return cached > _SAMPLES // 2


class LiveConsumer:
    """A producer of records at a steady rate and a consumer at the end of the partition."""

    def __init__(self, stack: ExitStack, peer: Peer, topic: str) -> None:
        shared: dict[str, Any] = {"bootstrap.servers": peer.bootstrap, "log_level": 3}
        self._topic = topic
        self._producer = Producer({**shared, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer({**shared, "group.id": "live", "enable.auto.commit": False})
        stack.callback(self._consumer.close)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        self._latencies_s: list[float] = []
        self._await_first()

    def _await_first(self) -> None:
        """The consumer has found the end of the partition when it gets a record."""
        deadline = time.perf_counter() + _CATCH_UP_S_MAX
        while not self._latencies_s:
            if time.perf_counter() > deadline:
                raise LoadFailed("the live consumer got no record")
            self._send(time.perf_counter())
            self._receive_until(time.perf_counter() + 0.05)

    def latencies_ms(self, name: str, goes_on: Callable[[], bool]) -> list[Figure]:
        """The times from when each record was due to its arrival, while a condition holds."""
        self._latencies_s = []
        began, number = time.perf_counter(), 0
        while goes_on():
            due = began + number / _LIVE_RATE
            self._receive_until(due)
            self._send(due)
            number += 1
        self._producer.flush(_CATCH_UP_S_MAX)
        self._receive_until(time.perf_counter() + 0.1)
        if len(self._latencies_s) < number:
            raise LoadFailed(f"{number - len(self._latencies_s)} of {number} live records did not arrive")
        ordered = sorted(self._latencies_s)
        return [
            Figure(f"{name}: p{percent}", "ms", ordered[number * percent // 100] * 1e3, False) for percent in (50, 99)
        ]

    def _send(self, due: float) -> None:
        self._producer.produce(self._topic, _TIME.pack(due) + bytes(_LIVE_BYTES - _TIME.size), partition=0)
        self._producer.poll(0)

    def _receive_until(self, until: float) -> None:
        while (left := until - time.perf_counter()) > 0:
            if (message := self._consumer.poll(left)) is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            value = message.value()
            assert value is not None, "a live record has a value"
            self._latencies_s.append(time.perf_counter() - _TIME.unpack_from(value)[0])


class ColdReads:
    """The part of one run. Each node's topic is filled once."""

    def __init__(self, filled: FilledTopics) -> None:
        self._filled = filled
        self._load = Load("cold files", client_loads.zeros(_RECORD_BYTES), 1)

    def __call__(self, peer: Peer, _seconds: float) -> list[Figure]:
        topic = self._filled.name(peer, self._load, _RECORDS)
        with ExitStack() as stack:
            live = LiveConsumer(stack, peer, topic)
            until = time.perf_counter() + _ALONE_S
            alone = live.latencies_ms("live consumer alone", lambda: time.perf_counter() < until)
            process = stack.enter_context(_catch_up_process(peer, topic))
            drop_from_page_cache(peer.data / f"{topic}-0")
            with cpu_use(peer) as used:
                print(file=process.stdin, flush=True)
                beside = live.latencies_ms("live consumer beside a catch-up", lambda: process.poll() is None)
            return _catch_up_figures(process, used) + beside + alone


def _catch_up_process(peer: Peer, topic: str) -> "subprocess.Popen[str]":
    """Starts the consumer that catches up, and waits until it is ready."""
    command = [sys.executable, "-m", "benchmarks.cold_reads", peer.bootstrap, topic, str(_RECORDS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "the output is piped"
    process.stdout.readline()
    return process


def _catch_up_figures(process: "subprocess.Popen[str]", used: CpuUse) -> list[Figure]:
    output = process.communicate()[0]
    if process.returncode:
        raise LoadFailed(f"the consumer that catches up ended with exit code {process.returncode}")
    name, read = f"catch up from cold files, {_RECORD_BYTES:,} B", json.loads(output)
    if read["records"] < _RECORDS - 1:
        raise LoadFailed(f"the consumer that catches up got {read['records']} of {_RECORDS} records")
    return [
        Figure(name, "records/s", read["records"] / read["seconds"], True, AIM_BULK),
        *cpu_figures(name, used.server_s / read["records"] * 1e6, read["cpu_s"] / read["records"] * 1e6, "us/record"),
    ]


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    bootstrap, topic, records = arguments
    print("ready", flush=True)
    sys.stdin.readline()
    cpu_s = time.process_time()
    read = client_loads.consume(bootstrap, topic, 1, int(records), _CATCH_UP_S_MAX)
    print(json.dumps({**attrs.asdict(read), "cpu_s": time.process_time() - cpu_s}))


if __name__ == "__main__":
    main()
