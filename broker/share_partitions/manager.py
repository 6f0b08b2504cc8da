"""The share-partitions of the partitions that this broker leads, and the share sessions of its clients (KIP-932)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.coordinator.share.share_state import SharePartitionKey, ShareStateStore
from broker.net.deadlines import Deadlines
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.dead_letter_queue import DeadLetterWriter
from broker.share_partitions.led_partition import DeliveryCounts, LeaderContext, LedSharePartition, Steps
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import SharePartition
from broker.share_partitions.share_sessions import PartitionId, ShareSession, ShareSessions
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Tracer


class SharePartitionManager:
    """Loads a share-partition when a member first fetches it, and drops it when the leadership ends.

    It also drops the share-partitions of a group that has no session on this broker any more; the next member loads
    them again. So there are at most as many as sessions name, of groups whose state exists.
    """

    def __init__(
        self,
        partitions: ReplicaManager,
        store: ShareStateStore,
        deadlines: Deadlines,
        settings: Callable[[str], DeliverySettings],
        now_ms: Callable[[], float],
        wall_ms: Callable[[], int],
        trace: Tracer,
        dead_letters: DeadLetterWriter,
    ) -> None:
        self.sessions = ShareSessions()
        self.settings = settings
        self._partitions = partitions
        self._context = LeaderContext(store, deadlines, settings, now_ms, wall_ms, self._drop, trace, dead_letters)
        self._by_group: dict[str, dict[PartitionId, LedSharePartition]] = {}
        self._by_partition: dict[PartitionId, dict[str, LedSharePartition]] = {}
        partitions.when_led(self.leadership_changed)

    def __iter__(self) -> Iterator[LedSharePartition]:
        """All share-partitions."""
        for of_group in list(self._by_group.values()):
            yield from list(of_group.values())

    def loaded_states(self) -> Iterator[tuple[tuple[str, str, str], SharePartition]]:
        """Group, topic and index of each share-partition that is loaded, and its state."""
        for led in self:
            if led.state is not None:
                yield (led.key.group_id, led.partition.topic, str(led.key.partition)), led.state

    @property
    def counts(self) -> DeliveryCounts:
        return self._context.counts

    @property
    def dead_letters(self) -> DeadLetterWriter:
        return self._context.dead_letters

    def led(self, group_id: str, partition_id: PartitionId, finish_later: Callable[[Steps], None]) -> LedSharePartition:
        """The share-partition, which is loaded if it is new; `finish_later` takes steps in a task.

        Raises KafkaError as `ReplicaManager.get` and `Partition.leader_log` do.
        """
        of_group = self._by_group.get(group_id)
        known = None if of_group is None else of_group.get(partition_id)
        if known is not None:
            return known
        partition = self._partitions.get(*partition_id)
        partition.leader_log()
        led = LedSharePartition(SharePartitionKey(group_id, *partition_id), partition, self._context)
        self._by_group.setdefault(group_id, {})[partition_id] = led
        self._by_partition.setdefault(partition_id, {})[group_id] = led
        led.load(finish_later)
        return led

    def acknowledge(
        self, group_id: str, member_id: str, partition_id: PartitionId, batches: Sequence[AcknowledgementBatch]
    ) -> Completion[None]:
        """Carry out acknowledgements of a member; completes when they are stored, or with the error."""
        led = self._by_group.get(group_id, {}).get(partition_id)
        if led is not None:
            return led.acknowledge(member_id, batches)
        try:
            self._partitions.get(*partition_id).leader_log()
        except KafkaError as error:
            return failed(error)
        message = "This server does not host this topic-partition."
        return failed(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))

    def end_session(self, session: ShareSession) -> None:
        """End a session, and release the records of its member."""
        if self.sessions.remove(session):
            self._release(session)

    def connection_closed(self, connection: object) -> None:
        """End the sessions that began on a connection."""
        for session in self.sessions.remove_of_connection(connection):
            self._release(session)

    def close_all(self, error: KafkaError) -> None:
        """End all sessions and drop all share-partitions: the cluster serves no share groups any more."""
        self.sessions.remove_all()
        for led in self:
            self._drop(led, error)

    def leadership_changed(self, partitions: Iterable[Partition]) -> None:
        """Drop the share-partitions of partitions that have another leader, or another leader epoch."""
        for partition in partitions:
            of_partition = self._by_partition.get((partition.topic_id, partition.index), {})
            for led in list(of_partition.values()):
                if not partition.leads or partition.leader_epoch != led.leader_epoch:
                    self._drop(led, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} has a new leader"))

    def _release(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        released = [led.release(member_id) for led in list(self._by_group.get(group_id, {}).values())]
        gather(released).then(partial(self._drop_unused, group_id))

    def _drop_unused(self, group_id: str, _: object) -> None:
        """Drop the share-partitions of a group without sessions, apart from those that still store something.

        Those are dropped with the last leadership, or when another session of the group ends. A start offset that
        `share.auto.offset.reset` has found is stored first: `latest` would find another one for the next member, which
        would miss the records between.
        """
        if self.sessions.has_members(group_id):
            return
        for led in list(self._by_group.get(group_id, {}).values()):
            if led.is_idle and led.has_new_start:
                led.store_start().then(partial(self._drop_if_unused, led))
            else:
                self._drop_if_unused(led)

    def _drop_if_unused(self, led: LedSharePartition, _: object = None) -> None:
        if led.is_idle and led.error is None and not self.sessions.has_members(led.key.group_id):
            self._drop(led, KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, "The share session was not found."))

    def _drop(self, led: LedSharePartition, error: KafkaError) -> None:
        group_id, partition_id = led.key.group_id, (led.key.topic_id, led.key.partition)
        if self._by_group.get(group_id, {}).get(partition_id) is led:
            del self._by_group[group_id][partition_id]
            if not self._by_group[group_id]:
                del self._by_group[group_id]
            del self._by_partition[partition_id][group_id]
            if not self._by_partition[partition_id]:
                del self._by_partition[partition_id]
            led.trace("share_partition_dropped", reason=error.code.name)
        led.close(error)
