"""The cost of a group coordinator's state in this process: to load it from a node's data, and to keep it in memory.

    python -m benchmarks.group_state DATA_DIRECTORY

The directory is one of `log.dirs` of a node that is not running. It is only read.
"""

import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from broker.coordinator.group.config import GroupConfig
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.hosted_shard import Phase
from broker.coordinator.runtime.shard_loader import ShardLoader as Replay
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_loader import load_log
from kraft.env import real_env
from metadata.configuration.vocabulary import DAY_MS

# The default of offsets.load.buffer.size.
_BUFFER_BYTES = 5 * 1024 * 1024


@attrs.define
class Loading:
    """The loaded state, and the cost of loading: CPU time in this process, or elapsed time as a node reports it."""

    partitions: int = 0
    records: int = 0
    seconds: float = 0.0
    size_bytes: int = 0

    def add(self, records: int, seconds: float, size_bytes: int = 0) -> None:
        self.partitions += 1
        self.records += records
        self.seconds += seconds
        self.size_bytes += size_bytes

    @property
    def us_per_record(self) -> float:
        return 1e6 * self.seconds / self.records if self.records else 0.0


@attrs.define
class _LoadedPartition:
    """The parts of a leader's partition that loading needs."""

    log: Log | None


class _Shard:
    """The parts of a shard that loading needs."""

    phase = Phase.LOADING
    is_fenced = False
    end_offset = 0

    def __init__(self, log: Log) -> None:
        self.partition = _LoadedPartition(log)
        nothing: Any = None
        self.state = GroupCoordinatorShard(nothing, GroupConfig())


def load(data: Path) -> Loading:
    """Load every partition of the offsets topic, one after the other."""
    loading = Loading()
    for log in _logs(data):
        began = time.thread_time()
        _, replay = _replay(log)
        loading.add(replay.records, time.thread_time() - began, replay.size_bytes)
    return loading


def _replay(log: Log) -> tuple[GroupCoordinatorShard, Replay]:
    shard: Any = _Shard(log)
    replay = Replay(shard, _BUFFER_BYTES)
    trio.run(replay.run)
    return shard.state, replay


def _logs(data: Path) -> Iterator[Log]:
    disk = real_env(lambda kind, /, **fields: None).disk
    for directory in sorted(data.glob(f"{CONSUMER_OFFSETS}-*")):
        yield load_log(
            disk,
            str(directory),
            LogConfig(cleanup_policy=("compact",)),
            recovery_point=0,
            log_start_offset=0,
            clean=False,
            now_ms=time.time_ns() // 1_000_000,
            producer_expiration_ms=DAY_MS,
            trace=lambda kind, /, **fields: None,
        )


@attrs.frozen
class MemoryUse:
    """The memory of a coordinator for the groups of a data directory."""

    groups: int
    groups_bytes: int
    offsets: int
    offsets_bytes: int


def measure_memory(data: Path) -> MemoryUse:
    logs = list(_logs(data))
    tracemalloc.start()
    try:
        states = [_replay(log)[0] for log in logs]
        held = tracemalloc.get_traced_memory()[0]
        groups, offsets = sum(len(each.groups) for each in states), sum(len(each.offsets) for each in states)
        for state in states:
            state.groups.clear()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return MemoryUse(groups, held - left, offsets, left)


def main(arguments: Sequence[str]) -> int:
    data = Path(arguments[0])
    loading = load(data)
    print(
        f"{loading.records:,} records in {loading.partitions} partitions, {loading.size_bytes / 1e6:.1f} MB: "
        f"{loading.seconds:.2f} s, {loading.us_per_record:.1f} us each"
    )
    weight = measure_memory(data)
    print(
        f"{weight.offsets:,} offsets: {weight.offsets_bytes / max(1, weight.offsets):,.0f} bytes each; "
        f"{weight.groups:,} groups: {weight.groups_bytes / max(1, weight.groups):,.0f} bytes each"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
