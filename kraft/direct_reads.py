"""Reads of a file past the page cache (O_DIRECT)."""

import errno
import mmap
import os

# Blocks of devices have 512 or 4096 bytes.
_BLOCK_BYTES = 4096


class DirectReads:
    """Reads the file of an open descriptor from its device, if the file system can."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        try:
            self._descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        except (AttributeError, OSError):
            self._descriptor = -1

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at `offset`; none if the file system cannot read them so. Raises OSError."""
        if self._descriptor < 0 or count <= 0:
            return b""
        begin, end = offset // _BLOCK_BYTES * _BLOCK_BYTES, -(-(offset + count) // _BLOCK_BYTES) * _BLOCK_BYTES
        with mmap.mmap(-1, end - begin) as buffer:  # whose address is aligned, as O_DIRECT requires
            try:
                read = os.preadv(self._descriptor, [buffer], begin)
            except OSError as error:
                if error.errno != errno.EINVAL:  # larger blocks, or a file system that only claims to know O_DIRECT
                    raise
                self.close()
                return b""
            return buffer[offset - begin : min(read, offset - begin + count)]

    def close(self) -> None:
        """Close the descriptor. Closing twice is allowed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
