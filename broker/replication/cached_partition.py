"""One partition of a fetch session: its request, the last response to it, and the result of a read."""

from collections.abc import Sequence, Sized
from typing import Any, Final, Protocol

from broker.replication.leader_role import DivergingEpoch
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode

_NEVER_SENT: Final = -1


class CachedPartitionListener(Protocol):
    """The fetch session that a cached partition belongs to."""

    def moved(self, cached: "CachedPartition", partition: Partition) -> None:
        """Called when `partition` has changed; `cached` does not wait at it any more."""
        ...


class CachedPartition:
    """One partition of a fetch request, with the offsets that the session last sent to the client.

    `topic` is a name, or a topic id of 16 bytes, depending on the request's version. `partition` is the partition at
    which this object waits; when that changes, the object notifies its session, `listener`. A session reads the cached
    partitions with the lowest `turn` first.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "listener",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "turn",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        log_start_offset: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.turn = 0
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start_offset = _NEVER_SENT
        self.partition: Partition | None = None
        self.listener: CachedPartitionListener | None = None

    def update_from_request(self, named: "CachedPartition") -> None:
        """Take over the request of `named`.

        With another leader epoch, all offsets are sent again, even unchanged. So they are to a follower that has
        truncated its log: it has to learn that the logs agree now.
        """
        has_truncated = named.fetch_offset < self.fetch_offset or named.last_fetched_epoch < self.last_fetched_epoch
        if has_truncated or named.current_leader_epoch != self.current_leader_epoch:
            self.sent_high_watermark = _NEVER_SENT
        self.fetch_offset = named.fetch_offset
        self.max_bytes = named.max_bytes
        self.current_leader_epoch = named.current_leader_epoch
        self.last_fetched_epoch = named.last_fetched_epoch
        self.log_start_offset = named.log_start_offset

    def try_complete(self, partition: Partition) -> None:
        """Notify the session: the partition has changed, and this cached partition does not wait at it any more."""
        if self.listener is not None:
            self.listener.moved(self, partition)

    def leave(self) -> None:
        """Leave the session and stop waiting."""
        self.listener = None
        if self.partition is not None:
            self.partition.waiters.for_high_watermark.pop(self, None)
            self.partition.waiters.for_log_end.pop(self, None)
            self.partition = None


class FetchedPartition:
    """The result for one partition. `records` is opaque here; only its length matters.

    `available` is their size with a last batch that does not fit as a whole, and is left out.
    `aborted` are the aborted transactions among the records, opaque as well.
    `diverging` is set if the client's log diverges from this one, `read_replica` if the client should fetch from
    another broker (KIP-392). Either comes instead of records.
    """

    __slots__ = (
        "aborted",
        "available",
        "cached",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read_replica",
        "records",
    )

    def __init__(
        self,
        cached: CachedPartition,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Sized | None = None,
        diverging: DivergingEpoch | None = None,
        read_replica: int | None = None,
        aborted: Sequence[Any] = (),
        available: int = 0,
    ) -> None:
        self.aborted = aborted
        self.available = available
        self.cached = cached
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.diverging = diverging
        self.read_replica = read_replica

    @property
    def differs_from_sent(self) -> bool:
        """True if the result differs from what the client knows. Records, errors and other replicas always do."""
        cached = self.cached
        return (
            bool(self.records)
            or self.diverging is not None
            or self.read_replica is not None
            or self.error is not ErrorCode.NONE
            or self.high_watermark != cached.sent_high_watermark
            or self.log_start_offset != cached.sent_log_start_offset
        )

    def mark_sent(self) -> bool:
        """Return `differs_from_sent`, and record that the client knows the result from now on."""
        differs_from_sent = self.differs_from_sent
        cached = self.cached
        # After an error the offsets are sent again.
        cached.sent_high_watermark = self.high_watermark if self.error is ErrorCode.NONE else _NEVER_SENT
        cached.sent_log_start_offset = self.log_start_offset
        return differs_from_sent
