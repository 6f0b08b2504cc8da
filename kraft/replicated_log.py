"""The interface between a replicated log and its state machines: append as the leader, wait for commits, be notified.

The interface is the same for one voter and for several.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol, runtime_checkable

from kraft import lazy_attrs
from kraft.bounds import Epoch, Offset, Records, TimestampMs


class NotLeader(Exception):
    """This node does not lead the log in the given epoch. Its uncommitted records may be lost."""


@lazy_attrs.frozen
class Leadership:
    """The leader in `epoch`; `leader_id` is None without a leader."""

    leader_id: int | None
    epoch: int


class BatchKind(IntEnum):
    """The kind of a batch: records of the state machine, or control records of the quorum. Stored on disk."""

    DATA = 0
    LEADER_CHANGE = 1
    VOTERS = 2


@lazy_attrs.frozen
class Batch:
    """Records that were appended together. The log has either all of them or none.

    `append_time_ms` is in milliseconds since 1970, of the leader's wall clock.
    """

    base_offset: Offset
    epoch: Epoch
    append_time_ms: TimestampMs
    records: Records
    kind: BatchKind = BatchKind.DATA

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.records) - 1


class Listener(Protocol):
    """A state machine on top of the log. The methods are called in the order of the log, and must not block."""

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """Apply the next committed batches.

        The control records of the quorum are left out, so there may be gaps between the offsets.
        """
        ...

    def handle_leader_change(self, leadership: Leadership) -> None:
        """Handle a change of the leader or the epoch.

        If this node is the new leader, all entries committed before its epoch have been handed over already. If it was
        the leader before, the records that it appended and that were not committed count as lost.
        """
        ...


@runtime_checkable
class SnapshotListener(Protocol):
    """A listener that can load a snapshot.

    If snapshots are taken, all listeners must be of this type, because the log below a snapshot is removed.
    """

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Replace the whole state by these records, which represent the state at `end_offset`.

        The method should yield to the event loop between portions; no commit is handed over meanwhile. Portions are
        read from the disk on demand, so a listener that does not need them may ignore them.
        """
        ...


@runtime_checkable
class ResetListener(Protocol):
    """A listener that is notified of reset connections, which are an early hint that a node has died."""

    def handle_connection_reset(self, node_id: int) -> None:
        """A connection to or from the node was reset, refused or closed, as happens when its process dies.

        This is only a hint, as the node may be alive. A node that becomes the leader is notified again of voters whose
        connections broke within the last second. Must not block.
        """
        ...


class ReplicatedLog(Protocol):
    """A log that is replicated by a quorum of voters."""

    @property
    def node_id(self) -> int: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record, as far as this node knows."""
        ...

    @property
    def committed_end_offset(self) -> int:
        """The entries below this offset are committed: durable on a majority, and immutable."""
        ...

    def append(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append at least one record, and return the offset of the last one.

        The records are in order on return, but not durable yet: see `wait_committed`. Raises NotLeader unless this node
        leads in `epoch`.
        """
        ...

    async def wait_committed(self, epoch: int, offset: int) -> None:
        """Wait until the record appended at `offset` in `epoch` is committed and handed over to every listener.

        Raises NotLeader if this node lost its leadership before. The record may become committed or be lost then.
        """
        ...

    async def take_snapshot(self, end_offset: int, records: Iterable[bytes]) -> None:
        """Store `records`, which represent the state at `end_offset`, as a snapshot that replaces the log below.

        `end_offset` is the end of a batch that was handed over. Nothing happens if the log starts there or later. The
        method takes `records` one by one as it writes them, and yields to the event loop in between. Raises OSError,
        with the log unchanged; FsyncFailed.
        """
        ...

    def register(self, listener: Listener) -> None:
        """Register a listener, which is notified of the whole log. To be called before the log runs."""
        ...
