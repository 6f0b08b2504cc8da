"""The quorum-state file, which stores the epoch and the vote: [epoch, node id and directory id of the vote, or nil].

It has two copies of each slot. With one, a flipped bit could make the replica forget its latest vote, and vote twice in
an epoch.
"""

from typing import Any, Final

from kraft.core import ElectionState, ReplicaKey
from kraft.env import Disk
from kraft.log.slots import SlotFile

FILE_NAME: Final = "quorum-state"
_COPIES: Final = 2


class QuorumStateLost(Exception):
    """The file, whose path is the message, has no intact slot."""


class QuorumStateFile:
    """The open file. `state` is the durable state. `was_lost` is True if the file had no intact slot."""

    def __init__(self, slots: SlotFile) -> None:
        self._slots = slots
        state = _decode(slots.fields)
        self.was_lost = state is None
        self.state = ElectionState() if state is None else state

    @classmethod
    async def open(cls, disk: Disk, directory: str, *, may_be_lost: bool = True) -> "QuorumStateFile":
        """Read the file in `directory`, which exists, and write the state again before it is used, see `_rewrite`.

        Raises QuorumStateLost if there is no intact slot, unless `may_be_lost`; OSError.
        """
        path = f"{directory}/{FILE_NAME}"
        if not may_be_lost and not disk.exists(path):
            raise QuorumStateLost(path)
        file = cls(SlotFile(disk.open(path, create=True), _COPIES))
        if file.was_lost and not may_be_lost:
            file.close()
            raise QuorumStateLost(path)
        await file._rewrite()
        await disk.sync_dir(directory)
        return file

    async def save(self, state: ElectionState) -> None:
        """Make `state` durable. Raises FsyncFailed, or OSError of the write: the durable state is unknown then."""
        self._slots.replace(_encode(state))
        await self._slots.sync()
        self.state = state

    async def _rewrite(self) -> None:
        """Write the state that was read, and sync it: after a failed sync, it may be in the page cache only.

        It is written to the slot from which it was read: the other slot may be the only durable one, and a power cut
        may tear the slot that is being written.
        """
        self._slots.rewrite(_encode(self.state))
        await self._slots.sync()

    @property
    def slots_with_path(self) -> tuple[str, SlotFile]:
        """The path of the file, and its slots."""
        return self._slots.path, self._slots

    def close(self) -> None:
        self._slots.close()


def _encode(state: ElectionState) -> list[object]:
    vote = [state.voted_for.node_id, state.voted_for.directory_id] if state.voted_for is not None else None
    return [state.epoch, vote]


def _decode(fields: Any) -> ElectionState | None:
    match fields:
        case (int(epoch), None):
            return ElectionState(epoch)
        case (int(epoch), [int(node_id), str(directory_id)]):
            return ElectionState(epoch, ReplicaKey(node_id, directory_id))
    return None
