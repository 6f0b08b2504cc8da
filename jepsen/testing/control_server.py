"""HTTP with JSON bodies on the control port. h11 has the protocol, as for the node's own /metrics.

The port is on the loopback interface, and its clients are trusted: they may kill nodes. Its bounds only keep a mistake
from filling the memory. Web pages are not trusted, and a browser on this machine can reach the port for them. Browsers
send the header Origin with what a page sends to another site. A page of a site that resolves to this machine (DNS
rebinding) has the site's name in the header Host, which has a dot.
"""

import json
import re
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from ipaddress import ip_address
from typing import Any, Final

import attrs
import h11
import trio

from jepsen.testing.errors import BadRequest, ControlRefused, Forbidden, TooLarge

# Tests write records of a few megabytes in one request; base64 adds a third.
BODY_BYTES_MAX: Final = 32 << 20
_RECEIVED_AT_ONCE: Final = 64 * 1024
_HEADERS_BYTES_MAX: Final = 64 * 1024
_FAILED: Final = 500


@attrs.frozen
class Request:
    """`path` has no query. `disconnected` waits until the client has closed its connection. A request that is `refused`
    does not reach the handler.
    """

    method: str
    path: str
    body: Any
    disconnected: Callable[[], Awaitable[None]]
    refused: ControlRefused | None = None


# A handler yields the parts of the response: usually one, and more for a request that lasts.
Handler = Callable[[Request], AsyncGenerator[object, None]]


class ControlServer:
    """Serves each request with `handle`. A refused request gets `{"error": "..."}`.

    `host` is the name or the address of the port; other names with a dot are not served.
    """

    def __init__(self, handle: Handler, host: str) -> None:
        self._handle = handle
        self._host = host

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection, and close it."""
        protocol = h11.Connection(h11.SERVER, _HEADERS_BYTES_MAX)
        async with stream:
            try:
                while (request := await _receive(protocol, stream, self._host)) is not None:
                    await self._respond(protocol, stream, request)
                    if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                        return
                    protocol.start_next_cycle()
            except h11.RemoteProtocolError as error:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
                    await stream.send_all(_refusal(protocol, error))
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
                pass

    async def _respond(self, protocol: h11.Connection, stream: trio.SocketStream, request: Request) -> None:
        has_begun = False
        try:
            if request.refused is not None:
                raise request.refused
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


def _refusal(protocol: h11.Connection, error: h11.RemoteProtocolError) -> bytes:
    """The response to bytes that are no request. The connection is closed after it. Raises h11.LocalProtocolError."""
    refused = {"error": f"the request is not HTTP: {error}"}
    parts = _head(protocol, error.error_status_hint), _piece(protocol, refused), protocol.send(h11.EndOfMessage())
    return b"".join(part or b"" for part in parts)


def _head(protocol: h11.Connection, status: int) -> bytes:
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
    return protocol.send(h11.Response(status_code=status, headers=headers)) or b""


def _piece(protocol: h11.Connection, part: object) -> bytes:
    return protocol.send(h11.Data(data=f"{json.dumps(part, default=str)}\n".encode())) or b""


async def _receive(protocol: h11.Connection, stream: trio.SocketStream, host: str) -> Request | None:
    """The next request; None if the client has left. Raises h11.ProtocolError, trio.BrokenResourceError."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            if protocol.they_are_waiting_for_100_continue:
                await stream.send_all(protocol.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            protocol.receive_data(bytes(await stream.receive_some(_RECEIVED_AT_ONCE)))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            # A client reads the answer after it has sent all: what is too much is read, and not kept.
            body += event.data[: BODY_BYTES_MAX + 1 - len(body)]
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None, "a body follows a head"
            return _request(head, bytes(body), stream, host)
        else:
            return None


def _request(head: h11.Request, body: bytes, stream: trio.SocketStream, host: str) -> Request:
    async def disconnected() -> None:
        try:
            while await stream.receive_some(_RECEIVED_AT_ONCE):
                pass
        except trio.BrokenResourceError:
            pass

    parsed: object = {}
    refused: ControlRefused | None = None
    try:
        _check_sender(dict(head.headers), host)
        if body:
            parsed = _parse(body)
    except ControlRefused as error:
        refused = error
    path = head.target.partition(b"?")[0].decode("ascii", "replace")
    return Request(head.method.decode("ascii"), path, parsed, disconnected, refused)


def _check_sender(headers: Mapping[bytes, bytes], host: str) -> None:
    """Raises Forbidden for a request of a web page."""
    if b"origin" in headers:
        raise Forbidden("web pages are not served")
    named = headers.get(b"host", b"localhost").decode("ascii", "replace").lower()
    name = re.sub(r":\d*$", "", named)
    if "." in name and name != host.lower() and not _is_address(name):
        raise Forbidden(f"the host {name} is not served; use {host}")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _parse(body: bytes) -> object:
    """The JSON of a body. Raises BadRequest, TooLarge."""
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"the body has more than {BODY_BYTES_MAX} bytes")
    try:
        parsed: object = json.loads(body, parse_constant=_refuse_constant)
        # Half of a surrogate pair is a text for JSON, and cannot be sent to Kafka.
        json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
