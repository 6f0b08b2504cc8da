"""The cost of metrics on a large node: a scrape with 100,000 partitions, and with 10,000 clients that have quotas.

    python -m benchmarks.bench_metrics [--partitions 100000] [--clients 10000]

A node runs in this process, and its broker is given partitions that share one log. A client reads /metrics without
keeping it. A hold is CPU time of the loop's thread between two polls. The exit code is 1 if one is too long.
"""

import argparse
import gc
import os
import resource
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks.loop_holds import LoopHolds
from benchmarks.node_here import node_here
from broker.metrics import TEXT, exposition
from broker.metrics.collectors import QuotaCollector
from broker.node import Node
from broker.quota import BrokerQuotas, QuotaWindows
from broker.replication.partition import Partition
from broker.replication.replica_manager import LocalTopic
from broker.replication.role_changes import apply_image
from broker.server.quotas import Usage
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables
from metadata.image import MetadataDelta, MetadataImage, PartitionImage
from metadata.records import ClientQuotaRecord

HOLD_MAX_S: Final = 0.020
_PARTITIONS_PER_TOPIC: Final = 100
_PRODUCE: Final = 0
_SETTINGS: Final = {"http.listener": "127.0.0.1:0"}


@attrs.frozen
class Scrape:
    """One scrape: its size in bytes, its elapsed and CPU time, and the longest hold of the loop."""

    size: int
    series: int
    elapsed_s: float
    cpu_s: float
    hold_s: float
    task: str


async def main_async(partitions: int, clients: int) -> bool:
    holds = LoopHolds()
    trio.lowlevel.add_instrument(holds)
    with tempfile.TemporaryDirectory(prefix="bench-metrics-") as directory:
        async with node_here(Path(directory), _SETTINGS) as node:
            port = next(bound.port for bound in node.bound if bound.listener.name == "HTTP")
            print(f"{'partitions':>10} {'series':>9} {'MB':>7} {'elapsed s':>9} {'CPU s':>7} {'hold ms':>8} RSS MB")
            few = await _measured(port, holds)
            _show(0, few)
            _add_partitions(node, partitions)
            gc.collect()
            before_mb = _resident_mb()
            scrapes = [await _measured(port, holds) for _ in range(3)]
            for scrape in scrapes:
                _show(partitions, scrape)
            print(
                f"resident memory: {before_mb:.0f} MB before, {_resident_mb():.0f} MB after, "
                f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
            )
    _quotas(clients)
    return max(scrape.hold_s for scrape in scrapes) <= HOLD_MAX_S


def _add_partitions(node: Node, count: int) -> None:
    """Give the broker so many partitions, as far as its metrics go. They share the log of a real one."""
    assert node.broker is not None
    manager = node.broker.partitions
    context, tasks = manager.context, manager._tasks
    config = node.broker._shared.effective.topic("t", {}).log
    log = node.broker._log_manager.create("shared", bytes(16), 0, config)
    for number in range(count // _PARTITIONS_PER_TOPIC):
        name, topic_id = f"topic-{number:05}", number.to_bytes(16, "big")
        topic = manager.topics[name] = LocalTopic(name, topic_id)
        for index in range(_PARTITIONS_PER_TOPIC):
            partition = Partition(name, topic_id, index, log, context, tasks)
            apply_image(partition, PartitionImage((context.local_id,), (context.local_id,), context.local_id, 0, 0))
            partition.topic_traffic = topic.traffic
            topic.partitions[index] = partition


async def _measured(port: int, holds: LoopHolds) -> Scrape:
    await trio.sleep(0.1)
    holds.reset()
    began_s, cpu_s = time.perf_counter(), time.thread_time()
    size, series = await trio.to_thread.run_sync(_read, port)
    cpu_s = time.thread_time() - cpu_s
    return Scrape(size, series, time.perf_counter() - began_s, cpu_s, holds.longest_s, holds.task)


def _read(port: int) -> tuple[int, int]:
    """The size and the number of series of a scrape, which is not kept."""
    size = series = 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        while data := response.read(1 << 16):
            size += len(data)
            series += data.count(b"\n")
    return size, series


def _ignore(*arguments: object, **fields: object) -> None:
    """Do nothing."""


def _quotas(clients: int) -> None:
    """Quotas of so many users, each of which has produced."""
    now_ms = [0.0]
    quotas = BrokerQuotas(QuotaWindows(11, 1), lambda: now_ms[0], _ignore, _ignore, _ignore)
    image = MetadataImage()
    before_mb = _resident_mb()
    delta = MetadataDelta(image)
    entities = [(("user", f"user-{number}"),) for number in range(clients)]
    delta.replay([ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1e6) for entity in entities])
    quotas.publish(delta, delta.apply(1))
    tables = ShortcutTables()
    for number in range(clients):
        session = Session.authenticated(f"User:user-{number}", "127.0.0.1", "PLAINTEXT", tables)
        quotas.charge(Usage(session, "app", _PRODUCE, 12, request_bytes=1000), 0.0)
    after_mb = _resident_mb()
    began_s = time.thread_time()
    longest_s, size, last_s = 0.0, 0, began_s
    for piece in exposition(QuotaCollector(quotas).collect(), TEXT):
        size += len(piece)
        now_s = time.thread_time()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    print(
        f"{clients:,} clients with quotas: {after_mb - before_mb:.1f} MB with their quotas and rates; "
        f"{size / 1e6:.1f} MB of text in {time.thread_time() - began_s:.3f} s of CPU, "
        f"longest step {longest_s * 1000:.2f} ms, {_resident_mb() - after_mb:.1f} MB more after it"
    )
    now_ms[0] += 60_000
    left = sum(1 for piece in exposition(QuotaCollector(quotas).collect(), TEXT) if "user-" in piece)
    print(f"after a minute without requests: {left} pieces with series of clients")


def _show(partitions: int, scrape: Scrape) -> None:
    print(
        f"{partitions:10,} {scrape.series:9,} {scrape.size / 1e6:7.1f} {scrape.elapsed_s:9.2f} {scrape.cpu_s:7.2f} "
        f"{scrape.hold_s * 1000:8.1f} {_resident_mb():.0f}   {scrape.task}"
    )


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=10_000)
    arguments = parser.parse_args()
    return 0 if trio.run(main_async, arguments.partitions, arguments.clients) else 1


if __name__ == "__main__":
    sys.exit(main())
