"""The calls, files and classes that one request crosses from the socket to its reply.

Run as `python -m benchmarks.request_paths`. A node serves in this thread while a client in another one sends the same
requests again and again. Calls of Python functions of the product are counted; of ten requests the one with the fewest
calls counts, since other tasks of the node run meanwhile. The numbers depend on the code alone, not on the machine.

With `--instructions`, the machine instructions of a node per request are counted by valgrind instead.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import attrs
import trio

from benchmarks import protocol
from benchmarks.counted_node import CountedKraft
from benchmarks.node_here import node_here
from broker.client import encode_request
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = tuple(f"{ROOT / name}/" for name in ("broker", "kraft", "metadata"))
_ROUNDS: Final = 10
_COUNTED_REQUESTS: Final = 2_000
_TOPIC: Final = "paths"


@attrs.frozen
class RequestPath:
    """The numbers of calls, files and classes that one request crosses."""

    calls: int
    files: int
    classes: int


class Recorder:
    """Records the calls in this thread while it is `on`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None]] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (name := frame.f_code.co_filename).startswith(_PACKAGES):
            owner = frame.f_locals.get("self")
            self.calls.append((name, None if owner is None else type(owner).__qualname__))

    def take(self) -> RequestPath:
        calls, self.calls = self.calls, []
        return RequestPath(len(calls), len({name for name, _ in calls}), len({owner for _, owner in calls if owner}))


def _requests() -> dict[str, Callable[[int], bytes]]:
    """Each request by its name. Its number makes the request another one where it has to be."""
    produce = protocol.produce(_TOPIC, 0, protocol.batch(1, 100))
    fetch = protocol.fetch(_TOPIC, 0, 0, max_bytes=1000)
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in (0, 1)]
    fetch_two = FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=_TOPIC, partitions=partitions)])
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id="group", topics=[OffsetCommitRequestTopic(name=_TOPIC, partitions=[committed])]
    )
    heartbeat = HeartbeatRequest(group_id="group", member_id="unknown")
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)])

    def create_topics(number: int) -> bytes:
        topic = CreatableTopic(name=f"topic-{number}", num_partitions=1, replication_factor=1)
        return _frame(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)

    frames = {
        "Produce, shortcut": produce,
        "Produce, general": _with_tagged_field(produce),
        "Fetch, shortcut": fetch,
        "Fetch, two partitions": _frame(fetch_two, 12),
        "OffsetCommit": _frame(commit, 8),
        "Heartbeat": _frame(heartbeat, 4),
        "Metadata": _frame(metadata, 9),
    }
    same = {name: partial(_same, frame) for name, frame in frames.items()}
    return {**same, "CreateTopics": create_topics}


def _same(frame: bytes, _: int) -> bytes:
    return frame


def _with_tagged_field(frame: bytes) -> bytes:
    """The same request with a tagged field at its end, which no shortcut knows."""
    body = frame[4:-1] + b"\x01\x63\x00"
    return len(body).to_bytes(4, "big") + body


def _frame(request: Any, version: int) -> bytes:
    payload = encode_request(request, version, "bench")
    return len(payload).to_bytes(4, "big") + payload


def _measure(port: int, make: Callable[[int], bytes], recorder: Recorder, numbers: Sequence[int]) -> RequestPath:
    """Runs in the client's thread: sends the requests one by one, and returns the shortest path of the last ones."""
    paths = []
    with protocol.Connection(port) as connection:
        for number in numbers:
            recorder.take()
            connection.ask(make(number))
            trio.from_thread.run_sync(lambda: None)  # the node's turn has ended
            paths.append(recorder.take())
    return min(paths[-_ROUNDS:], key=lambda path: path.calls)


def _prepare(port: int, requests: Mapping[str, Callable[[int], bytes]]) -> None:
    with protocol.Connection(port) as connection:
        topic = CreatableTopic(name=_TOPIC, num_partitions=2, replication_factor=1)
        connection.ask(_frame(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7))
        connection.ask(_frame(FindCoordinatorRequest(key="group", key_type=0), 3))
        for _ in range(3):
            connection.ask(requests["Produce, shortcut"](0))


def _count_instructions() -> None:
    requests = _requests()
    print(f"{'request':24} {'instructions':>12}")
    with CountedKraft() as node:
        _prepare(node.port, requests)
        for place, (name, make) in enumerate(requests.items()):
            with protocol.Connection(node.port, timeout_s=60) as connection:
                for number in range(_COUNTED_REQUESTS // 4):
                    connection.ask(make(10_000 * place + number))
                node.begin_count()
                for number in range(_COUNTED_REQUESTS):
                    connection.ask(make(10_000 * place + 5_000 + number))
                print(f"{name:24} {node.end_count() // _COUNTED_REQUESTS:12,}", flush=True)


async def _count_calls() -> None:
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory:
        async with node_here(Path(directory), {"num.partitions": 1}) as node:
            port = node.bound[0].sockets[0].socket.getsockname()[1]
            requests = _requests()

            await trio.to_thread.run_sync(_prepare, port, requests)
            sys.setprofile(recorder)
            try:
                print(f"{'request':24} {'calls':>6} {'files':>6} {'classes':>8}")
                for place, (name, make) in enumerate(requests.items()):
                    numbers = range(1000 * place, 1000 * place + 3 * _ROUNDS)
                    path = await trio.to_thread.run_sync(_measure, port, make, recorder, numbers)
                    print(f"{name:24} {path.calls:6} {path.files:6} {path.classes:8}")
            finally:
                sys.setprofile(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", action="store_true", help="count machine instructions")
    if parser.parse_args().instructions:
        _count_instructions()
    else:
        trio.run(_count_calls)


if __name__ == "__main__":
    main()
