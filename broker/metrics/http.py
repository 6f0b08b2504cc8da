"""The HTTP listener for operators: /metrics for Prometheus, /healthz and /readyz for supervisors.

h11 parses the requests, https://h11.readthedocs.io. It does no I/O, so it runs on Trio as it is, and has no
dependencies. This module is imported only by nodes that have such a listener.

Clients of this port are not trusted: the size of a request, the number of connections and all waits are bounded. None
of the bounds locks out others. A new connection is always served: it takes the place of the one that has waited longest
for its request, whether it is idle or sends its headers slowly. Connections that do not read their responses have a
bound of their own, and so have scrapes, where a reader that was waited for makes room for another one.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Final

import attrs
import h11
import trio

from broker.metrics.exposition import OPEN_METRICS, TEXT, Format
from kraft import lazy_attrs

# Connections that wait for a request: Prometheus, a supervisor or two and an operator, each with some connections.
WAITING_MAX: Final = 16
# Connections that have yet to take a piece of their response. One that reads takes it at once.
SENDING_MAX: Final = 8
# Scrapes at the same time: a second Prometheus is usual, more of them would only slow down each other.
SCRAPES_MAX: Final = 2
# A reader is slow if a piece of 64 KiB takes longer. A scrape that has waited so long for slow pieces, in all, makes
# room for another scrape.
SLOW_PIECE_S: Final = 0.1
SLOW_READER_S: Final = 1.0
# The request line and the headers. Those of Prometheus have some 300 bytes.
REQUEST_BYTES_MAX: Final = 8 * 1024
# From the first byte to the end of a request's headers.
REQUEST_TIMEOUT_S: Final = 10.0
# Between two requests. Prometheus keeps its connection between scrapes.
IDLE_TIMEOUT_S: Final = 300.0
# For a reader to take a piece of a response, and the whole response. Prometheus gives up after 10 s.
SEND_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 30.0
# Pieces of a response that are sent together.
_CHUNK_BYTES: Final = 64 * 1024
# The time for which a scrape holds the event loop at once.
_SLICE_S: Final = 0.002
_RECEIVED_AT_ONCE: Final = 4096
_PLAIN: Final = "text/plain; charset=utf-8"


@lazy_attrs.define(eq=False)
class _Client:
    """One connection. Times are of Trio's clock; `send_began` is that of the piece that is being sent."""

    stream: trio.abc.Stream
    protocol: h11.Connection
    scope: trio.CancelScope
    send_began: float = inf
    _waited_s: float = 0.0

    def waited_s(self) -> float:
        """The time that slow pieces of the present response have taken so far."""
        return self._waited_s + max(0.0, trio.current_time() - self.send_began - SLOW_PIECE_S)

    def sent(self) -> None:
        """Note that a piece is sent."""
        self._waited_s = self.waited_s()
        self.send_began = inf

    def begin_response(self) -> None:
        self._waited_s = 0.0


@lazy_attrs.define
class _Waiting:
    """Connections that wait for their clients, in the order in which they began to. The first makes room for others."""

    clients_max: int
    clients: dict[_Client, None] = attrs.field(factory=dict)

    @contextmanager
    def joined(self, client: _Client) -> Iterator[None]:
        """Within the block, the connection is one of these. It is cancelled if others need the room."""
        if len(self.clients) >= self.clients_max:
            longest = next(iter(self.clients))
            del self.clients[longest]
            longest.scope.cancel()
        self.clients[client] = None
        try:
            yield
        finally:
            self.clients.pop(client, None)


@lazy_attrs.frozen
class _Answer:
    status: int
    body: Iterator[str]
    content_type: str = _PLAIN

    def close(self) -> None:
        """Generate no more of the body."""
        if isinstance(self.body, Generator):
            self.body.close()


