"""The longest time for which the largest valid request of each API blocks the event loop.

    python -m benchmarks.bench_loop_holds [--topics 1000] [--partitions 50000] [--groups 1000] [--apis 3 32]
                                          [--last]

A node runs in this process. A client in a thread sends it requests of every API in every version, as large as the
limits allow, then pushes of client metrics that are small only on the wire, and it scrapes the result. Besides the
node's own topics there are partitions of a broker that does not run, to make the metadata large. A hold is CPU time of
the loop's thread; one that is too long is measured up to three times, and the shortest result counts. The exit code is
1 if a hold is longer than allowed and its API is not in `NAMED`.
"""

import argparse
import gc
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks import report
from benchmarks.blocking_client import BlockingClient
from benchmarks.largest_requests import LargeRequest, Names, largest_requests, small_request
from benchmarks.loop_holds import LoopHolds
from benchmarks.populated_node import PopulatedNode, populated_node
from benchmarks.pushed_telemetry import CLIENTS, PushingClient, pushes, scrape, unique_labels
from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.server.handler import Handler
from broker.server.handler_entry import HandlerEntry
from broker.wire.api import APIS
from broker.wire.records.compression import Compression

HOLD_MAX_S = 0.020
# APIs whose largest request may block the loop for longer, and the reasons.
NAMED: dict[str, str] = {
    "Produce": "one batch is checked in one go: 0.1 s for 1 MiB of tiny records in a compacted topic",
    "Metadata": "creates missing topics: the logs of 32 new partitions are made at once, 1 to 2 ms each on a busy disk",
    "CreateTopics": "likewise; and a topic is one decision, of up to 10,000 partitions",
    "CreatePartitions": "likewise",
    "DeleteTopics": "the logs of 32 deleted partitions are closed and renamed at once",
    "AlterPartitionReassignments": "the logs of 32 new replicas are made at once",
    "AlterPartition": "asked by brokers only, about all that they lead; one decision",
    "AssignReplicasToDirs": "asked by brokers only; one decision",
    "ConsumerGroupHeartbeat": "an assignment is one decision; of 50,000 partitions it takes longer",
}
# The number of measurements of a hold that is too long. CPU times vary because other programs evict the caches.
_ATTEMPTS: Final = 3


@attrs.define
class Hold:
    """The longest hold of an API: its version and shape, the request's size in bytes, and the outcome."""

    api: str
    seconds: float
    version: int
    shape: str
    request_bytes: int
    response_bytes: int
    task: str

    def cells(self) -> list[str]:
        answered = f"{self.response_bytes:,}" if self.response_bytes else "closed"
        return [
            self.api,
            str(self.version),
            self.shape,
            f"{self.request_bytes:,}",
            answered,
            f"{self.seconds * 1e3:.1f} ms",
            self.task,
        ]


def measure(
    holds: LoopHolds,
    port: int,
    entries: Sequence[HandlerEntry],
    names: Names,
    *,
    last_version_only: bool = False,
    part: float = 1.0,
) -> list[Hold]:
    """Measure the longest hold of each API, with requests of `part` of the largest size."""
    longest: list[Hold] = []
    for entry in entries:
        handler = entry.handler
        versions = range(handler.min_version, handler.max_version + 1)
        found = [
            _hold(holds, port, handler, each, names, part)
            for each in (versions[-1:] if last_version_only else versions)
        ]
        longest.append(max((one for some in found for one in some), key=lambda hold: hold.seconds))
    return longest


def _settle_garbage() -> None:
    """Freeze the client's objects, so that collections during the request do not scan them."""
    gc.collect()
    gc.freeze()


def _warm_up(port: int, handler: Handler, version: int, names: Names) -> None:
    """Compile the codecs of the version, which takes some milliseconds once."""
    with BlockingClient(port) as client:
        client.exchange(client.frame(small_request(handler, version, names), version))


def _hold(holds: LoopHolds, port: int, handler: Handler, version: int, names: Names, part: float) -> list[Hold]:
    _warm_up(port, handler, version, names)
    found = []
    for request in largest_requests(handler, version, names, part):
        attempts = [_send(holds, port, handler, request, part)]
        while attempts[-1].seconds > HOLD_MAX_S and attempts[-1].api not in NAMED and len(attempts) < _ATTEMPTS:
            attempts.append(_send(holds, port, handler, request, part))
        found.append(min(attempts, key=lambda hold: hold.seconds))
    return found


