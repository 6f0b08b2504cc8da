"""Topics, partitions and their logs, on a broker.

Each family visits all partitions, so that the text can be sent while it is written: a node with 100,000 partitions has
some 80 MB of it. The list of partitions is copied once for a scrape; partitions that leave meanwhile are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from broker.metrics.catalogue import logs, replication, topics
from broker.metrics.metric import Family, Metric, Sample
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.replication.replica_manager import LocalTopic, ReplicaManager
from broker.replication.throttles import ReplicationThrottles
from broker.replication.topic_traffic import TopicTraffic
from broker.storage.log import Log

# Partitions between two steps in families that do not have a series for each.
_STEP_PARTITIONS: Final = 64

_TRAFFIC: Final[tuple[tuple[Metric, Callable[[TopicTraffic], int]], ...]] = (
    (topics.MESSAGES_IN, lambda traffic: traffic.records_in),
    (topics.BYTES_IN, lambda traffic: traffic.bytes_in),
    (topics.BYTES_OUT, lambda traffic: traffic.bytes_out),
    (topics.REPLICATION_BYTES_IN, lambda traffic: traffic.replication_bytes_in),
    (topics.REPLICATION_BYTES_OUT, lambda traffic: traffic.replication_bytes_out),
    (topics.FAILED_PRODUCES, lambda traffic: traffic.failed_produces),
    (topics.FAILED_FETCHES, lambda traffic: traffic.failed_fetches),
)
_LOG_VALUES: Final[tuple[tuple[Metric, Callable[[Log], int]], ...]] = (
    (logs.LOG_SIZE, lambda log: log.size_bytes),
    (logs.LOG_START_OFFSET, lambda log: log.log_start_offset),
    (logs.LOG_END_OFFSET, lambda log: log.readable_end_offset),
)
_LED_VALUES: Final[tuple[tuple[Metric, Callable[[LeaderRole], int]], ...]] = (
    (replication.REPLICAS_COUNT, lambda leader: leader.replica_count),
    (replication.IN_SYNC_COUNT, lambda leader: len(leader.in_sync.isr)),
    (replication.STABLE_OFFSET_LAG, lambda leader: _stable_offset_lag(leader)),
)


class PartitionCollector:
    """Reads the partitions of `manager`, and the rates of throttled replicas."""

    def __init__(self, manager: ReplicaManager, throttles: ReplicationThrottles) -> None:
        self._manager = manager
        self._throttles = throttles

    def collect(self) -> Iterable[Family]:
        local_topics = self._manager.local_topics
        partitions = list(chain.from_iterable(topic.partitions.values() for topic in local_topics))
        counts: Counter[Metric] = Counter()
        waits: Counter[str] = Counter()
        yield replication.PARTITION_COUNT, _counted(partitions, counts, waits)
        for metric in (
            replication.LEADER_COUNT,
            replication.OFFLINE_REPLICA_COUNT,
            replication.UNDER_REPLICATED,
            replication.UNDER_MIN_ISR,
            replication.AT_MIN_ISR,
        ):
            yield metric.single(counts[metric])
        yield replication.DAMAGED_REPLICA_COUNT.single(len(self._manager.damaged.replicas))
        yield replication.PURGATORY_SIZE, [Sample((name,), count) for name, count in sorted(waits.items())]
        yield replication.ISR_SHRINKS.single(self._manager.context.isr_changes.shrinks)
        yield replication.ISR_EXPANDS.single(self._manager.context.isr_changes.expands)
        yield replication.LEADER_REPLICATION_RATE.single(self._throttles.leader.rate)
        yield replication.FOLLOWER_REPLICATION_RATE.single(self._throttles.follower.rate)
        yield replication.MOVE_RATE.single(self._throttles.log_dirs.rate)
        yield replication.MOVE_MAX_LAG.single(self._manager.moves.max_lag)
        yield from self._traffic(local_topics)
        for metric, of_log in _LOG_VALUES:
            yield metric, _of_logs(partitions, of_log)
        for metric, of_leader in _LED_VALUES:
            yield metric, _of_leaders(partitions, of_leader)
        yield replication.FOLLOWER_LAG, _follower_lags(partitions)

    def _traffic(self, local_topics: list[LocalTopic]) -> Iterator[Family]:
        for number, (metric, value) in enumerate(_TRAFFIC):
            yield metric, _of_topics(local_topics, value, is_first=number == 0)


def _counted(partitions: list[Partition], counts: Counter[Metric], waits: Counter[str]) -> Iterator[Sample | None]:
    """Count everything that has one value for all partitions, and return their number."""
    for name in ("Produce", "Fetch", "DeleteRecords"):
        waits[name] = 0
    for number, partition in enumerate(partitions):
        if not number % _STEP_PARTITIONS:
            yield None
        waiters = partition.waiters
        waits["Produce"] += len(waiters.for_commit) + len(waiters.for_flush)
        waits["Fetch"] += len(waiters.for_high_watermark) + len(waiters.for_log_end)
        waits["DeleteRecords"] += len(waiters.for_deletions)
        if partition.log is None:
            counts[replication.OFFLINE_REPLICA_COUNT] += 1
        elif isinstance(partition.role, LeaderRole):
            _count_leader(partition.role, counts)
    yield Sample((), len(partitions))


def _count_leader(leader: LeaderRole, counts: Counter[Metric]) -> None:
    in_sync, replicas, min_isr = len(leader.in_sync.isr), leader.replica_count, leader.min_isr
    counts[replication.LEADER_COUNT] += 1
    counts[replication.UNDER_REPLICATED] += in_sync < replicas
    counts[replication.UNDER_MIN_ISR] += in_sync < min_isr
    counts[replication.AT_MIN_ISR] += in_sync == min_isr


def _stable_offset_lag(leader: LeaderRole) -> int:
    commit_state = leader.partition.commit_state
    return commit_state.high_watermark - commit_state.last_stable_offset(leader.log)


def _of_topics(
    local_topics: list[LocalTopic], value: Callable[[TopicTraffic], int], *, is_first: bool
) -> Iterator[Sample | None]:
    """A value of each topic; the first family adds what the partitions have counted since the last scrape."""
    for topic in local_topics:
        if is_first:
            for number, partition in enumerate(list(topic.partitions.values())):
                if not number % _STEP_PARTITIONS:
                    yield None
                partition.add_to_topic(partition.log)
        yield Sample((topic.name,), value(topic.traffic))


def _of_logs(partitions: list[Partition], value: Callable[[Log], int]) -> Iterator[Sample | None]:
    for partition in partitions:
        log = partition.log
        yield None if log is None else Sample((partition.topic, str(partition.index)), value(log))


def _of_leaders(partitions: list[Partition], value: Callable[[LeaderRole], int]) -> Iterator[Sample | None]:
    for number, partition in enumerate(partitions):
        role = partition.role
        if isinstance(role, LeaderRole):
            yield Sample((partition.topic, str(partition.index)), value(role))
        elif not number % _STEP_PARTITIONS:
            yield None


def _follower_lags(partitions: list[Partition]) -> Iterator[Sample | None]:
    for number, partition in enumerate(partitions):
        role = partition.role
        if not isinstance(role, LeaderRole) or not role.in_sync.followers:
            if not number % _STEP_PARTITIONS:
                yield None
            continue
        log = role.log
        for follower in list(role.in_sync.followers.values()):
            end = max(follower.log_end_offset, log.log_start_offset)
            lag = max(0, log.readable_end_offset - end)
            yield Sample((partition.topic, str(partition.index), str(follower.broker_id)), lag)
