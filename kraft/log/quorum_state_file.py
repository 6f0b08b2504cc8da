"""The quorum-state file, which stores the epoch and the vote in two slots.

The slots are written in turn, so that one sync makes a vote durable. A power cut may tear the slot that is being
written; the other slot still holds the previous state. Each slot is

    crc      uint32    CRC-32C of the rest of the slot
    size     uint16    bytes of the msgpack that follows
    [sequence number, epoch, node id and directory id of the vote, or nil]
"""

import struct

import crc32c
import msgpack

from kraft.core import ElectionState, ReplicaKey
from kraft.env import Disk, File

FILE_NAME = "quorum-state"
SLOT_BYTES = 512
_HEADER = struct.Struct(">IH")


class QuorumStateLost(Exception):
    """The file, whose path is the message, has no intact slot."""


class QuorumStateFile:
    """The open file. `state` is the durable state. `was_lost` is True if the file had no intact slot."""

    def __init__(self, file: File, sequence: int, state: ElectionState) -> None:
        self._file = file
        self.was_lost = False
        self._sequence = sequence
        self.state = state

    @classmethod
    async def open(cls, disk: Disk, directory: str, *, may_be_lost: bool = True) -> "QuorumStateFile":
        """Read the file in `directory`, which exists, and write the state again before it is used, see `_rewrite`.

        Raises QuorumStateLost if there is no intact slot, unless `may_be_lost`; OSError.
        """
        path = f"{directory}/{FILE_NAME}"
        if not may_be_lost and not disk.exists(path):
            raise QuorumStateLost(path)
        file = disk.open(path, create=True)
        slots = [slot for position in (0, SLOT_BYTES) if (slot := _decode(file.read(position, SLOT_BYTES)))]
        if not slots and not may_be_lost:
            raise QuorumStateLost(path)
        sequence, state = max(slots, key=lambda slot: slot[0], default=(0, ElectionState()))
        election = cls(file, sequence, state)
        election.was_lost = not slots
        await election._rewrite()
        await disk.sync_dir(directory)
        return election

    async def save(self, state: ElectionState) -> None:
        """Make `state` durable. Raises FsyncFailed, or OSError of the write: the durable state is unknown then."""
        self._sequence += 1
        await self._write(state)

    async def _rewrite(self) -> None:
        """Write the state that was read, and sync it: after a failed sync, it may be in the page cache only.

        It is written to the slot from which it was read: the other slot may be the only durable one, and a power cut
        may tear the slot that is being written.
        """
        await self._write(self.state)

    async def _write(self, state: ElectionState) -> None:
        self._file.write(self._sequence % 2 * SLOT_BYTES, [_encode(self._sequence, state)])
        await self._file.sync()
        self.state = state

    def close(self) -> None:
        self._file.close()


def _encode(sequence: int, state: ElectionState) -> bytes:
    vote = [state.voted_for.node_id, state.voted_for.directory_id] if state.voted_for is not None else None
    packed: bytes = msgpack.packb([sequence, state.epoch, vote])
    assert len(packed) <= SLOT_BYTES - _HEADER.size, "a directory id of this length cannot be voted for"
    body = packed.ljust(SLOT_BYTES - _HEADER.size, b"\0")
    crc = crc32c.crc32c(struct.pack(">H", len(packed)) + body)
    return _HEADER.pack(crc, len(packed)) + body


def _decode(slot: bytes) -> tuple[int, ElectionState] | None:
    if len(slot) < SLOT_BYTES:
        return None
    crc, size = _HEADER.unpack_from(slot)
    if crc32c.crc32c(slot[4:]) != crc:
        return None
    try:
        sequence, epoch, vote = msgpack.unpackb(slot[_HEADER.size : _HEADER.size + size])
        return sequence, ElectionState(epoch, ReplicaKey(*vote) if vote is not None else None)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