class HttpServer:
    """Serves the metrics that `page` returns the text of. `not_ready` returns the reasons for not being ready, if any.

    `failed` traces an error in gathering the metrics, which ends the connection only.
    """

    def __init__(
        self,
        page: Callable[[Format], Awaitable[Iterator[str]]],
        not_ready: Callable[[], Awaitable[Sequence[str]]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._page = page
        self._not_ready = not_ready
        self._failed = failed
        self._receiving = _Waiting(WAITING_MAX)
        self._sending = _Waiting(SENDING_MAX)
        self._scrapes: dict[_Client, None] = {}

    async def run(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Accept connections until cancelled."""
        await trio.serve_listeners(self.serve, list(listeners))

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection, and close it."""
        with trio.CancelScope() as scope:
            client = _Client(stream, h11.Connection(h11.SERVER, REQUEST_BYTES_MAX), scope)
            try:
                await self._converse(client)
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                pass
            except Exception as error:  # noqa: BLE001 - a metric that cannot be read must not end the node
                self._failed(error)
            finally:
                self._scrapes.pop(client, None)
        await trio.aclose_forcefully(stream)

    async def _converse(self, client: _Client) -> None:
        """Answer requests until the client leaves, is too slow, or breaks the protocol."""
        protocol = client.protocol
        while True:
            try:
                with self._receiving.joined(client):
                    request, has_body = await _next_request(client)
            except h11.RemoteProtocolError as error:
                if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    await self._send(client, _Answer(error.error_status_hint, iter(["bad request\n"])), closes=True)
                return
            if request is None:
                return
            answer = await self._answer(client, request, has_body=has_body)
            try:
                with trio.fail_after(RESPONSE_TIMEOUT_S):
                    await self._send(client, answer, closes=has_body, has_body=request.method != b"HEAD")
            finally:
                answer.close()
                self._scrapes.pop(client, None)
            if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                return
            protocol.start_next_cycle()

    async def _answer(self, client: _Client, request: h11.Request, *, has_body: bool) -> _Answer:
        path = request.target.partition(b"?")[0]
        if has_body:
            return _Answer(413, iter(["requests have no body here\n"]))
        if request.method not in (b"GET", b"HEAD"):
            return _Answer(405, iter(["GET only\n"]))
        if path == b"/metrics":
            return await self._metrics(client, request)
        if path == b"/healthz":
            return _Answer(200, iter(["ok\n"]))
        if path == b"/readyz":
            reasons = await self._not_ready()
            return (
                _Answer(503, iter([f"{reason}\n" for reason in reasons])) if reasons else _Answer(200, iter(["ok\n"]))
            )
        return _Answer(404, iter(["/metrics, /healthz and /readyz are here\n"]))

    async def _metrics(self, client: _Client, request: h11.Request) -> _Answer:
        accepted = b",".join(value for name, value in request.headers if name == b"accept")
        text_format: Format = OPEN_METRICS if b"application/openmetrics-text" in accepted else TEXT
        if request.method == b"HEAD":
            return _Answer(200, iter(()), text_format.content_type)
        if not self._begin_scrape(client):
            return _Answer(503, iter([f"{SCRAPES_MAX} scrapes are under way\n"]))
        return _Answer(200, await self._page(text_format), text_format.content_type)

    def _begin_scrape(self, client: _Client) -> bool:
        """Count a scrape, unless there are too many. The one that has waited most for its reader may be ended."""
        if len(self._scrapes) >= SCRAPES_MAX:
            slowest = max(self._scrapes, key=_Client.waited_s)
            if slowest.waited_s() < SLOW_READER_S:
                return False
            del self._scrapes[slowest]
            slowest.scope.cancel()
        self._scrapes[client] = None
        return True

    async def _send(self, client: _Client, answer: _Answer, *, closes: bool, has_body: bool = True) -> None:
        """Send a response. Raises TooSlowError if the client does not read."""
        headers = [("Content-Type", answer.content_type), ("Cache-Control", "no-store")]
        if closes:
            headers.append(("Connection", "close"))
        client.begin_response()
        await self._send_event(client, h11.Response(status_code=answer.status, headers=headers))
        if has_body:
            await self._send_body(client, answer.body)
        await self._send_event(client, h11.EndOfMessage())

    async def _send_body(self, client: _Client, pieces: Iterator[str]) -> None:
        """Send the text in chunks. Between two slices of some milliseconds other tasks run."""
        chunk: list[str] = []
        size = 0
        deadline = trio.current_time() + _SLICE_S
        for piece in pieces:
            chunk.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES:
                await self._send_event(client, h11.Data(data="".join(chunk).encode()))
                chunk, size = [], 0
            elif trio.current_time() >= deadline:
                await trio.lowlevel.checkpoint()
            else:
                continue
            deadline = trio.current_time() + _SLICE_S
        if size:
            await self._send_event(client, h11.Data(data="".join(chunk).encode()))

    async def _send_event(self, client: _Client, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = client.protocol.send(event)
        if data:
            client.send_began = trio.current_time()
            with self._sending.joined(client), trio.fail_after(SEND_TIMEOUT_S):
                await client.stream.send_all(data)
            client.sent()


async def _next_request(client: _Client) -> tuple[h11.Request | None, bool]:
    """The next request, and whether it has a body; None if the client has left.

    Raises h11.RemoteProtocolError, TooSlowError.
    """
    protocol = client.protocol
    has_begun = False
    with trio.fail_after(IDLE_TIMEOUT_S) as idle:
        while True:
            event = protocol.next_event()
            if isinstance(event, h11.Request):
                return event, _has_body(event) or not isinstance(protocol.next_event(), h11.EndOfMessage)
            if event is not h11.NEED_DATA:
                return None, False
            protocol.receive_data(bytes(await client.stream.receive_some(_RECEIVED_AT_ONCE)))
            if not has_begun:
                has_begun = True
                idle.deadline = min(idle.deadline, trio.current_time() + REQUEST_TIMEOUT_S)


def _has_body(request: h11.Request) -> bool:
    """True for a body in chunks, even if it is empty.

    Raises h11.RemoteProtocolError for a request with two lengths. A proxy may go by the other one than this node, and
    take a part of the body for a request of another client (RFC 9112, section 6.1).
    """
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
    return b"transfer-encoding" in names
