"""What a state machine sees of the log: append as the leader, wait for commit, hear what was committed.

Nothing in here says how many voters there are: one that agrees with itself, or several.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Protocol, runtime_checkable

import attrs

from kraft.bounds import Epoch, Offset, Records, TimestampMs


class NotLeader(Exception):
    """This node does not lead the log in the given epoch; what it had appended but not committed may be gone."""


@attrs.frozen
class Leadership:
    """Who leads in `epoch`; `leader_id` is None while nobody does."""

    leader_id: int | None
    epoch: int


class BatchKind(IntEnum):
    """Whose records a batch holds: the state machine's, or the quorum's own. The numbers are those on disk."""

    DATA = 0
    LEADER_CHANGE = 1
    VOTERS = 2


@attrs.frozen
class Batch:
    """Records that were appended together, and so are in the log either all or not at all.

    `append_time_ms` is the leader's wall clock, in milliseconds since 1970.
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
    """A state machine on top of the log. Its methods are called in the order of the log, and must not block."""

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        """These batches are committed, and nothing of a state machine's lies between them and those before.

        Offsets may be missing in between: they belong to the quorum, which writes entries of its own.
        """
        ...

    def handle_leader_change(self, leadership: Leadership) -> None:
        """The leader or the epoch changed.

        Where this node is the leader, everything that was committed before its epoch has been handed over already.
        Where it was the leader, whatever it had appended and not yet seen committed counts as lost.
        """
        ...


@runtime_checkable
class SnapshotListener(Protocol):
    """A listener that can start from a state rather than from the beginning of the log.

    Whoever takes snapshots needs all listeners to be ones: the log before a snapshot is gone.
    """

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        """Forget everything: these records make the state after all below `end_offset`.

        Large states are to be taken over with checkpoints in between; nothing else is handed over meanwhile. Portions
        are read from the disk as they are asked for: a listener that needs none of them costs nothing.
        """
        ...


@runtime_checkable
class ResetListener(Protocol):
    """A listener that wants to know early who may have died."""

    def handle_connection_reset(self, node_id: int) -> None:
        """A connection to or from that node was reset, refused or closed, as its process's death would look.

        Only a hint: the node may be well, and be back in a moment. Must not block.
        """
        ...


class ReplicatedLog(Protocol):
    """One log that its voters agree on."""

    @property
    def node_id(self) -> int: ...

    @property
    def leadership(self) -> Leadership: ...

    @property
    def end_offset(self) -> int:
        """The offset the next appended record gets, as far as this node knows."""
        ...

    @property
    def committed_end_offset(self) -> int:
        """Everything below is committed: it is durable, and never changes."""
        ...

    def append(self, epoch: int, records: Sequence[bytes]) -> int:
        """Place at least one record behind all appended before, and return the last one's offset.

        The order is fixed on return, durability is not: see `wait_committed`. Raises NotLeader unless this node leads
        in `epoch`.
        """
        ...

    async def wait_committed(self, epoch: int, offset: int) -> None:
        """Return once the record appended at `offset` in `epoch` is committed and every listener has heard of it.

        Raises NotLeader when leadership was lost before that. The record may be committed or gone then: nobody knows.
        """
        ...

    async def take_snapshot(self, end_offset: int, records: Iterable[bytes]) -> None:
        """Keep `records`, which make the state after all below `end_offset`, in place of that part of the log.

        `end_offset` is where a batch ends that was handed over; nothing happens where the log begins there or later.
        `records` are asked for as they are written, with checkpoints in between. Raises OSError, having changed nothing
        that counts; FsyncFailed.
        """
        ...

    def register(self, listener: Listener) -> None:
        """Have `listener` hear of everything from the start of the log. To be called before the log runs."""
        ...
