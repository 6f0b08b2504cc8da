"""One client connection as a synchronous, sans-I/O pump: whole frames in, replies out in request order.

A driver receives into `receive_space()`, reports the number of bytes with `received()`, has `ConnectionScheduler` run
the connection, and sends `outgoing`. There is no task, channel or cancel scope per request, which would make requests
three times as expensive.

Kafka stops reading a connection while one of its requests is being processed. Here requests are pipelined: a parked
Fetch does not delay a later Produce, and only the replies wait for each other. An exclusive reply
restores Kafka's behaviour where a later request could see the difference.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

from broker.net.driven_connection import ClosedTransport, Transport
from broker.net.listener_security import ANONYMOUS
from broker.net.receive_buffer import ReceiveBuffer
from broker.net.reply import Part, PendingReply, Reply

_SIZE: Final = Struct(">i")
_API_KEY: Final = Struct(">h")
# Size and API key.
_KNOWN_FROM: Final = 6

# Replies that may wait for earlier ones. Clients keep 5 (Java) to 1,000 (librdkafka's internal bound) in flight; a
# parked reply costs about half a kilobyte, so one connection can hold at most some 100 KB this way.
IN_FLIGHT_MAX: Final = 256
# Replies collected before they are sent: enough to amortise a send, too little to hurt if the reader is slow.
OUTGOING_MAX: Final = 64 * 1024


# `Service.serve`: a connection, and where in its buffer the request begins and ends.
Serve: TypeAlias = Callable[["Connection", int, int], Reply]


class Sender(Enum):
    """The kind of sender of a request, as far as the request tells."""

    BROKER = "broker"
    CLIENT = "client"
    """A producer or a consumer."""
    ANYONE = "anyone"
    """An administrator, or any of the others before it has said more."""


class Service(Protocol):
    """Serves the requests of connections."""

    def open_session(self, connection: "Connection") -> object:
        """Return what the service keeps for a new connection, as `Connection.session`."""
        ...

    def serve(self, connection: "Connection", start: int, end: int) -> Reply:
        """Answer the request in `connection.buffer.data[start:end]`; may keep views of it until `ConnectionScheduler`
        commits.

        Raises ProtocolError when the connection has to be closed.
        """
        ...

    def sender_of(self, connection: "Connection", start: int, end: int) -> Sender:
        """Tell who sends the request in `connection.buffer.data[start:end]`. Raises ProtocolError."""
        ...

    def check_size(self, connection: "Connection", api_key: int, size: int) -> None:
        """Raise ProtocolError where no request of this API, or of this client, is that large.

        Called before the request has arrived as a whole.
        """
        ...


_CLOSED: Final = ClosedTransport()


def _foreign(size: int) -> str:
    """Names the protocol of a client that does not speak Kafka's, by the first four bytes that it has sent."""
    start = size.to_bytes(4, signed=True)
    if start[:2] == b"\x16\x03":
        return ": the client begins a TLS handshake, and this listener is PLAINTEXT"
    return ": the client speaks HTTP" if start in (b"GET ", b"HEAD", b"POST", b"PUT ") else ""


class ProtocolError(Exception):
    """The peer violated Kafka's protocol, or a request cannot be answered; the connection has to be closed."""


