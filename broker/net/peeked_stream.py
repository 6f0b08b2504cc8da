"""A stream whose first bytes were read to detect its protocol."""

import trio


class PeekedStream(trio.abc.Stream):
    """Returns the bytes that were read of `stream` again, and then the rest of it."""

    def __init__(self, stream: trio.abc.Stream, prefix: bytes) -> None:
        self._stream = stream
        self._prefix = prefix

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self._prefix:
            return bytes(await self._stream.receive_some(max_bytes))
        await trio.lowlevel.checkpoint()
        taken = self._prefix[:max_bytes]
        self._prefix = self._prefix[len(taken) :]
        return taken

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def peek(stream: trio.abc.Stream, count: int) -> tuple[bytes, PeekedStream]:
    """The first `count` bytes, fewer if the stream ends before, and a stream that returns them again.

    Raises BrokenResourceError.
    """
    prefix = b""
    while len(prefix) < count:
        data = await stream.receive_some(count - len(prefix))
        if not data:
            break
        prefix += data
    return prefix, PeekedStream(stream, prefix)
