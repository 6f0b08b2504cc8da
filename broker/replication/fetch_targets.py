"""One partition of a fetch: what is asked for, what was told last, what is found."""

from collections.abc import Sized
from typing import Final, Protocol

from broker.replication.leading import DivergingEpoch
from broker.replication.partition import Partition
from broker.wire.errors import ErrorCode

_NEVER_SENT: Final = -1


class TargetListener(Protocol):
    """The fetch session that a target belongs to."""

    def moved(self, target: "FetchTarget", partition: Partition) -> None: ...


class FetchTarget:
    """One partition of a fetch request, and what the session last told the client about it.

    `topic` is a name, or a topic id of 16 bytes, as the request's version has it. A target waits at the partition that
    it was found to be (`partition`) and tells the session, `listener`, that there may be news.
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
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start_offset = _NEVER_SENT
        self.partition: Partition | None = None
        self.listener: TargetListener | None = None

    def take_over(self, named: "FetchTarget") -> None:
        """Ask for what another one asks for. Who does so in another epoch is told all anew, also if nothing moved."""
        if named.current_leader_epoch != self.current_leader_epoch:
            self.sent_high_watermark = _NEVER_SENT
        self.fetch_offset = named.fetch_offset
        self.max_bytes = named.max_bytes
        self.current_leader_epoch = named.current_leader_epoch
        self.last_fetched_epoch = named.last_fetched_epoch
        self.log_start_offset = named.log_start_offset

    def try_complete(self, partition: Partition) -> None:
        """The partition has moved, and has forgotten this."""
        if self.listener is not None:
            self.listener.moved(self, partition)

    def leave(self) -> None:
        """Belong to no session and wait nowhere any more."""
        self.listener = None
        if self.partition is not None:
            self.partition.waiters.for_high_watermark.pop(self, None)
            self.partition.waiters.for_log_end.pop(self, None)
            self.partition = None


class FetchedPartition:
    """What one partition answers. `records` is opaque here; only whether it is empty matters.

    `diverging` is where the log parts from the client's, and `read_replica` the broker to ask instead (KIP-392); either
    comes instead of records.
    """

    __slots__ = (
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read_replica",
        "records",
        "target",
    )

    def __init__(
        self,
        target: FetchTarget,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Sized | None = None,
        diverging: DivergingEpoch | None = None,
        read_replica: int | None = None,
    ) -> None:
        self.target = target
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.diverging = diverging
        self.read_replica = read_replica

    def is_news(self) -> bool:
        """Whether this says anything the client has not been told, and note that it is told now."""
        target = self.target
        is_news = bool(self.records) or self.diverging is not None or self.read_replica is not None
        if self.high_watermark != target.sent_high_watermark:
            target.sent_high_watermark = self.high_watermark
            is_news = True
        if self.log_start_offset != target.sent_log_start_offset:
            target.sent_log_start_offset = self.log_start_offset
            is_news = True
        if self.error is not ErrorCode.NONE:
            target.sent_high_watermark = _NEVER_SENT  # say so again when it has recovered
            is_news = True
        return is_news
