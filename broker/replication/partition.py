"""One partition replica on this broker: its leadership, high watermark, and the fetches that wait for more."""

from typing import Final, Protocol

from broker.effective_config import TopicConfig
from broker.storage.log import AppendInfo, Log, LogSlice
from broker.storage.log_config import MAX_LONG
from broker.wire.errors import ErrorCode, KafkaError

# The isolation levels of a Fetch or ListOffsets request.
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

# A request that carries no leader epoch is not checked against ours (KIP-320).
NO_EPOCH: Final = -1


class Waiter(Protocol):
    """A parked request that may be complete once the partition has moved."""

    def poke(self) -> None: ...


class Partition:
    """See the module's docstring. `log` is None while its log directory is offline.

    `flushes_appends` says that `flush.messages` may have an append wait for the disk before it is answered.
    """

    __slots__ = (
        "flushes_appends",
        "high_watermark",
        "index",
        "isr",
        "leader_epoch",
        "leader_id",
        "local_id",
        "log",
        "min_insync_replicas",
        "partition_epoch",
        "topic",
        "topic_id",
        "waiting",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, local_id: int, log: Log | None) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.local_id = local_id
        self.log = log
        self.leader_id = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.flushes_appends = False
        self.high_watermark = log.log_start_offset if log is not None else 0
        self.waiting: dict[Waiter, None] = {}

    def become(self, *, leader_id: int, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> None:
        """Take the role the metadata gives this replica."""
        if partition_epoch <= self.partition_epoch:
            return
        self.leader_id = leader_id
        self.partition_epoch = partition_epoch
        self.isr = isr
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            if leader_id == self.local_id and self.log is not None:
                self.log.epochs.assign(leader_epoch, self.log.log_end_offset)
        self.advance_high_watermark()

    def configure(self, config: TopicConfig) -> None:
        """Obey the topic's config from now on."""
        self.min_insync_replicas = config.min_insync_replicas
        self.flushes_appends = config.log.flush_messages != MAX_LONG
        if self.log is not None and self.log.config is not config.log:
            self.log.config = config.log

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this replica leads and the client's view of the epoch agrees (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by broker {self.leader_id}")
        return self.log

    def append(self, batches: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """The leader's append; the batches are staged and written when the turn commits.

        Raises KafkaError as `leader_log` and `Log.append` do, and NOT_ENOUGH_REPLICAS for acks=all while fewer than
        `min.insync.replicas` are in sync.
        """
        log = self.log
        if log is None or self.leader_id != self.local_id:
            log = self.leader_log()  # which says what is wrong
        if acks == -1 and len(self.isr) < self.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(self.isr)} in-sync replicas, min.insync.replicas is {self.min_insync_replicas}",
            )
        return log.append(batches, self.leader_epoch, now_ms)

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to what every in-sync replica holds; True when it moved.

        A leader that is alone in the ISR commits by itself.
        """
        log = self.log
        if log is None or self.leader_id != self.local_id or self.isr != (self.local_id,):
            return False
        end = log.readable_end_offset
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def wake(self) -> None:
        """Have everything that waits look again."""
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting:
            waiter.poke()

    def last_stable_offset(self, log: Log) -> int:
        """The end of what a transactional reader may see: the first undecided transaction, or the high watermark."""
        unstable = log.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return unstable

    def end_for(self, log: Log, isolation_level: int) -> int:
        """The offset up to which a consumer of this isolation level may read."""
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset(log)
        return self.high_watermark

    def read(
        self,
        log: Log,
        offset: int,
        max_bytes: int,
        *,
        isolation_level: int,
        min_one_batch: bool,
    ) -> LogSlice:
        """Committed records from `offset` on, as a range of a segment file.

        Raises KafkaError OFFSET_OUT_OF_RANGE outside the log start offset and the log end offset.
        """
        return log.read(offset, max_bytes, upper_bound=self.end_for(log, isolation_level), min_one_batch=min_one_batch)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
