"""The groups, transactions and share-partitions that this broker coordinates."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.group.share_groups import ShareGroups
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.transaction import TransactionState
from broker.metrics.catalogue import coordinators
from broker.metrics.histogram import Histogram
from broker.metrics.metric import Family, Sample

# Groups or transactions between two steps in families that do not have a series for each.
_STEP_ITEMS: Final = 64
_WRITE_BOUNDS_MS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000)


class GroupCollector:
    """Reads the groups of `runtime`. `end_offset` is a partition's high watermark; None if it is not known."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        end_offset: Callable[[str, int], int | None],
    ) -> None:
        self._runtime = runtime
        self._end_offset = end_offset

    def collect(self) -> Iterable[Family]:
        states = self._runtime.active_states
        yield coordinators.GROUP_COUNT, _group_counts(states)
        yield coordinators.OFFSET_COUNT, _offset_count(states)
        yield coordinators.GROUP_MEMBERS, _members(states)
        yield coordinators.GROUP_OFFSET, _offsets(states)
        yield coordinators.GROUP_LAG, self._lags(states)

    def _lags(self, states: list[GroupCoordinatorShard]) -> Iterator[Sample | None]:
        for group_id, topic, partition, offset in committed_offsets(states):
            end_offset = self._end_offset(topic, partition)
            if end_offset is None:
                yield None
            else:
                yield Sample((group_id, topic, str(partition)), max(0, end_offset - offset))


def committed_offsets(states: Iterable[GroupCoordinatorShard]) -> Iterator[tuple[str, str, int, int]]:
    """Group, topic, partition and offset of all committed offsets. Other tasks may run between two of them."""
    for state in states:
        for group_id in state.offsets.group_ids():
            for topic, offsets in list(state.offsets.of_group(group_id).items()):
                for partition, committed in list(offsets.items()):
                    yield group_id, topic, partition, committed.offset


def _group_counts(states: Iterable[GroupCoordinatorShard]) -> Iterator[Sample | None]:
    counts: Counter[tuple[str, str]] = Counter()
    for state in states:
        for number, group in enumerate(list(state.groups.values())):
            counts[group.group_type, group.state] += 1
            if not number % _STEP_ITEMS:
                yield None
    for labels, count in sorted(counts.items()):
        yield Sample(labels, count)


def _offset_count(states: Iterable[GroupCoordinatorShard]) -> Iterator[Sample | None]:
    count = 0
    for state in states:
        for group_id in state.offsets.group_ids():
            count += sum(map(len, state.offsets.of_group(group_id).values()))
            yield None
    yield Sample((), count)


def _offsets(states: Iterable[GroupCoordinatorShard]) -> Iterator[Sample]:
    for group_id, topic, partition, offset in committed_offsets(states):
        yield Sample((group_id, topic, str(partition)), offset)


def _members(states: Iterable[GroupCoordinatorShard]) -> Iterator[Sample]:
    for state in states:
        for group in list(state.groups.values()):
            yield Sample((group.group_id,), group.member_count)


class TransactionCollector:
    """Reads the transactions of `runtime`."""

    def __init__(self, runtime: CoordinatorRuntime[TransactionShard]) -> None:
        self._runtime = runtime

    def collect(self) -> Iterable[Family]:
        yield coordinators.TRANSACTIONS, self._transactions()

    def _transactions(self) -> Iterator[Sample | None]:
        counts = Counter(dict.fromkeys(TransactionState, 0))
        for state in self._runtime.active_states:
            for number, transaction in enumerate(list(state.transactions.values())):
                counts[transaction.state] += 1
                if not number % _STEP_ITEMS:
                    yield None
        for each, count in counts.items():
            yield Sample((each.wire_name,), count)


class ShareCollector:
    """Reads share groups and a share coordinator, and has this report the time of each write."""

    def __init__(self, coordinator: ShareCoordinator, groups: ShareGroups) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._write_times = Histogram(_WRITE_BOUNDS_MS)
        coordinator.record_write_s = lambda seconds: self._write_times.record(seconds * 1000)

    def collect(self) -> Iterable[Family]:
        coordinator = self._coordinator
        yield coordinators.SHARE_REBALANCES.single(self._groups.rebalance_count)
        yield coordinators.SHARE_WRITES.single(coordinator.write_count)
        yield coordinators.SHARE_WRITE_TIME.single(self._write_times.distribution)
        topic, pruned = coordinator.runtime.settings.topic, sorted(coordinator.last_pruned.items())
        yield coordinators.SHARE_PRUNED_OFFSET, [Sample((topic, str(index)), offset) for index, offset in pruned]
