"""A client that uses only this project's codec, with one connection.

It sends any message, even an invalid one, and returns whole responses. It fails if a response has bytes left over,
belongs to a different request than the oldest one, or does not arrive in time.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from broker.wire.api import APIS
from broker.wire.codec import decode, encode
from broker.wire.header import encode_request_header, parse_response_header, response_header_version

# The longest wait of a test. A later response counts as missing.
TIMEOUT_SECONDS = 10


class WireClient:
    """A connection to a node. Responses are in the order of the requests, and each is read with `receive`."""

    def __init__(self, stream: trio.SocketStream, client_id: str = "test") -> None:
        self._client_id = client_id
        self._stream = stream
        self._received = bytearray()
        self._sent: list[tuple[int, type[Any], int]] = []  # correlation id, response class and version
        self._correlation_id = 0

    async def call(self, request: Any, version: int) -> Any:
        """Send one request and return its response."""
        await self.send(request, version)
        return await self.receive()

    async def send(self, request: Any, version: int) -> None:
        await self.pipeline((request, version))

    async def pipeline(self, *requests: tuple[Any, int]) -> None:
        """Send requests in one write, as a client with several in flight does."""
        await self.send_bytes(b"".join(self.frame(request, version) for request, version in requests))

    def frame(self, request: Any, version: int, *, is_answered: bool = True) -> bytes:
        """The bytes of a request. From now on, its response is expected."""
        key = type(request).__message__.key
        self._correlation_id += 1
        if is_answered:
            self._sent.append((self._correlation_id, APIS[key].response, version))
        body = b"".join(map(bytes, encode(request, version)))
        return framed(encode_request_header(key, version, self._correlation_id, self._client_id) + body)

    async def send_unanswered(self, request: Any, version: int) -> None:
        """Send a request that gets no response, such as a Produce with acks=0."""
        await self.send_bytes(self.frame(request, version, is_answered=False))

    async def send_bytes(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def receive(self) -> Any:
        """The response to the oldest unanswered request."""
        expected, response_class, version = self._sent.pop(0)
        payload = await self.receive_frame()
        is_flexible = response_header_version(response_class.__message__.key, version) == 1
        correlation_id, start = parse_response_header(payload, is_flexible)
        assert correlation_id == expected, "a response out of order"
        response, end = decode(response_class, version, payload, start)
        assert end == len(payload), f"{len(payload) - end} bytes after the response"
        return response

    async def receive_frame(self) -> bytes:
        """One frame without its length. Raises EOFError if the node closes the connection."""
        size = int.from_bytes(await self._take(4), "big")
        return await self._take(size)

    async def expect_close(self) -> None:
        """Assert that the node closes the connection without another byte."""
        with trio.fail_after(TIMEOUT_SECONDS):
            try:
                rest = bytes(self._received) or await self._stream.receive_some()
            except trio.BrokenResourceError:  # a reset: the node closed with unread data of ours
                return
        assert not rest, f"{len(rest)} bytes instead of a closed connection"

    async def expect_silence(self, seconds: float) -> None:
        """Assert that nothing arrives for a while."""
        with trio.move_on_after(seconds):
            data = await self._stream.receive_some()
            raise AssertionError(f"{len(data)} bytes where nothing was to be sent")

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _take(self, count: int) -> bytes:
        with trio.fail_after(TIMEOUT_SECONDS):
            while len(self._received) < count:
                data = await self._stream.receive_some()
                if not data:
                    raise EOFError("the node closed the connection")
                self._received += data
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@asynccontextmanager
async def connected(port: int, client_id: str = "test") -> AsyncIterator[WireClient]:
    """A connection that is open within the block."""
    client = WireClient(await trio.open_tcp_stream("127.0.0.1", port), client_id)
    try:
        yield client
    finally:
        await client.aclose()


def only(items: Sequence[Any]) -> Any:
    """The only element of a list, which must have exactly one."""
    assert len(items) == 1, f"{len(items)} elements, not one: {items}"
    return items[0]
