"""The cost of metadata as the number of partitions grows: a controller and its quorum in this process, on a real disk.

    python -m benchmarks.bench_metadata [--partitions 100 1000 10000] [--seconds 5] [--directory DIR]

One voter is the active controller, and three registered brokers send it heartbeats. It takes a snapshot and restarts
from it, and an empty replica fetches the snapshot over a connection. A pause is the longest time for which other tasks
did not run. The exit code is 1 if the CPU time of one config change, or of an idle controller, grows with the
partitions.
"""

import argparse
import gc
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter, process_time, thread_time

import attrs
import trio

from benchmarks import report
from benchmarks.metadata_replicas import LEADER_ID, Replica, run_replica
from metadata.controller import ConfigChange, NewTopic
from metadata.image import ConfigResource, image_records
from metadata.protocol import ConfigOperation, ConfigResourceType
from metadata.records import encode_record

NEW_ID = 2
BROKERS = (1, 2, 3)
PARTITIONS_PER_TOPIC = 10
TOPICS_PER_REQUEST = 50
CHANGES = 300
# The allowed ratio between the largest and the smallest state. It allows for caches and for other programs.
GROWTH_MAX = 2.0
# An idle controller's use of a core that heartbeats and the interpreter need in any case.
IDLE_NOISE = 0.001

HEAD = ["partitions", "state", "create all", "one change", "its CPU", "idle CPU"]
HEAD += [cell for what in ("take snapshot", "start from it", "new replica") for cell in (what, "pause")]


@attrs.define
class Timed:
    """The duration of an operation, and the longest delay of a task that sleeps one millisecond at a time meanwhile."""

    seconds: float = 0.0
    pause_s: float = 0.0

    def cells(self) -> list[str]:
        return [_ms(self.seconds), _ms(self.pause_s)]

    async def watch(self) -> None:
        before = perf_counter()
        while True:
            await trio.sleep(0.001)
            now = perf_counter()
            self.pause_s = max(self.pause_s, now - before - 0.001)
            before = now


@asynccontextmanager
async def timed() -> AsyncIterator[Timed]:
    result, began = Timed(), perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(result.watch)
        yield result
        result.seconds = perf_counter() - began
        await trio.sleep(0.002)  # so that the last delay is included
        nursery.cancel_scope.cancel()


@attrs.frozen
class Figures:
    """The figures for one number of partitions. `idle` is a fraction of one core."""

    partitions: int
    state_bytes: int
    create_s: float
    change_s: float
    change_cpu_s: float
    idle: float
    taken: Timed
    started: Timed
    fetched: Timed

    def cells(self) -> list[str]:
        cells = [f"{self.partitions:,}", f"{report.number(self.state_bytes / 1024)} KiB", _ms(self.create_s)]
        cells += [_ms(self.change_s), f"{report.number(self.change_cpu_s * 1e6)} us", f"{self.idle:.2%}"]
        return [*cells, *self.taken.cells(), *self.started.cells(), *self.fetched.cells()]


async def measure(directory: str, partitions: int, seconds: float) -> Figures:
    async with trio.open_nursery() as nursery:
        leader: Replica = await nursery.start(run_replica, f"{directory}/leader", LEADER_ID, "")
        for broker_id in BROKERS:
            await leader.join(broker_id, nursery)
        create_s = await _create(leader, partitions)
        change_s, change_cpu_s = await _change(leader)
        idle = await _idle(seconds)
        image = leader.loader.image
        async with timed() as taken:
            await leader.log.take_snapshot(image.offset + 1, map(encode_record, image_records(image)))
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        async with timed() as started:
            leader = await nursery.start(run_replica, f"{directory}/leader", LEADER_ID, "")
        assert leader.loader.image == image, "the snapshot holds everything"
        async with timed() as fetched:
            new: Replica = await nursery.start(run_replica, f"{directory}/new", NEW_ID, leader.address)
            while new.loader.image.offset < image.offset:
                await trio.sleep(0.001)
        assert new.loader.image == image, "the snapshot arrived"
        nursery.cancel_scope.cancel()
    state_bytes = sum(len(encode_record(record)) for record in image_records(image))
    return Figures(partitions, state_bytes, create_s, change_s, change_cpu_s, idle, taken, started, fetched)


async def _create(leader: Replica, partitions: int) -> float:
    began = perf_counter()
    topics = [NewTopic(f"topic-{number}", PARTITIONS_PER_TOPIC) for number in range(partitions // PARTITIONS_PER_TOPIC)]
    for first in range(0, len(topics), TOPICS_PER_REQUEST):
        created = await leader.controller.create_topics(topics[first : first + TOPICS_PER_REQUEST])
        assert all(topic.error is None for topic in created), created
    return perf_counter() - began


async def _change(leader: Replica) -> tuple[float, float]:
    """Medians of the time until one change of a topic's config is committed, and of its CPU time without fsync."""
    took, used = [], []
    resource = ConfigResource(ConfigResourceType.TOPIC, "topic-7")
    for number in range(CHANGES):
        began, cpu = perf_counter(), thread_time()
        change = ConfigChange("segment.ms", ConfigOperation.SET, str(60_000 + number))
        (outcome,) = await leader.controller.incremental_alter_configs([(resource, [change])])
        assert outcome.error is None, outcome
        took.append(perf_counter() - began)
        used.append(thread_time() - cpu)
    return report.median(took), report.median(used)


async def _idle(seconds: float) -> float:
    cpu = process_time()
    await trio.sleep(seconds)
    return (process_time() - cpu) / seconds


def grown(rows: Sequence[Figures]) -> list[str]:
    """The figures that are much larger with the most partitions than with the fewest."""
    few, many = rows[0], rows[-1]
    costs = [("one change", few.change_cpu_s, many.change_cpu_s), ("idle", few.idle + IDLE_NOISE, many.idle)]
    return [what for what, before, after in costs if after > GROWTH_MAX * before]


def _ms(seconds: float) -> str:
    return f"{report.number(seconds * 1e3)} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_metadata")
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--seconds", type=float, default=5, help="for which the idle controller is watched")
    parser.add_argument("--directory", help="on the disk to measure; a temporary one by default")
    options = parser.parse_args(arguments)
    # As `kraft start` does: collections that scan a whole image would take longer than all measured operations.
    gc.freeze()
    gc.set_threshold(5_000, 3, 600)
    rows = []
    for partitions in sorted(options.partitions):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            rows.append(trio.run(measure, directory, partitions, options.seconds))
    print(report.table(HEAD, [row.cells() for row in rows]))
    too_much = grown(rows)
    print(f"\n{', '.join(too_much) or 'nothing'} grows with the partitions")
    print(report.save("metadata", {"rows": [attrs.asdict(row) for row in rows]}))
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