def _send(holds: LoopHolds, port: int, handler: Handler, request: LargeRequest, part: float) -> Hold:
    with BlockingClient(port) as client:
        frame = client.frame(request.message, request.version)
        if part == 1.0:  # smaller requests are used where there is no time for the largest ones
            _settle_garbage()
        holds.reset()
        answered = client.exchange(frame)
        api = APIS[handler.api_key].name
        return Hold(api, holds.longest_s, request.version, request.shape, len(frame), answered, holds.task)


def measure_telemetry(holds: LoopHolds, node: PopulatedNode) -> list[Hold]:
    """Measure pushes of all shapes and compressions, and a scrape after those of several clients."""
    found = []
    for shape, metrics in pushes():
        for compression in Compression:
            with BlockingClient(node.port) as client:
                frame = PushingClient.subscribed(client).frame(metrics, compression)
                found.append(_exchange(holds, client, "PushTelemetry", f"{shape}, {compression.config_name}", frame))
    for number in range(CLIENTS):
        with BlockingClient(node.port) as client:
            client.exchange(PushingClient.subscribed(client).frame(unique_labels(number), Compression.ZSTD))
    holds.reset()
    size = scrape(node.http_port)
    return [*found, Hold("scrape", holds.longest_s, 0, f"{CLIENTS} clients' metrics", 0, size, holds.task)]


def _exchange(holds: LoopHolds, client: BlockingClient, api: str, shape: str, frame: bytes) -> Hold:
    holds.reset()
    answered = client.exchange(frame)
    return Hold(api, holds.longest_s, 0, shape, len(frame), answered, holds.task)


async def run(options: argparse.Namespace, holds: LoopHolds, directory: Path) -> list[Hold]:
    async with populated_node(directory, options.topics, options.partitions, options.groups) as node:
        gc.collect()
        gc.freeze()
        found = await trio.to_thread.run_sync(measure_all, holds, node, options.apis, options.last)
        return found if options.apis else [*found, *await trio.to_thread.run_sync(measure_telemetry, holds, node)]


def measure_all(
    holds: LoopHolds, node: PopulatedNode, apis: Sequence[int] | None, last: bool, part: float = 1.0
) -> list[Hold]:
    """Measure the longest hold of each API of both listeners; by default of all APIs."""

    def wanted(entries: Sequence[HandlerEntry], beyond: Sequence[HandlerEntry] = ()) -> list[HandlerEntry]:
        known = {entry.api_key for entry in beyond}
        return [each for each in entries if each.api_key not in known and (not apis or each.api_key in apis)]

    listeners = (
        (node.port, wanted(HANDLERS)),
        (node.controller_port, wanted(CONTROLLER_HANDLERS, HANDLERS)),
    )
    return [
        hold
        for port, entries in listeners
        for hold in measure(holds, port, entries, node.names, last_version_only=last, part=part)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_loop_holds")
    parser.add_argument("--topics", type=int, default=1_000, help="of one partition each, on this node")
    parser.add_argument("--partitions", type=int, default=50_000, help="on a broker that does not run")
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--apis", type=int, nargs="+", help="keys; all by default")
    parser.add_argument("--last", action="store_true", help="only the last version of each")
    options = parser.parse_args(arguments)
    gc.set_threshold(5_000, 3, 600)  # as `kraft start` sets it
    holds = LoopHolds()
    with tempfile.TemporaryDirectory() as directory:
        found = trio.run(run, options, holds, Path(directory), instruments=[holds])
    rows = [hold.cells() for hold in sorted(found, key=lambda hold: -hold.seconds)]
    print(report.table(["API", "version", "shape", "request bytes", "response bytes", "hold", "task"], rows))
    too_long = [hold.api for hold in found if hold.seconds > HOLD_MAX_S and hold.api not in NAMED]
    if too_long:
        print(f"longer than {HOLD_MAX_S * 1e3:.0f} ms: {', '.join(too_long)}")
    return bool(too_long)


if __name__ == "__main__":
    sys.exit(main())
