"""The operations of a partition's replica in each role; `broker.replication.transitions` has the roles themselves.

A role object belongs to one leader epoch. State of that epoch only, such as the progress of followers, is in the object
and is dropped with it. `LeaderRole` and `FollowerRole` have modules of their own.
"""

from typing import ClassVar, Final

from broker.replication.transitions import Role
from broker.replication.waiters import Acknowledgements
from broker.storage.log import AppendInfo, Log
from broker.wire.errors import ErrorCode, KafkaError

NO_LEADER: Final = -1


class PartitionRole:
    """The interface of all roles. The methods are those of a replica that does not lead.

    `partition` is the one that has this role. `log` is None only for a replica that is offline. `leader_id` is -1 if
    there is no leader, or none is known.

    `agrees_with_leader` is True once the leader has found no divergence in this log, or if this replica leads. Until
    then the log may have records that an unclean election has removed from the partition.

    `answers_at_once` is True if the commit of a turn also commits the records, so that a producer need not wait: this
    leader has no followers, and no flush is required. `is_under_min_isr` is True while this leader has fewer replicas
    in sync than `min.insync.replicas`.
    """

    __slots__ = ("agrees_with_leader", "leader_id", "log", "partition")

    kind: ClassVar[Role]
    leads: ClassVar[bool] = False
    answers_at_once: bool = False
    is_under_min_isr: bool = False

    def __init__(self, partition: object, log: Log | None, leader_id: int, *, agrees_with_leader: bool) -> None:
        self.partition = partition
        self.log = log
        self.leader_id = leader_id
        self.agrees_with_leader = agrees_with_leader

    @property
    def source(self) -> int | None:
        """The broker to fetch from; None unless this replica follows a leader."""
        return None

    @property
    def knows_committed(self) -> bool:
        """False for a new leader until its high watermark has reached the start of its epoch (KIP-207).

        Until then its high watermark may be lower than that of its predecessor.
        """
        return True

    def readable_log(self) -> Log:
        """The log, for a replica that leads or not. Raises KafkaError KAFKA_STORAGE_ERROR without a log."""
        if self.log is None:
            raise self._refusal()
        return self.log

    def committed_log(self) -> Log:
        """The log for a consumer. Raises KafkaError OFFSET_NOT_AVAILABLE, and as `readable_log` does."""
        log = self.readable_log()
        if not self.agrees_with_leader:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.partition} has not compared its log with a leader's yet",
            )
        return log

    def leader_log(self) -> Log:
        """The log of a leader. Raises KafkaError NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
        raise self._refusal()

    def append(self, batches: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Append as the leader. The batches are staged, and written when the turn commits.

        Raises KafkaError as `leader_log` and `Log.append` do, and NOT_ENOUGH_REPLICAS for acks=all (-1) while
        `is_under_min_isr`.
        """
        raise self._refusal()

    def append_as_coordinator(
        self, batch: memoryview, now_ms: int, *, acks: int = -1, transaction_version: int = 0
    ) -> AppendInfo:
        """Append a batch that a coordinator on this broker has made. Raises KafkaError as `append` does.

        See `Log.append_as_coordinator`.
        """
        raise self._refusal()

    def awaits(self, acks: int, end_offset: int) -> Acknowledgements | None:
        """Where a producer waits until its records, which end at `end_offset`, are safe; None if the commit suffices.

        With acks=all they are safe once committed, otherwise once flushed if flush.messages is set. Raises KafkaError
        as `leader_log` does.
        """
        raise self._refusal()

    def _refusal(self) -> KafkaError:
        """The error for requests that need another role."""
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} is led by broker {self.leader_id}")

    def advance_high_watermark(self) -> None:
        """As the leader, move the high watermark to the offset that every in-sync replica has reached."""

    def state_changed(self) -> None:
        """As the leader, re-check what depends on the ISR and the config."""

    def begin_flushing(self) -> None:
        """As the leader, require a flush for what is not committed: flush.messages was set."""

    def request_flush(self) -> None:
        """As the leader of a partition with flush.messages, have the log flushed if it has grown."""

    def flushed(self, end_offset: int) -> None:
        """As the leader, count the records below `end_offset` as durable as the config requires."""


class LeaderlessRole(PartitionRole):
    """The role while the partition has no leader, and before the first metadata of a new replica."""

    __slots__ = ()

    kind = Role.LEADERLESS
    log: Log

    def __init__(self, partition: object, log: Log, *, agrees_with_leader: bool) -> None:
        super().__init__(partition, log, NO_LEADER, agrees_with_leader=agrees_with_leader)

    def _refusal(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} has no leader")


class OfflineRole(PartitionRole):
    """The role without a log: its directory has failed, or the replica was removed from this broker."""

    __slots__ = ()

    kind = Role.OFFLINE
    log: None

    def __init__(self, partition: object) -> None:
        super().__init__(partition, None, NO_LEADER, agrees_with_leader=False)

    def _refusal(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.partition} is offline")
