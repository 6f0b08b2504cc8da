"""The buffer into which a connection's bytes are received, and in which they are parsed and patched."""

from typing import Final

# The memory that a new connection takes before it has sent anything.
INITIAL_SIZE: Final = 16 * 1024
# One recv of this size amortises the system call; a deeper buffer gains nothing measurable.
STEADY_SIZE: Final = 128 * 1024
# Receiving into less than this would cut pipelined requests into many small reads.
SMALLEST_READ: Final = 4 * 1024
# A buffer that has grown beyond this for a large frame is freed once the frame is consumed. Clients send requests of
# 1 MiB by default, and those should not pay for a new buffer each.
KEPT_SIZE: Final = 2 * 1024 * 1024


class ReceiveBuffer:
    """A growing window `data[start:end]` of bytes that were received and not yet consumed.

    It grows with the bytes that arrive, not with the length that a frame claims, so a peer that claims a large frame
    has to send it before memory is taken. Views handed out before stay valid until the next `clear` or `writable`.
    """

    __slots__ = ("_is_kept", "data", "end", "start", "view")

    def __init__(self) -> None:
        self.data = bytearray(INITIAL_SIZE)
        self.view = memoryview(self.data)
        self.start = 0
        self.end = 0
        self._is_kept = True

    def clear(self) -> memoryview:
        """All bytes were consumed: returns the whole buffer, to receive into."""
        self.start = self.end = 0
        if not self._is_kept:
            self._replace(STEADY_SIZE)
        return self.view

    def writable(self, frame_size: int) -> memoryview:
        """Free space after the bytes that are held, to receive into; empty when the buffer holds all it may.

        `frame_size` is the size of the incomplete frame at `start`, length prefix included; 0 when the frames at
        hand are complete and only wait to be run, and nothing more than the steady size is kept for them.
        """
        held = self.end - self.start
        capacity = len(self.data)
        if self.start + frame_size > capacity or capacity - self.end < SMALLEST_READ:
            target = max(frame_size, STEADY_SIZE)
            if held + SMALLEST_READ > capacity and capacity < target:
                self._replace(min(target, max(2 * capacity, STEADY_SIZE)))
            elif self.start:
                self.view[:held] = self.view[self.start : self.end]
                self.start = 0
                self.end = held
        return self.view[self.end :]

    def detach(self) -> None:
        """Continue in other memory, so that views returned before stay valid for good."""
        self._replace(max(self.end - self.start + SMALLEST_READ, STEADY_SIZE))

    def _replace(self, capacity: int) -> None:
        """Bring the window to the front of a new buffer of `capacity` bytes."""
        data = bytearray(capacity)
        held = self.end - self.start
        data[:held] = self.view[self.start : self.end]
        self._is_kept = capacity <= KEPT_SIZE
        self.data = data
        self.view = memoryview(data)
        self.start = 0
        self.end = held
