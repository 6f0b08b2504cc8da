"""The parts of a consumer, and how they notify each other: positions, fetches, the group, and the poll that reads."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final, Generic

import trio

from broker.client.cluster import Cluster
from broker.client.consumer.config import ConsumerConfig
from broker.client.consumer.fetched_partition import FetchBuffer
from broker.client.consumer.fetcher import Fetcher
from broker.client.consumer.group import Assignor, GroupMember, RebalanceListener
from broker.client.consumer.group.subscribed_topics import Pattern
from broker.client.consumer.leader_updates import LeaderUpdates
from broker.client.consumer.obstacles import ReadObstacles
from broker.client.consumer.offset_reset import OffsetReset
from broker.client.consumer.offsets import OffsetLookups
from broker.client.consumer.position_updates import PositionUpdates
from broker.client.consumer.positions import Position
from broker.client.consumer.record_reader import RecordReader
from broker.client.consumer.subscription import SubscriptionKind, SubscriptionState
from broker.client.errors import (
    ClientError,
    ClientFailed,
    ClosedError,
    ConnectionLost,
    KafkaError,
    TimedOut,
    UnsupportedByBroker,
)
from broker.client.metadata_cache import PartitionMetadata
from broker.client.serializers import Deserializer
from broker.client.types import K, OffsetAndMetadata, TopicPartition, V
from broker.wire.errors import ErrorCode

# How long closing may take when the block was cancelled.
CANCELLED_CLOSE_TIMEOUT_S: Final = 1.0
# How often a read that waits looks whether the brokers can be reached.
_LOOK_AGAIN_S: Final = 5.0
# The longest interval between polls while the application iterates or waits, for auto commit and max.poll.interval.ms.
_POLL_EVERY_S: Final = 1.0


class ConsumerEngine(Generic[K, V]):
    """See the module's docstring. `run` has to run for anything to happen."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        assignors: Sequence[Assignor],
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.subscription = SubscriptionState(config.auto_offset_reset, self._moved)
        self.group = (
            None if config.group_id is None else GroupMember(cluster, config, self.subscription, assignors=assignors)
        )
        self.buffer = FetchBuffer()
        self.lookups = OffsetLookups(cluster, config)
        self.reader: RecordReader[K, V] = RecordReader(
            config, self.buffer, key_deserializer, value_deserializer, self._drained
        )
        self._fetcher = Fetcher(cluster, config, self.subscription, self.buffer, self._notify_waiters, self.recheck)
        committed = None if self.group is None else self.group.committed
        self._updates = PositionUpdates(cluster, self.subscription, self.lookups, committed, self._positions_changed)
        self.obstacles = ReadObstacles(cluster, self.subscription, self.group, config.default_api_timeout_ms)
        self._leader_updates = LeaderUpdates(cluster, self.subscription, self.obstacles, self._wake_tasks)
        cluster.call_on_failure(self._fail)
        self._change = trio.lowlevel.ParkingLot()
        self._polled = trio.Event()
        self._is_closed = False

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fetcher.run)
            nursery.start_soon(self._updates.run)
            nursery.start_soon(self._leader_updates.run)
            if self.group is not None:
                nursery.start_soon(self.group.run)
                nursery.start_soon(self._watch_group, self.group)
                nursery.start_soon(self._poll_regularly)

    async def close(self, *, is_failed: bool, is_cancelled: bool) -> None:
        """Ends what brokers keep for this consumer. The record that a failed block was working on is not consumed."""
        self.reader.end_run(unprocessed=1 if is_failed else 0)
        timeout_s = CANCELLED_CLOSE_TIMEOUT_S if is_cancelled else self.config.request_timeout_ms / 1000
        with trio.CancelScope(shield=True, deadline=trio.current_time() + timeout_s):
            try:
                if self.group is not None and self.cluster.failure is None:
                    await self.group.leave(timeout_s)
            finally:
                await self._fetcher.close()
                self._is_closed = True
                self._notify_waiters()

    # Polls

    async def poll(self) -> None:
        """Begins a poll: applies changes by the group, and commits if auto commit is due. Raises errors since the last
        poll.
        """
        if self._is_closed:
            raise self.cluster.closed_error("the consumer was closed while a task was reading")
        self.reader.end_run()
        if self.subscription.kind is SubscriptionKind.NONE:
            raise ClientError("there is nothing to read: subscribe() to topics or assign() partitions first")
        await trio.lowlevel.checkpoint()
        if self.group is not None:
            self.group.poll_made()
            try:
                await self.group.apply_changes()
            finally:
                self._polled.set()
        if (error := self.subscription.take_error()) is not None:
            self._wake_tasks()
            raise error

    async def wait_for_change(self, deadline: float = inf) -> None:
        """Waits until there are records or an error, or the group needs a poll; at most until the deadline."""
        with trio.move_on_at(min(deadline, trio.current_time() + _LOOK_AGAIN_S)):
            await self._change.park()
        # A read without a limit of its own would else wait for ever for brokers, or a coordinator, that are not there.
        if (error := self.obstacles.lasting()) is not None:
            raise error

    async def wait_for_position(self, partition: TopicPartition) -> Position:
        """The position of the next record. Raises NotAssigned, PartitionFailed, KafkaError, TimedOut."""
        deadline = trio.current_time() + self.config.default_api_timeout_ms / 1000
        while trio.current_time() < deadline and not self._is_closed:
            assigned = self.subscription.assigned(partition)
            if assigned.error is not None:
                error, assigned.error = assigned.error, None
                self._updates.notify()
                raise error
            if assigned.is_fetching and assigned.consumed is not None:
                return assigned.consumed
            await self.wait_for_change(deadline)
        if self._is_closed:
            raise self.cluster.closed_error("the consumer was closed while a task waited for a position")
        trouble = self.cluster.trouble()
        raise TimedOut(
            f"the position of {partition.topic}-{partition.partition} is not known yet: "
            f"{trouble or 'the coordinator of the group, or the leader of the partition, did not respond in time'}"
        ) from trouble

    async def _watch_group(self, group: GroupMember) -> None:
        """Interrupts iterations and waits for records when the group needs a poll."""
        while True:
            await group.wait_for_changes()
            self._polled = trio.Event()
            self._interrupt()
            await self._polled.wait()

    async def _poll_regularly(self) -> None:
        while True:
            await trio.sleep(min(_POLL_EVERY_S, self.config.max_poll_interval_ms / 3000))
            self._interrupt()

    def _interrupt(self) -> None:
        """Makes the reading task poll again when it takes the next record."""
        self.reader.cut_run()
        self._notify_waiters()

    async def describe(self, topics: Sequence[str] | None) -> dict[str, Sequence[PartitionMetadata]]:
        """The partitions of these topics, or of all, as far as they exist. Raises KafkaError, TimedOut."""
        timeout_ms = self.config.default_api_timeout_ms
        await self.cluster.retried(lambda: self.cluster.refresh(topics), timeout_ms=timeout_ms)
        known = self.cluster.metadata.topics
        names = known if topics is None else topics
        described = {name: topic for name in names if (topic := known.get(name)) is not None}
        for topic in described.values():
            if topic.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise KafkaError(topic.error, topic.name)
        return {name: topic.partitions for name, topic in described.items() if topic.error == ErrorCode.NONE}

    # Changes by the user

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.reader.end_run()
        self.subscription.assign(partitions)
        self.cluster.follow_only({partition.topic for partition in self.subscription.assignment()})
        self._moved()
        if any(assigned.leader is None for assigned in self.subscription.partitions):
            self.cluster.nursery.start_soon(self._refresh)

    def subscribe(self, topics: Iterable[str], pattern: Pattern | None, listener: RebalanceListener | None) -> None:
        self.reader.end_run()
        group = self.need_group("subscribe()")
        self.subscription.subscribe()
        group.subscribe(topics, pattern=pattern, listener=listener)

    async def unsubscribe(self) -> None:
        self.reader.end_run()
        if self.group is not None and self.subscription.kind is SubscriptionKind.SUBSCRIBED:
            await self.group.unsubscribe()
        self.subscription.unsubscribe()
        self.cluster.follow_only(())
        self._moved()

    def need_group(self, call: str) -> GroupMember:
        if self.group is None:
            raise ClientError(f"{call} needs a group: give the consumer a group_id, or read with assign() alone")
        return self.group

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The positions, with the record that an iteration has returned last."""
        self.reader.end_run()
        return self.subscription.consumed_offsets()

    def seek(self, partition: TopicPartition, position: Position) -> None:
        self.reader.end_run()
        self.subscription.assigned(partition).seek(position)
        self._wake_tasks()

    def read_range(self, partition: TopicPartition, start: int, end: int, topic_id: bytes | None) -> None:
        """Assigns this partition alone, and fetches from `start` to `end`; with a `topic_id`, of that topic only."""
        self.assign([partition])
        self.subscription.assigned(partition).read_range(start, end, topic_id)
        self._wake_tasks()

    def reset(self, partitions: Iterable[TopicPartition], to: OffsetReset) -> None:
        """Looks up new positions of `partitions`, of all assigned ones if there are none."""
        self.reader.end_run()
        chosen = self.subscription.all_assigned(partitions) or list(self.subscription.partitions)
        for assigned in chosen:
            assigned.request_reset(to)
        self._wake_tasks()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        self.reader.end_run()
        for assigned in self.subscription.all_assigned(partitions):
            assigned.is_paused = is_paused
        self._wake_tasks()

    def _wake_tasks(self) -> None:
        """Wakes the background tasks, once for any number of consecutive changes."""
        self._updates.notify()
        self._positions_changed()

    def _moved(self) -> None:
        self.buffer.drop_stale()
        self.recheck()
        if self.subscription.without_leader():
            self.cluster.request_refresh()

    # Changes by others

    def recheck(self) -> None:
        """Takes the leaders from the metadata, and checks every partition again."""
        self._leader_updates.recheck()

    def _positions_changed(self) -> None:
        self._fetcher.notify()
        self._notify_waiters()

    def _drained(self) -> None:
        self._fetcher.notify()

    def _fail(self, failure: ClientFailed) -> None:
        self._is_closed = True
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        self._change.unpark_all()

    async def _refresh(self) -> None:
        """Asks for metadata at once; where that fails, the cluster asks again in the background."""
        try:
            await self.cluster.refresh(may_create=self.config.allow_auto_create_topics)
        except (ConnectionLost, KafkaError, UnsupportedByBroker, ClosedError):
            self.cluster.request_refresh()
            self._notify_waiters()  # the failure may be one that a read raises at once
