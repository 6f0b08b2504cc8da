"""Tells the streams of other replicas of the quorum from those of Kafka's protocol, on the controllers' listeners.

A request of Kafka's protocol begins with its size in four bytes and its API key in two, of which all that exist are
below 256. The quorum's own protocol begins with a size and a Hello: an array of five in msgpack.

On a listener with SASL, every client begins in Kafka's protocol and authenticates. Its first frame after that decides.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from math import inf
from typing import Final, Protocol, TypeAlias

import trio

from broker.net.connection import Connection, Service
from broker.net.peeked_stream import PeekedStream, peek
from kraft import lazy_attrs

_PEEKED_BYTES: Final = 5
_SIZE: Final = slice(0, 4)
_HELLO_BEGINS: Final = 0x95
# A client that authenticates by its transport sends its first bytes at once.
_FIRST_BYTES_TIMEOUT_S: Final = 10.0


@lazy_attrs.frozen
class Identity:
    """A principal that has authenticated, and until when it has: a time of Trio's clock."""

    principal: str
    until: float = inf


# Serves the stream of another replica of the quorum, with its principal and its address.
ServeReplica: TypeAlias = Callable[[trio.abc.Stream, str, str], Awaitable[None]]


class ControllerService(Service, Protocol):
    """Serves the requests to a controller."""

    def identity_of(self, connection: Connection) -> Identity | None:
        """The identity of the client; None before it has authenticated."""
        ...


class First(Enum):
    """The beginning of a stream."""

    HELLO = "hello"
    REQUEST = "request"


async def read_first(stream: trio.abc.Stream) -> tuple[First | None, trio.abc.Stream]:
    """The beginning of `stream`, None if not enough of it arrives, and a stream that still has all of it."""
    with suppress(trio.BrokenResourceError), trio.move_on_after(_FIRST_BYTES_TIMEOUT_S):
        prefix, peeked = await peek(stream, _PEEKED_BYTES)
        if len(prefix) == _PEEKED_BYTES:
            return First.HELLO if _is_hello(prefix) else First.REQUEST, peeked
    return None, stream


class UndecidedStream(trio.abc.Stream):
    """The stream of a `connection` whose client has to authenticate by requests.

    It is read by frames until the client has authenticated. If the next one is a Hello, the stream ends here, and
    `replica` has the rest of it with the replica's identity. Closing this stream then leaves the other one open.
    """

    def __init__(self, stream: trio.abc.Stream, connection: Connection, service: ControllerService) -> None:
        self.replica: tuple[trio.abc.Stream, Identity] | None = None
        self._stream = stream
        self._connection = connection
        self._service = service
        self._frame = PeekedStream(stream, b"")
        self._left_of_frame = 0
        self._is_decided = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self._is_decided and not self._left_of_frame:
            await self._begin_frame()
        if self.replica is not None or self._connection.closed:
            return b""
        if self._is_decided:
            return await self._frame.receive_some(max_bytes)
        left = self._left_of_frame
        data = await self._frame.receive_some(left if max_bytes is None else min(left, max_bytes))
        self._left_of_frame -= len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        if self.replica is None:
            await self._stream.aclose()
        else:
            await trio.lowlevel.checkpoint()

    async def _begin_frame(self) -> None:
        """Wait for the beginning of a frame, and decide by it if the client has authenticated before."""
        prefix, self._frame = await peek(self._stream, _PEEKED_BYTES)
        if self._connection.closed:
            return
        identity = self._service.identity_of(self._connection)
        if len(prefix) < _PEEKED_BYTES:
            self._is_decided = True  # the stream ends
        elif _is_hello(prefix):
            if identity is None:
                self._connection.close("a replica of the quorum has to authenticate by SASL before its Hello")
            else:
                self.replica = self._frame, identity
            self._is_decided = True
        else:
            # The connection refuses a frame without a byte, and one that is too large.
            size = int.from_bytes(prefix[_SIZE], signed=True)
            self._is_decided = identity is not None or size < 1
            self._left_of_frame = len(prefix[_SIZE]) + size


def _is_hello(prefix: bytes) -> bool:
    return prefix[-1] == _HELLO_BEGINS
