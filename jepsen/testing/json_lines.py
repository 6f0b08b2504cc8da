"""JSON messages, one a line, over a stream between two processes that trust each other."""

import json
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

import trio

_RECEIVED_AT_ONCE: Final = 64 * 1024


class JsonLines:
    """One end of a connection. Several tasks may send; one receives."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
        self._sending = trio.Lock()

    async def send(self, *messages: object) -> None:
        """Send messages in their order. Raises trio.BrokenResourceError, trio.ClosedResourceError."""
        async with self._sending:
            await self._stream.send_all("".join(f"{json.dumps(each, default=str)}\n" for each in messages).encode())

    async def received(self) -> AsyncIterator[dict[str, Any]]:
        """The messages of the other end, until it is closed or its process has ended."""
        buffer = b""
        while chunk := await self._receive():
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_RECEIVED_AT_ONCE))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""
