"""The HTTP listener for operators: /metrics for Prometheus, /healthz and /readyz for supervisors.

h11 parses the requests, https://h11.readthedocs.io. It does no I/O, so it runs on Trio as it is, and has no
dependencies. This module is imported only by nodes that have such a listener.

Clients of this port are not trusted: the size of a request, the number of connections and all waits are bounded. When
there are too many connections, the one that has waited longest for its next request is closed, so that idle ones do
not lock out Prometheus.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

import attrs
import h11
import trio

from broker.metrics.exposition import OPEN_METRICS, TEXT, Format, exposition
from broker.metrics.registry import MetricsRegistry

# Prometheus, a supervisor or two and an operator, each with some connections.
CONNECTIONS_MAX: Final = 16
# Scrapes at the same time: a second Prometheus is usual, more of them would only slow down each other.
SCRAPES_MAX: Final = 2
# The request line and the headers. Those of Prometheus have some 300 bytes.
REQUEST_BYTES_MAX: Final = 8 * 1024
# From the first byte to the end of a request's headers.
REQUEST_TIMEOUT_S: Final = 10.0
# Between two requests. Prometheus keeps its connection between scrapes.
IDLE_TIMEOUT_S: Final = 300.0
# For a reader to take a piece of a response.
SEND_TIMEOUT_S: Final = 10.0
# Pieces of a response that are sent together.
_CHUNK_BYTES: Final = 64 * 1024
# The time for which a scrape holds the event loop at once.
_SLICE_S: Final = 0.002
_RECEIVED_AT_ONCE: Final = 4096
_PLAIN: Final = "text/plain; charset=utf-8"


@attrs.define(eq=False)
class _Client:
    """One connection. `is_idle` while it waits for a request."""

    stream: trio.abc.Stream
    protocol: h11.Connection
    scope: trio.CancelScope
    is_idle: bool = True


@attrs.frozen
class _Answer:
    status: int
    body: Iterator[str]
    content_type: str = _PLAIN

    def close(self) -> None:
        """Generate no more of the body."""
        if isinstance(self.body, Generator):
            self.body.close()


class HttpServer:
    """Serves the metrics of `registry`. `not_ready` returns the reasons for which the node is not ready; none if it is.

    `failed` traces an error in gathering the metrics, which ends the connection only.
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        not_ready: Callable[[], Sequence[str]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._registry = registry
        self._not_ready = not_ready
        self._failed = failed
        self._clients: dict[_Client, None] = {}  # in the order in which they became idle, or began
        self._scrapes = 0

    async def run(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Accept connections until cancelled."""
        await trio.serve_listeners(self.serve, list(listeners))

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection, and close it."""
        with trio.CancelScope() as scope:
            client = _Client(stream, h11.Connection(h11.SERVER, REQUEST_BYTES_MAX), scope)
            if len(self._clients) >= CONNECTIONS_MAX:
                self._close_idle_connection()
            if len(self._clients) < CONNECTIONS_MAX:
                self._clients[client] = None
                try:
                    await self._converse(client)
                except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                    pass
                except Exception as error:  # noqa: BLE001 - a metric that cannot be read must not end the node
                    self._failed(error)
        self._clients.pop(client, None)
        await trio.aclose_forcefully(stream)

    def _close_idle_connection(self) -> None:
        """Close the connection that has waited longest for a request, if one waits."""
        longest = next((client for client in self._clients if client.is_idle), None)
        if longest is not None:
            del self._clients[longest]
            longest.scope.cancel()

    async def _converse(self, client: _Client) -> None:
        """Answer requests until the client leaves, is too slow, or breaks the protocol."""
        protocol = client.protocol
        while True:
            client.is_idle = True
            try:
                request, has_body = await self._next_request(client)
            except h11.RemoteProtocolError as error:
                if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    await self._send(client, _Answer(error.error_status_hint, iter(["bad request\n"])), closes=True)
                return
            if request is None:
                return
            answer = await self._answer(request, has_body=has_body)
            try:
                await self._send(client, answer, closes=has_body, has_body=request.method != b"HEAD")
            finally:
                answer.close()
            if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                return
            protocol.start_next_cycle()
            if client in self._clients:  # it becomes the one that has waited least
                self._clients[client] = self._clients.pop(client)

    async def _next_request(self, client: _Client) -> tuple[h11.Request | None, bool]:
        """The next request, and whether it has a body; None if the client has left.

        Raises h11.RemoteProtocolError, TooSlowError.
        """
        protocol = client.protocol
        with trio.fail_after(IDLE_TIMEOUT_S) as idle:
            while True:
                event = protocol.next_event()
                if isinstance(event, h11.Request):
                    client.is_idle = False
                    return event, not isinstance(protocol.next_event(), h11.EndOfMessage)
                if event is not h11.NEED_DATA:
                    return None, False
                protocol.receive_data(bytes(await client.stream.receive_some(_RECEIVED_AT_ONCE)))
                if client.is_idle:
                    client.is_idle = False
                    idle.deadline = min(idle.deadline, trio.current_time() + REQUEST_TIMEOUT_S)

    async def _answer(self, request: h11.Request, *, has_body: bool) -> _Answer:
        path = request.target.partition(b"?")[0]
        if has_body:
            return _Answer(413, iter(["requests have no body here\n"]))
        if request.method not in (b"GET", b"HEAD"):
            return _Answer(405, iter(["GET only\n"]))
        if path == b"/metrics":
            return await self._metrics(request)
        if path == b"/healthz":
            return _Answer(200, iter(["ok\n"]))
        if path == b"/readyz":
            reasons = self._not_ready()
            return (
                _Answer(503, iter([f"{reason}\n" for reason in reasons])) if reasons else _Answer(200, iter(["ok\n"]))
            )
        return _Answer(404, iter(["/metrics, /healthz and /readyz are here\n"]))

    async def _metrics(self, request: h11.Request) -> _Answer:
        if request.method == b"GET" and self._scrapes >= SCRAPES_MAX:
            return _Answer(503, iter([f"{SCRAPES_MAX} scrapes are under way\n"]))
        accepted = b",".join(value for name, value in request.headers if name == b"accept")
        text_format: Format = OPEN_METRICS if b"application/openmetrics-text" in accepted else TEXT
        if request.method == b"HEAD":
            return _Answer(200, iter(()), text_format.content_type)
        await self._registry.prepare()
        return _Answer(200, self._counted(exposition(self._registry.collect(), text_format)), text_format.content_type)

    def _counted(self, pieces: Iterator[str]) -> Iterator[str]:
        """The same pieces. The scrape is under way from the first one until the iterator is closed."""
        self._scrapes += 1
        try:
            yield from pieces
        finally:
            self._scrapes -= 1

    async def _send(self, client: _Client, answer: _Answer, *, closes: bool, has_body: bool = True) -> None:
        """Send a response. Raises TooSlowError if the client does not read."""
        headers = [("Content-Type", answer.content_type), ("Cache-Control", "no-store")]
        if closes:
            headers.append(("Connection", "close"))
        await _send_event(client, h11.Response(status_code=answer.status, headers=headers))
        if has_body:
            await self._send_body(client, answer.body)
        await _send_event(client, h11.EndOfMessage())

    async def _send_body(self, client: _Client, pieces: Iterator[str]) -> None:
        """Send the text in chunks. Between two slices of some milliseconds other tasks run."""
        chunk: list[str] = []
        size = 0
        deadline = trio.current_time() + _SLICE_S
        for piece in pieces:
            chunk.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES:
                await _send_event(client, h11.Data(data="".join(chunk).encode()))
                chunk, size = [], 0
            elif trio.current_time() >= deadline:
                await trio.lowlevel.checkpoint()
            else:
                continue
            deadline = trio.current_time() + _SLICE_S
        if size:
            await _send_event(client, h11.Data(data="".join(chunk).encode()))


async def _send_event(client: _Client, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
    data = client.protocol.send(event)
    if data:
        with trio.fail_after(SEND_TIMEOUT_S):
            await client.stream.send_all(data)
