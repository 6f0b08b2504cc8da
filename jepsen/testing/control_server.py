"""HTTP with JSON bodies on the control port. h11 has the protocol, as for the node's own /metrics.

The port is on the loopback interface, and its clients are trusted: they may kill nodes. Its bounds only keep a mistake
from filling the memory.
"""

import json
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

import attrs
import h11
import trio

from jepsen.testing.errors import ControlRefused

BODY_BYTES_MAX: Final = 1 << 20
_RECEIVED_AT_ONCE: Final = 64 * 1024
_HEADERS_BYTES_MAX: Final = 64 * 1024
_FAILED: Final = 500


@attrs.frozen
class Request:
    """`path` has no query. `disconnected` waits until the client has closed its connection."""

    method: str
    path: str
    body: Any
    disconnected: Callable[[], Awaitable[None]]


# A handler yields the parts of the response: usually one, and more for a request that lasts.
Handler = Callable[[Request], AsyncGenerator[object, None]]


class ControlServer:
    """Serves each request with `handle`. A refused request gets `{"error": "..."}`."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection, and close it."""
        protocol = h11.Connection(h11.SERVER, _HEADERS_BYTES_MAX)
        async with stream:
            try:
                while (request := await _receive(protocol, stream)) is not None:
                    await self._respond(protocol, stream, request)
                    if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                        return
                    protocol.start_next_cycle()
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
                pass

    async def _respond(self, protocol: h11.Connection, stream: trio.SocketStream, request: Request) -> None:
        has_begun = False
        try:
            async with aclosing(self._handle(request)) as parts:
                async for part in parts:
                    head = b"" if has_begun else _head(protocol, 200)
                    has_begun = True
                    await stream.send_all(head + _piece(protocol, part))
        except ControlRefused as refused:
            assert not has_begun, "a request is refused before its response begins"
            await stream.send_all(_head(protocol, refused.status) + _piece(protocol, {"error": str(refused)}))
        except Exception as error:
            if has_begun or isinstance(error, trio.BrokenResourceError | trio.ClosedResourceError):
                raise
            # A mistake of one request must not end the clusters of other tests.
            described = "".join(traceback.format_exception(error))
            await stream.send_all(_head(protocol, _FAILED) + _piece(protocol, {"error": described}))
        await stream.send_all(protocol.send(h11.EndOfMessage()) or b"")


def _head(protocol: h11.Connection, status: int) -> bytes:
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    return protocol.send(h11.Response(status_code=status, headers=headers)) or b""


def _piece(protocol: h11.Connection, part: object) -> bytes:
    return protocol.send(h11.Data(data=f"{json.dumps(part, default=str)}\n".encode())) or b""


async def _receive(protocol: h11.Connection, stream: trio.SocketStream) -> Request | None:
    """The next request; None if the client has left. Raises h11.ProtocolError, trio.BrokenResourceError."""
    head: h11.Request | None = None
    body = b""
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(bytes(await stream.receive_some(_RECEIVED_AT_ONCE)))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise h11.RemoteProtocolError(f"a body of more than {BODY_BYTES_MAX} bytes")
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None, "a body follows a head"
            return _request(head, body, stream)
        else:
            return None


def _request(head: h11.Request, body: bytes, stream: trio.SocketStream) -> Request:
    async def disconnected() -> None:
        try:
            while await stream.receive_some(_RECEIVED_AT_ONCE):
                pass
        except trio.BrokenResourceError:
            pass

    try:
        parsed = json.loads(body) if body else {}
    except ValueError:
        parsed = None  # no JSON object: the words are refused
    path = head.target.partition(b"?")[0].decode("ascii", "replace")
    return Request(head.method.decode("ascii"), path, parsed, disconnected)