class Connection:
    """The state of one connection; see the module's docstring.

    `peer_host` is the client's address, `listener` the name of the listener it connected to, and `principal` the one
    that its transport proves, empty if the client has to authenticate by requests. `session` is the
    service's. `muted` is set by the transport while it does not read, because `receive_space` was empty or the
    connection is `throttled`; the next `flush` reads again. `activity` counts what was received, for telling idle
    connections. `service` may be replaced, which takes effect with the next turn.
    """

    __slots__ = (
        "_exclusive",
        "_is_finishing",
        "_is_held",
        "_on_close",
        "_pending",
        "_request_size_max",
        "_resumed",
        "_run",
        "activity",
        "buffer",
        "close_reason",
        "closed",
        "listener",
        "muted",
        "outgoing",
        "outgoing_size",
        "peer_host",
        "principal",
        "queued",
        "service",
        "session",
        "throttled",
        "transport",
    )

    def __init__(
        self,
        service: Service,
        run: Callable[["Connection"], None],
        on_close: Callable[["Connection"], None],
        *,
        request_size_max: int,
        peer_host: str,
        listener: str,
        principal: str = ANONYMOUS,
    ) -> None:
        self.service = service
        self._run = run
        self._on_close = on_close
        self._request_size_max = request_size_max
        self._pending: deque[PendingReply] = deque()
        self._exclusive: PendingReply | None = None
        self._resumed: Callable[[], Reply] | None = None
        self.buffer = ReceiveBuffer()
        self.outgoing: list[Part] = []
        self.outgoing_size = 0
        self.transport: Transport
        self.peer_host = peer_host
        self.listener = listener
        self.principal = principal
        self.activity = 0
        self.queued = self.muted = self.closed = self.throttled = self._is_finishing = False
        self._is_held = False
        self.close_reason: str | None = None
        self.session: Any = service.open_session(self)

    def hold(self, start: int) -> None:
        """Called by the service for the request that begins at `start`: serve it later, after `end_throttle`."""
        self.buffer.start = start - _SIZE.size
        self.throttle()

    def receive_space(self) -> memoryview:
        """The memory to receive into; empty if the connection takes no more bytes until it has been run."""
        buffer = self.buffer
        held = buffer.end - buffer.start
        if not held:
            return buffer.clear()
        frame_size = 0
        if held >= 4:
            frame_size = 4 + _SIZE.unpack_from(buffer.data, buffer.start)[0]
            if frame_size <= held or frame_size > self._request_size_max + 4:
                frame_size = 0
        return buffer.writable(frame_size)

    def received(self, count: int) -> None:
        self.buffer.end += count
        self.activity += 1

    def pump(self, timed: Callable[[Serve], Serve] | None = None) -> bool:
        """Serve complete frames. True if it stopped early to have replies sent first, and has to be run again.

        `timed` wraps the function that serves, to measure these requests.
        """
        buffer = self.buffer
        serve = self.service.serve if timed is None else timed(self.service.serve)
        try:
            if self._is_held and self._resumed is not None:
                self._resume(self._resumed)
            while not self._is_held:
                start = buffer.start
                held = buffer.end - start
                if held < 4:
                    return False
                size = _SIZE.unpack_from(buffer.data, start)[0]
                if size + 4 > held or size < 0:
                    self._check_size(size, start, held)
                    return False
                if self.outgoing_size > OUTGOING_MAX:
                    return True
                if len(self._pending) >= IN_FLIGHT_MAX:
                    return False
                buffer.start = end = start + 4 + size
                reply = serve(self, start + 4, end)
                if type(reply) is bytes and not self._pending:  # by far the most frequent case
                    self.outgoing.append(reply)
                    self.outgoing_size += len(reply)
                else:
                    self._reply(reply)
            return self._is_finishing and self._close_if_answered()
        except ProtocolError as error:
            self.close(str(error))
            return False

    def reply_completed(self) -> None:
        """A pending reply was completed: send the replies that are ready, and run the requests that waited for it."""
        self._collect()
        self._run(self)

    def resume(self, exclusive: PendingReply, answer: Callable[[], Reply]) -> None:
        """Call `answer` in the connection's next turn; what it returns takes the place of the reply `exclusive`.

        For a request that was prepared outside of turns, and has to be served within one.
        """
        if exclusive is self._exclusive:
            self._resumed = answer
            self._run(self)
        elif self._is_finishing and exclusive in self._pending:
            self._pending.remove(exclusive)
            exclusive.abandon()
            self._collect()
            self._run(self)

    def throttle(self) -> None:
        """Run no further request, and read nothing, until `end_throttle`. Replies are still sent (KIP-219)."""
        self.throttled = self._is_held = True

    def end_throttle(self) -> None:
        """Serve the requests that have arrived meanwhile."""
        if self.throttled and not self.closed:
            self.throttled = False
            self._update_held()
            self._run(self)

    def finish(self, reason: str | None) -> None:
        """Close once the replies to all requests that were served are sent.

        No other request is served: neither one that has arrived, nor one that waits for its turn in `resume`.
        """
        if self.closed or self._is_finishing:
            return
        self._is_finishing, self.close_reason = True, reason
        if self._resumed is not None:
            self._resumed = None
            self._pending.pop().abandon()  # no request is run after an exclusive one, so it is the last
        self._exclusive = PendingReply(self, is_exclusive=True)  # never completed, so that no request is run
        self._is_held = True
        self._close_if_answered()

    def commit_failed(self) -> None:
        self.close("a write failed; nothing of this turn was acknowledged")

    def fail(self, error: Exception) -> None:
        self.close(f"connection failed: {error}")

    def close(self, reason: str | None) -> None:
        """Close now, dropping every reply; the reason is for the log (None: the peer simply left)."""
        if self.closed:
            return
        self.closed = self._is_held = True
        self.close_reason = reason
        self.outgoing.clear()
        self.outgoing_size = 0
        self._exclusive = None
        pending, self._pending = self._pending, deque()
        for reply in pending:
            reply.abandon()
        transport, self.transport = self.transport, _CLOSED
        transport.shut()
        self._on_close(self)
        self.session = None  # it refers to the connection, see ClosedTransport

    def _update_held(self) -> None:
        """Decide again if the next request has to wait; one look at a flag is cheaper than three for each request."""
        self._is_held = self.closed or self.throttled or self._exclusive is not None

    def _close_if_answered(self) -> bool:
        """Close the connection if no reply is pending or unsent. True if bytes have yet to be sent."""
        if not self.awaits_reply:
            self.close(self.close_reason)
        return bool(self.outgoing)

    @property
    def awaits_reply(self) -> bool:
        """True if replies are pending or unsent."""
        return bool(self._pending or self.outgoing)

    @property
    def is_idle(self) -> bool:
        """True if the connection waits for the client: no reply is pending or unsent, and it is not throttled."""
        return not self.awaits_reply and not self.throttled

    def _check_size(self, size: int, start: int, held: int) -> None:
        """Refuse a frame that is too large, before memory is taken for it."""
        if not 0 <= size <= self._request_size_max:
            raise ProtocolError(f"a request of {size} bytes is outside 0..{self._request_size_max}{_foreign(size)}")
        if held >= _KNOWN_FROM:
            self.service.check_size(self, _API_KEY.unpack_from(self.buffer.data, start + 4)[0], size)

    def _resume(self, answer: Callable[[], Reply]) -> None:
        self._resumed = None
        if not self.closed:
            replaced = self._pending.pop()  # no request is run after an exclusive one, so it is the last
            self._exclusive = None
            self._update_held()
            reply = answer()
            replaced.replace_by(reply)
            self._reply(reply)

    def _reply(self, reply: Reply) -> None:
        if reply is None:
            return
        if isinstance(reply, PendingReply):
            self._pending.append(reply)
            if reply.is_exclusive:
                self._exclusive, self._is_held = reply, True
            if reply.done:
                self._collect()
        elif self._pending:
            waiting = PendingReply(self)
            waiting.done, waiting.outcome = True, reply
            self._pending.append(waiting)
        else:
            self._emit(reply)

    def _collect(self) -> None:
        pending = self._pending
        while pending and pending[0].done:
            reply = pending.popleft()
            if reply is self._exclusive:
                self._exclusive = None
                self._update_held()
            if reply.outcome is not None:
                self._emit(reply.outcome)

    def _emit(self, reply: bytes | list[Part]) -> None:
        if isinstance(reply, bytes):
            self.outgoing.append(reply)
            self.outgoing_size += len(reply)
        else:
            self.outgoing += reply
            self.outgoing_size += sum(map(len, reply))
