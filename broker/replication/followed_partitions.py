"""The partitions that one fetcher follows: applies what the leader has answered, and flushes where that is required."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import trio

from broker.replication.fetch_plan import (
    Diverging,
    FetchPlan,
    Outcome,
    OutOfRange,
    PartitionKey,
    Position,
    Records,
    Refused,
)
from broker.replication.fetcher_context import FetcherContext
from broker.replication.follower_role import following
from broker.replication.leader_log_range import LeaderLogRange
from broker.replication.partition import Partition
from broker.storage.fetched_batches import UnexpectedGap
from broker.wire.errors import ErrorCode, KafkaError, WireError
from kraft.env import FsyncFailed


class FollowedPartitions:
    """See the module's docstring. `plan` gets the positions of the partitions. `source_id` is the leader.

    `on_truncated` is called with a partition whose log was truncated and must be settled; it is removed before.
    `unflushed` are the partitions to flush before the next fetch, which acknowledges all of their records.
    """

    def __init__(
        self, context: FetcherContext, source_id: int, plan: FetchPlan, on_truncated: Callable[[Partition], None]
    ) -> None:
        self._context = context
        self._source_id = source_id
        self._plan = plan
        self._on_truncated = on_truncated
        self._partitions: dict[PartitionKey, Partition] = {}
        self._damaged: dict[PartitionKey, tuple[int, str]] = {}  # the damage that was traced, by offset and reason
        self.unflushed: dict[Partition, None] = {}

    @property
    def keys(self) -> Iterable[PartitionKey]:
        return self._partitions.keys()

    def find(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Partition]:
        """Those of the partitions that are followed."""
        return {key: self._partitions[key] for key in keys if key in self._partitions}

    def add(self, partition: Partition) -> None:
        """Fetch a partition from its log end offset, under its current leader epoch."""
        key = partition_key(partition)
        self._partitions[key] = partition
        self._plan.follow(key, _position(partition))
        self._queue_flush(partition)

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition. A response that is on its way is ignored for it."""
        key = partition_key(partition)
        self._partitions.pop(key, None)
        self._damaged.pop(key, None)
        self._plan.forget(key)

    def pause_throttled(self, now: float) -> None:
        """Leave out throttled partitions while the throttle's quota is exceeded."""
        wait_ms = self._context.throttle.wait_ms if self._plan.lagging else 0
        if wait_ms <= 0:
            return
        # Limited, as the quota may be changed meanwhile.
        until = now + min(wait_ms, self._context.settings.backoff_ms) / 1000
        for key in list(self._plan.lagging):
            if self._partitions[key].throttled_as_follower:
                self._plan.delay(key, until)

    def apply(self, outcomes: Sequence[Outcome]) -> list[OutOfRange]:
        """Apply a response; returns the partitions whose range must be asked from the leader."""
        out_of_range = []
        for outcome in outcomes:
            match outcome:
                case Records():
                    self._attempt(outcome.key, partial(self._append, outcome))
                case Diverging():
                    self._attempt(outcome.key, partial(_truncate, outcome))
                case Refused():
                    is_damage = outcome.code is ErrorCode.CORRUPT_MESSAGE
                    self._refused(outcome.key, outcome.code.name, is_damage=is_damage)
                case OutOfRange():
                    out_of_range.append(outcome)
        return out_of_range

    def move_into_range(
        self,
        partitions: Mapping[PartitionKey, Partition],
        leader_epochs: Mapping[PartitionKey, int],
        ranges: Mapping[PartitionKey, LeaderLogRange],
    ) -> None:
        """Move the log ends of partitions into the ranges that the leader of these epochs has returned."""
        for key, partition in partitions.items():
            if self._partitions.get(key) is not partition or partition.leader_epoch != leader_epochs[key]:
                continue
            self._plan.back_off(key, trio.current_time())
            found = ranges.get(key)
            if found is None:
                self._refused(key, "the leader did not return the start and end of its log")
            else:
                self._attempt(key, partial(_move_into_range, found))

    async def flush(self) -> None:
        """Flush all logs that require it, at the same time. If this is cancelled, they stay in `unflushed`."""
        partitions = list(self.unflushed)
        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(self._flush_log, partition)
        for partition in partitions:
            del self.unflushed[partition]

    def _attempt(self, key: PartitionKey, act: Callable[[Partition], None]) -> None:
        """Apply a part of a response to a partition, and continue fetching it from its new log end offset."""
        partition = self._partitions.get(key)
        if partition is None:
            return  # an earlier part of the response has taken its log directory offline
        try:
            act(partition)
        except FsyncFailed:
            raise
        except OSError as error:
            self._context.log_failed(partition, error)
            return
        except (KafkaError, WireError) as error:
            if partition.log is not None and partition.log.failure is not None:
                self._context.log_failed(partition, partition.log.failure)
                return
            self._plan.back_off(key, trio.current_time())
            self._refused(key, str(error), is_damage=_is_damage(error))
            return
        assert partition.log is not None, "it was not closed meanwhile"
        if partition.log.durability.is_unsettled:
            self.remove(partition)
            self._on_truncated(partition)
        else:
            if self._damaged and partition.log.log_end_offset != self._damaged.get(key, (-1, ""))[0]:
                self._damaged.pop(key, None)
            self._plan.set_position(key, _position(partition))
            self._queue_flush(partition)

    def _queue_flush(self, partition: Partition) -> None:
        if not partition.flushes_appends:
            return
        log = partition.log
        if log is not None and log.needs_flush(int(self._context.env.wall() * 1000)):
            self.unflushed[partition] = None

    async def _flush_log(self, partition: Partition) -> None:
        log = partition.log
        if log is None:
            return
        try:
            await log.flush()
        except FsyncFailed:
            raise
        except OSError as error:
            if partition.log is log:  # otherwise it has moved to another directory
                self._context.log_failed(partition, error)

    def _append(self, found: Records, partition: Partition) -> None:
        data = found.data
        records = memoryview(b"") if data.records is None else data.records
        assert isinstance(records, memoryview), "decoded"
        if partition.throttled_as_follower:
            self._context.throttle.record(len(records))
        following(partition, found.leader_epoch).append_fetched(
            records,
            leader_high_watermark=data.high_watermark,
            leader_log_start_offset=data.log_start_offset,
            now_ms=int(self._context.env.wall() * 1000),
        )

    def _refused(self, key: PartitionKey, reason: str, *, is_damage: bool = False) -> None:
        partition = self._partitions.get(key)
        if partition is None:
            return
        partition.trace("replica_fetch_refused", source=self._source_id, reason=reason)
        if is_damage and partition.log is not None:
            damage = partition.log.log_end_offset, reason
            if self._damaged.get(key) != damage:
                self._damaged[key] = damage
                partition.trace(
                    "replica_fetch_damaged",
                    topic=partition.topic,
                    source=self._source_id,
                    offset=damage[0],
                    reason=reason,
                )


def partition_key(partition: Partition) -> PartitionKey:
    return partition.topic_id, partition.index


def _is_damage(error: KafkaError | WireError) -> bool:
    """Whether the leader has sent a damaged batch. A gap may be right, so it does not count the first time."""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.CORRUPT_MESSAGE and not isinstance(error, UnexpectedGap)
    return True


def _position(partition: Partition) -> Position:
    log = partition.log
    assert log is not None, "a replica without a log does not follow"
    return Position(partition.leader_epoch, log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)


def _truncate(found: Diverging, partition: Partition) -> None:
    following(partition, found.leader_epoch).truncate(found.epoch, found.end_offset)


def _move_into_range(ends: LeaderLogRange, partition: Partition) -> None:
    """Truncate to the leader's log end, or restart at its log start, by Kafka's rules."""
    follower = following(partition, ends.leader_epoch)
    if ends.end_offset < follower.log.log_end_offset:
        follower.truncate(ends.leader_epoch, ends.end_offset)
    elif ends.start_offset > follower.log.log_end_offset:
        follower.restart_at(ends.start_offset)
