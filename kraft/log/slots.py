"""A small value that is replaced in place, in two slots that are written in turn.

A power cut may tear the slot that is being written; the other slot still holds the previous value. A slot has one or
more copies, so that a flipped bit in the newest slot does not make the previous value the current one. Each copy is

    crc      uint32    CRC-32C of the rest of the copy
    size     uint16    bytes of the msgpack that follows
    [sequence number, field, ...]
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgpack

from kraft.checksums import crc32c
from kraft.env import File, lacks_resources

COPY_BYTES: Final = 512
_HEADER: Final = struct.Struct(">IH")


class SlotFile:
    """The open file. `fields` is the newest value that is intact; None without one."""

    def __init__(self, file: File, copies: int) -> None:
        self._file = file
        self._copies = copies
        found = [_decode(file.read(at, COPY_BYTES)) for at in range(0, 2 * copies * COPY_BYTES, COPY_BYTES)]
        intact = [value for value in found if value is not None]
        newest: tuple[int, tuple[object, ...] | None] = max(intact, key=lambda value: value[0], default=(0, None))
        self._sequence, self.fields = newest

    def replace(self, fields: Sequence[object]) -> None:
        """Write a new value to the slot that does not hold the current one. It is durable after the next sync."""
        self._sequence += 1
        self.rewrite(fields)

    def rewrite(self, fields: Sequence[object]) -> None:
        """Write a value to the slot of the current one."""
        copy = _encode([self._sequence, *fields])
        self._file.write(self._sequence % 2 * self._copies * COPY_BYTES, [copy] * self._copies)
        self.fields = tuple(fields)

    @property
    def path(self) -> str:
        return self._file.path

    def is_damaged(self) -> bool:
        """True if a copy of a value cannot be read, is not intact, or is not the value that was written last.

        Raises OSError if no file can be read now.
        """
        if self.fields is None:
            return False
        current = self._sequence % 2 * self._copies
        for index in range(2 * self._copies):
            try:
                copy = self._file.read_from_device(index * COPY_BYTES, COPY_BYTES)
            except OSError as error:
                if lacks_resources(error):
                    raise
                return True
            is_current = current <= index < current + self._copies
            if is_current and _decode(copy) != (self._sequence, self.fields):
                return True
            if not is_current and any(copy) and _decode(copy) is None:
                return True
        return False

    async def restore(self) -> None:
        """Write the value that was written last to both slots again. Raises OSError, FsyncFailed."""
        assert self.fields is not None, "a value was written"
        for _ in range(2):
            self.replace(self.fields)
            await self.sync()

    async def sync(self) -> None:
        """Raises FsyncFailed."""
        await self._file.sync()

    def close(self) -> None:
        self._file.close()


def _encode(value: list[object]) -> bytes:
    packed: bytes = msgpack.packb(value)
    assert len(packed) <= COPY_BYTES - _HEADER.size, "a value of this length does not fit into a slot"
    body = packed.ljust(COPY_BYTES - _HEADER.size, b"\0")
    crc = crc32c(struct.pack(">H", len(packed)) + body)
    return _HEADER.pack(crc, len(packed)) + body


def _decode(copy: bytes) -> tuple[int, tuple[object, ...]] | None:
    if len(copy) < COPY_BYTES:
        return None
    crc, size = _HEADER.unpack_from(copy)
    if crc32c(copy[4:]) != crc:
        return None
    try:
        sequence, *fields = msgpack.unpackb(copy[_HEADER.size : _HEADER.size + size])
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    return (sequence, tuple(fields)) if type(sequence) is int else None
