"""One partition replica on this broker: it takes roles, is appended to, and knows who waits for it to move.

Three offsets of a leader's log matter: its end; up to where it is as safe here as the topic's config asks for, which is
the end but for `flush.messages`; and the high watermark, up to where it is committed: safe on all that are in sync.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from broker.config.effective import TopicConfig
from broker.replication.acknowledgements import Acknowledgements
from broker.replication.in_sync import InSyncReplicas
from broker.replication.replica import NO_LEADER, Replica
from broker.replication.surroundings import Surroundings
from broker.storage.log import AppendInfo, Log
from broker.storage.log_config import MAX_LONG
from broker.wire.errors import ErrorCode, KafkaError
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import PartitionImage

# An offset that is not known.
_UNKNOWN: Final = -1


class Waiter(Protocol):
    """A parked request that may be complete once the partition has moved."""

    def poke(self, partition: "Partition") -> None: ...


class Partition(Replica):
    """See the module's docstring.

    `answers_at_once` says that what the turn's commit writes is committed by that, so that a producer need not wait:
    this broker has the only replica, and no flush is asked for. `flushes_appends` says that one may be.

    `in_sync` is there while this replica leads others; `directories` has the log directories of all, by broker.
    `waiting` wait for the high watermark to move, `tailing` for the log's end, as followers do, and `trimming` for
    followers to delete what this leader has deleted.
    """

    __slots__ = (
        "answers_at_once",
        "committing",
        "directories",
        "epoch_start_offset",
        "flushed_end",
        "flushes_appends",
        "flushing",
        "in_sync",
        "is_under_min_isr",
        "min_insync_replicas",
        "tailing",
        "throttled_as_follower",
        "throttled_as_leader",
        "trimming",
        "waiting",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log | None,
        surroundings: Surroundings,
        high_watermark: int = 0,
    ) -> None:
        super().__init__(topic, topic_id, index, log, surroundings, high_watermark)
        self.epoch_start_offset = _UNKNOWN
        self.in_sync: InSyncReplicas | None = None
        self.directories: Mapping[int, bytes] = {}
        self.min_insync_replicas = 1
        self.is_under_min_isr = False
        self.flushes_appends = False
        self.flushed_end = 0
        self.answers_at_once = False
        self.throttled_as_leader = self.throttled_as_follower = False
        self.waiting: dict[Waiter, None] = {}
        self.tailing: dict[Waiter, None] = {}
        self.trimming: dict[Waiter, None] = {}
        if log is not None:
            log.on_start_moved = self._start_moved
        self.committing = Acknowledgements()
        self.flushing = Acknowledgements()

    # Roles

    @property
    def knows_committed(self) -> bool:
        """Whether the high watermark has reached the start of this leader's epoch, and so what was said before it."""
        return self.high_watermark >= self.epoch_start_offset

    def become(self, image: PartitionImage) -> None:
        """Take the role the metadata gives this replica; nothing where more than that is known by now.

        The controller's answer to a proposal may have come before what the log says of the same partition epoch.
        """
        if image.partition_epoch < self.partition_epoch:
            return
        is_new_epoch = image.leader_epoch > self.leader_epoch
        is_new_state = image.partition_epoch > self.partition_epoch
        if is_new_epoch and image.leader != NO_LEADER:
            self.agrees_with_leader = image.leader == self.local_id
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        if image.leader == self.local_id and self.log is not None:
            if is_new_epoch:
                self._begin_epoch(self.log, image)
            self._lead(image, is_new_state=is_new_state)
        elif is_new_epoch:
            self._stand_down(image)
        self._reconsider()
        if is_new_epoch:
            self.wake()
            self.wake_tailing()

    def _begin_epoch(self, log: Log, image: PartitionImage) -> None:
        """The epoch begins where the log ends, and has to be known even if nothing is written in it (KIP-101)."""
        self.in_sync = None
        self.epoch_start_offset = log.log_end_offset
        log.epochs.assign(self.leader_epoch, self.epoch_start_offset)
        self.flushed_end = self.high_watermark
        if len(image.replicas) > 1:
            self.trace("partition_led", start_offset=self.epoch_start_offset, high_watermark=self.high_watermark)

    def _lead(self, image: PartitionImage, *, is_new_state: bool) -> None:
        if image.replicas == (self.local_id,):
            self.in_sync = None
            return
        if self.in_sync is None:
            self.in_sync = InSyncReplicas(
                self.local_id,
                epoch_start_offset=self.epoch_start_offset,
                lag_max_ms=self.surroundings.lag_max_ms,
                may_join=self._may_join,
            )
            is_new_state = True
        self.in_sync.assign(image.replicas)
        self.directories = dict(zip(image.replicas, image.directories, strict=False))
        if is_new_state:  # otherwise it says what is known, and a proposal may have been made since
            self.alter_isr(self.in_sync, image.isr, image.partition_epoch)

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        directory = self.directories.get(broker_id, UNASSIGNED_DIRECTORY)
        return self.surroundings.may_join(broker_id, broker_epoch, directory)

    def alter_isr(self, in_sync: InSyncReplicas, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller has made this the ISR of the epoch that this replica leads in."""
        if isr != in_sync.isr:
            self.trace("isr_changed", isr=isr, partition_epoch=partition_epoch)
        self.partition_epoch = partition_epoch
        in_sync.commit(isr, self.surroundings.now_ms())
        self._reconsider()

    def _stand_down(self, image: PartitionImage) -> None:
        self.in_sync = None
        self.epoch_start_offset = _UNKNOWN
        if len(image.replicas) > 1:
            self.trace("partition_followed", leader=self.leader_id)
        self.refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def configure(self, config: TopicConfig) -> None:
        """Obey the topic's config from now on."""
        self.min_insync_replicas = config.min_insync_replicas
        self.throttled_as_leader = self.index in config.throttled_as_leader
        self.throttled_as_follower = self.index in config.throttled_as_follower
        flushes_appends = config.log.flush_messages != MAX_LONG
        if self.log is not None:
            if flushes_appends and not self.flushes_appends:
                self.flushed_end = self.high_watermark
            if self.log.config is not config.log:
                self.log.config = config.log
        self.flushes_appends = flushes_appends
        self._reconsider()

    def close(self, code: ErrorCode) -> None:
        """The log can be used no more, or this broker has no replica any more; whoever waits is told why."""
        self.log = None
        self.in_sync = None
        self._weigh()
        self.refuse_waiting(code)
        self.wake()
        self.wake_tailing()
        self.wake_trimming()

    def _weigh(self) -> None:
        """Work out what appends go by, so that they need not."""
        in_sync = self.in_sync
        self.answers_at_once = self.leads and in_sync is None and not self.flushes_appends
        # Kafka asks for no more than there are replicas.
        self.is_under_min_isr = in_sync is not None and len(in_sync.isr) < self._min_isr(in_sync)

    def _min_isr(self, in_sync: InSyncReplicas) -> int:
        return min(self.min_insync_replicas, len(in_sync.followers) + 1)

    def _reconsider(self) -> None:
        self._weigh()
        self.wake_trimming()
        if self.leads:
            self.appended()
            if not self.flushes_appends and self.log is not None:
                self.flushing.reach(self.log.readable_end_offset)

    # Appending

    def append(self, batches: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """The leader's append; the batches are staged and written when the turn commits.

        Raises KafkaError as `leader_log` and `Log.append` do, and NOT_ENOUGH_REPLICAS for acks=all while fewer than
        `min.insync.replicas` are in sync.
        """
        log = self.log
        if log is None or self.leader_id != self.local_id:
            log = self.leader_log()  # which says what is wrong
        if acks == -1 and self.is_under_min_isr:
            raise self.not_enough_replicas()
        return log.append(batches, self.leader_epoch, now_ms)

    def not_enough_replicas(self) -> KafkaError:
        """What acks=all is refused with while `is_under_min_isr`."""
        in_sync = self.in_sync
        assert in_sync is not None, "a replica that is alone is enough"
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {len(in_sync.isr)} in-sync replicas, min.insync.replicas is {self._min_isr(in_sync)}",
        )

    def awaits(self, acks: int, end_offset: int) -> Acknowledgements | None:
        """Where to wait until what ends at `end_offset` may be acknowledged; None where that is so by the turn's end.

        With acks=all until it is committed, otherwise until it is as safe here as the config asks for.
        """
        if self.answers_at_once:
            return None
        if acks == -1:
            return None if end_offset <= self.high_watermark else self.committing
        return self.flushing if self.flushes_appends and end_offset > self.flushed_end else None

    def appended(self) -> None:
        """The log has grown: followers may fetch, and what needs nobody else is committed."""
        self.wake_tailing()
        log = self.log
        if self.flushes_appends and log is not None and self.flushed_end < log.readable_end_offset:
            self.surroundings.flush(self)
        if self.advance_high_watermark():
            self.moved()

    def flushed(self, end_offset: int) -> None:
        """What lies before `end_offset` is as durable as the config asks for."""
        self.flushed_end = max(self.flushed_end, end_offset)
        self.flushing.reach(self.flushed_end)
        if self.advance_high_watermark():
            self.moved()

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to what every in-sync replica holds; True when it moved, and `moved` is to be called.

        It stays where it is while fewer than `min.insync.replicas` are in sync: what they hold might be lost with them
        (KIP-966).
        """
        log = self.log
        if log is None or self.leader_id != self.local_id:
            return False
        end = log.readable_end_offset
        if not self.answers_at_once:
            end = self._committable(end)
        if end <= self.high_watermark:
            return False
        self.set_high_watermark(log, end)
        return True

    def _committable(self, end_offset: int) -> int:
        if self.is_under_min_isr:
            return self.high_watermark
        end = min(end_offset, self.flushed_end) if self.flushes_appends else end_offset
        if self.in_sync is not None:
            end = min(end, self.in_sync.high_watermark(end_offset, self.surroundings.now_ms()))
        return end

    def moved(self) -> None:
        """The high watermark has moved: tell producers and consumers."""
        if self.committing:
            in_sync = self.in_sync
            enough = in_sync is None or len(in_sync.maximal) >= self._min_isr(in_sync)
            code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.committing.reach(self.high_watermark, code)
        if self.waiting:
            self.wake()

    def refuse_waiting(self, code: ErrorCode) -> None:
        """Whoever waits for what was appended hears that it is not known what becomes of it."""
        self.committing.fail(code)
        self.flushing.fail(code)

    def wake(self) -> None:
        """Have everything that waits for the high watermark look again."""
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting:
            waiter.poke(self)

    def wake_tailing(self) -> None:
        """Have everything that waits for the log's end look again."""
        if self.tailing:
            tailing, self.tailing = self.tailing, {}
            for waiter in tailing:
                waiter.poke(self)

    def wake_trimming(self) -> None:
        """Have everything that waits for followers to delete records look again."""
        if self.trimming:
            trimming, self.trimming = self.trimming, {}
            for waiter in trimming:
                waiter.poke(self)

    def _start_moved(self) -> None:
        """Records were deleted from the front of the log: whoever reads is to hear of it."""
        self.wake()
        self.wake_tailing()

    def follow_high_watermark(self, log: Log, offset: int) -> None:
        """Everything that is here below `offset` is committed, as the leader says, or all that is left is."""
        has_moved = offset != self.high_watermark
        self.set_high_watermark(log, offset)
        if has_moved and self.waiting:
            self.wake()
