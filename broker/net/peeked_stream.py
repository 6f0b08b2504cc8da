"""A stream whose first bytes were read to see what it carries."""

import trio


class PeekedStream(trio.abc.Stream):
    """Gives what was read of `stream` once more, and then the rest."""

    def __init__(self, stream: trio.abc.Stream, begun: bytes) -> None:
        self._stream = stream
        self._begun = begun

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self._begun:
            return bytes(await self._stream.receive_some(max_bytes))
        await trio.lowlevel.checkpoint()
        taken = self._begun[:max_bytes]
        self._begun = self._begun[len(taken) :]
        return taken

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def peek(stream: trio.abc.Stream, count: int) -> tuple[bytes, PeekedStream]:
    """The first `count` bytes, or fewer where the stream ends before, and the stream with them.

    Raises BrokenResourceError.
    """
    begun = b""
    while len(begun) < count:
        data = await stream.receive_some(count - len(begun))
        if not data:
            break
        begun += data
    return begun, PeekedStream(stream, begun)
