"""Length-prefixed frames over a stream of bytes, as nodes of the quorum send them to each other."""

from collections.abc import Callable
from typing import TypeVar

import trio

from kraft.msgpack_reading import MalformedMessage

T = TypeVar("T")

# A response to a Fetch holds a megabyte of batches, or one larger batch. The largest batch of a controller has ten
# thousand records.
FRAME_BYTES_MAX = 64 << 20
_RECEIVE_BYTES = 65_536


class PeerConnectionLost(Exception):
    """The connection broke, or the peer sent invalid data.

    `was_reset` is True if the connection was reset, refused or closed, as happens when the peer's process dies.
    """

    def __init__(self, reason: str, *, was_reset: bool = False) -> None:
        super().__init__(reason)
        self.was_reset = was_reset


class Frames:
    """Sends and receives frames over a stream of bytes."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def receive(self, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
        """Return the next frame. Memory grows with the received bytes, not with the size that the frame announces.

        Raises PeerConnectionLost.
        """
        size = int.from_bytes(await self._exactly(4))
        if size > bytes_max:
            raise PeerConnectionLost(f"a frame of {size} bytes")
        return await self._exactly(size)

    async def send(self, body: bytes) -> None:
        """Send a frame. Only one task may send at a time. Raises PeerConnectionLost."""
        try:
            await self._stream.send_all(len(body).to_bytes(4) + body)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise PeerConnectionLost(str(error.__cause__ or error), was_reset=True) from error

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            try:
                data = await self._stream.receive_some(_RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerConnectionLost(str(error.__cause__ or error), was_reset=True) from error
            if not data:
                raise PeerConnectionLost("closed by the other side", was_reset=True)
            self._buffer += data
        with memoryview(self._buffer) as view:
            taken = bytes(view[:count])
        del self._buffer[:count]
        return taken


async def receive_message(frames: Frames, bytes_max: int, decode_frame: Callable[[bytes], T]) -> T:
    """Return the next message. Raises PeerConnectionLost, also for one that is malformed."""
    body = await frames.receive(bytes_max)
    try:
        return decode_frame(body)
    except MalformedMessage as error:
        raise PeerConnectionLost(str(error)) from error
