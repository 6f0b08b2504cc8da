"""A replica of a partition as those see it who read from it: whose it is, who leads, where it is committed, its log.

What changes all that is `partition.py`.
"""

from typing import Final

from broker.replication.surroundings import Surroundings
from broker.storage.log import Log, LogSlice
from broker.wire.errors import ErrorCode, KafkaError

# The isolation levels of a Fetch or ListOffsets request.
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

# A request that carries no leader epoch is not checked against ours (KIP-320).
NO_EPOCH: Final = -1
NO_LEADER: Final = -1


class Replica:
    """See the module's docstring. `log` is None while its log directory is offline, or once the replica is dropped.

    `directory_id` is the log directory's, once somebody has looked. `agrees_with_leader` says, of a follower, that the
    leader of its epoch found nothing in its log to be cut off: that what it takes for committed is.
    """

    __slots__ = (
        "agrees_with_leader",
        "directory_id",
        "high_watermark",
        "index",
        "leader_epoch",
        "leader_id",
        "local_id",
        "log",
        "partition_epoch",
        "surroundings",
        "topic",
        "topic_id",
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
        self.surroundings = surroundings
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.local_id = surroundings.local_id
        self.log = log
        self.directory_id: bytes | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.agrees_with_leader = False
        self.high_watermark = 0
        if log is not None:
            self.set_high_watermark(log, min(max(high_watermark, log.log_start_offset), log.log_end_offset))

    def set_high_watermark(self, log: Log, offset: int) -> None:
        """Records below `offset` are committed. Nothing else moves the high watermark.

        The producers' state has to be told each time, or a transaction that has ended would hold back the last stable
        offset for ever. It has to be told again, of the same offset, when it was rebuilt from the log.
        """
        self.high_watermark = offset
        producers = log.producers
        if producers.unreplicated:
            producers.advance_high_watermark(offset)

    @property
    def leads(self) -> bool:
        return self.leader_id == self.local_id and self.log is not None

    @property
    def source(self) -> int | None:
        """The broker to fetch from; None where this replica leads, nobody does, or there is no log to fetch for."""
        if self.log is None or self.leader_id in (self.local_id, NO_LEADER):
            return None
        return self.leader_id

    def readable_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, whoever leads, if the client's view of the epoch agrees (KIP-320).

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")
        return self.log

    def committed_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log for consumers, who may read from followers too, up to the high watermark that those know (KIP-392).

        A follower that was away may know of what is lost by now, where an election was unclean or of the last known
        leader: until it has heard of the leader it has nothing to say. Clients go back to the leader then.

        Raises KafkaError: OFFSET_NOT_AVAILABLE, and as `readable_log` does.
        """
        log = self.readable_log(current_leader_epoch)
        if not self.agrees_with_leader and self.leader_id != self.local_id:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE, f"{self} has not heard yet what broker {self.leader_id} has"
            )
        return log

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this replica leads and the client's view of the epoch agrees (KIP-320).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        log = self.readable_log(current_leader_epoch)
        if self.leader_id != self.local_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by broker {self.leader_id}")
        return log

    def follower_log(self, leader_epoch: int) -> Log:
        """The log, if this replica follows under this epoch still.

        Raises KafkaError: what the leader of another epoch has said is not to be acted upon.
        """
        if self.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")
        if leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"{self} is at leader epoch {self.leader_epoch}")
        if self.source is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} follows nobody")
        return self.log

    def last_stable_offset(self, log: Log) -> int:
        """The end of what a transactional reader may see: the first undecided transaction, or the high watermark.

        Never before the log's start: the first records of an undecided transaction may have been deleted.
        """
        unstable = log.producers.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, log.log_start_offset)

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

    def trace(self, kind: str, **fields: object) -> None:
        """Something has happened to this replica."""
        self.surroundings.trace(
            kind,
            node=self.local_id,
            topic_id=self.topic_id.hex(),
            partition=self.index,
            leader_epoch=self.leader_epoch,
            **fields,
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
