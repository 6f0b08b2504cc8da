"""One connection to a node: many tasks' requests, pipelined, and the responses in the order of the requests."""

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import trio

from broker.client.connection_failures import foreign_answer, lost_reason, refusal
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.client.errors import AuthenticationFailed, ConnectionLost
from broker.client.payloads import decode_response, encode_request
from broker.net.tls_stream import socket_beneath
from broker.wire.errors import WireError
from kraft import lazy_attrs

if TYPE_CHECKING:
    from broker.client.sasl_login import SaslLogin

# Requests that wait for an answer at a time; more of them queue. A node runs 256 of one connection before it stops
# reading, so what was sent is being worked on.
IN_FLIGHT_MAX: Final = 64
# Far above the largest answer, that to a Fetch of 50 MiB. The buffer grows with what arrives, not with what is claimed.
RESPONSE_BYTES_MAX: Final = 100 << 20
_RECEIVE_BYTES: Final = 65_536
# The bytes of a response that is none which its error shows.
_SHOWN_BYTES: Final = 16
# While a response is incomplete, as much of it is received at a time.
_RECEIVE_BYTES_MAX: Final = 1 << 20
# A larger response is handed over in the buffer that it was received in, which saves a copy; a smaller one would leave
# much of its buffer unused.
_HANDED_OVER_MIN: Final = 65_536
# A request's payload begins with its key, version and correlation id, a response's with the correlation id.
_REQUEST_ID: Final = slice(4, 8)
_RESPONSE_ID: Final = slice(0, 4)
_ID_MASK: Final = 0x7FFFFFFF
# Why a connection is lost whose oldest request was not answered within its time.
NO_ANSWER: Final = "no answer in time"
_LINGER: Final = Struct("ii")


@lazy_attrs.define(eq=False)
class _PendingRequest:
    """A request of a caller. `response` is None until the response arrives, and if the connection is lost.

    `on_end` is called in both cases.
    """

    payload: bytes
    deadline: float
    is_answered: bool
    on_end: "Callable[[_PendingRequest], None]"
    response: bytes | memoryview | None = None


class Connection:
    """A connection to a broker, which several tasks may use at once. Requests are sent only while `run` runs.

    If a request is not answered within `request_timeout_ms`, the connection is lost for all tasks: responses come in
    the order of the requests, so later requests cannot be answered either. A task that wants to wait for less time
    cancels its call. Its request is then not sent, if it was not sent before; otherwise its response is dropped.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        client_id: str,
        *,
        request_timeout_ms: float,
        login: "SaslLogin | None" = None,
        authenticate_at: float = inf,
    ) -> None:
        self._stream = stream
        self._transport = socket_beneath(stream)
        self.client_id = client_id
        self._request_timeout_s = request_timeout_ms / 1000
        self._login, self._authenticate_at = login, authenticate_at
        self._unsent: deque[_PendingRequest] = deque()
        self._sent: deque[tuple[bytes, _PendingRequest]] = deque()  # with its correlation id on the wire
        self._next_id = 0
        self._room = trio.lowlevel.ParkingLot()
        self._wanted = trio.Event()
        self._deadline_scope = trio.CancelScope()
        self._lost: ConnectionLost | None = None
        self._is_answered = False  # True once the other side has sent something
        self.used_at = trio.current_time()  # of the last request

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        *,
        connect_timeout_ms: float,
        request_timeout_ms: float,
        security: ConnectionSecurity = PLAINTEXT,
    ) -> "Connection":
        """Connects to a broker, and secures the connection.

        Raises ConnectionLost if that takes longer than `connect_timeout_ms`, or fails; AuthenticationFailed if one side
        refuses the other.
        """
        stream, again_at = await security.connect(host, port, client_id, connect_timeout_ms)
        return cls(
            stream,
            client_id,
            request_timeout_ms=request_timeout_ms,
            login=security.login,
            authenticate_at=again_at,
        )

    async def run(self) -> None:
        """Carry requests until the connection is lost; then close it and raise ConnectionLost."""
        lost = ConnectionLost("given up")
        try:
            with trio.CancelScope() as self._deadline_scope:
                self._watch()
                lost = await self._carry()
            if self._deadline_scope.cancelled_caught:
                lost = ConnectionLost(NO_ANSWER)
        finally:
            self._end(lost)
        raise lost

    def set_buffer_sizes(self, send_bytes: int, receive_bytes: int) -> None:
        """Set the kernel's buffers of the socket; -1 leaves one as it is."""
        for option, size in ((trio.socket.SO_SNDBUF, send_bytes), (trio.socket.SO_RCVBUF, receive_bytes)):
            if size != -1:
                self._set_option(option, size)

    def _set_option(self, option: int, value: int | bytes) -> None:
        """Set an option of the socket, unless the system refuses it.

        macOS refuses all options after the other side has reset the connection, and sizes above its limit; Linux takes
        both. A lost connection is noticed by `run`, which has to end with ConnectionLost alone.
        """
        with suppress(OSError):
            self._transport.setsockopt(trio.socket.SOL_SOCKET, option, value)

    @property
    def is_lost(self) -> bool:
        """True if the connection cannot be used again."""
        return self._lost is not None

    @property
    def in_flight(self) -> int:
        """The requests that are not answered yet."""
        return len(self._sent) + len(self._unsent)

    async def call(self, request: Any, version: int, *, timeout_ms: float | None = None) -> Any:
        """Send a request and return the response. `timeout_ms` replaces the connection's request timeout.

        Raises ConnectionLost, also for a response that cannot be read; WireError for a request that the version cannot
        express.
        """
        pending = await self._queue(encode_request(request, version, self.client_id), timeout_ms)
        if pending.response is None:
            raise self._lost_error()
        try:
            return decode_response(request, version, pending.response)
        except WireError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error

    async def exchange(self, payload: bytes, *, timeout_ms: float | None = None) -> bytes:
        """Send the payload of a request as it is, and return that of its response, with the request's correlation id.

        On the wire it has an id of the connection's. Raises ConnectionLost.
        """
        pending = await self._queue(payload, timeout_ms)
        if pending.response is None:
            raise self._lost_error()
        return payload[_REQUEST_ID] + pending.response[_RESPONSE_ID.stop :]

    def post(self, payload: bytes, on_response: Callable[[bytes | None], None], *, is_answered: bool = True) -> None:
        """Queue a request after those posted before, and return at once; the caller bounds how many it posts.

        `on_response` gets the payload of the response, with a correlation id of the connection's, or None if the
        connection is lost. Without a response (`is_answered` is False), it gets b"" when the kernel has taken the
        request. Raises ConnectionLost.
        """
        self._enqueue(
            payload,
            None,
            is_answered,
            lambda pending: on_response(None if pending.response is None else bytes(pending.response)),
        )

    def _lost_error(self) -> ConnectionLost:
        """A new error for each caller: a raise adds its traceback to what it raises."""
        assert self._lost is not None, "requests end without a response only when the connection is lost"
        return type(self._lost)(*self._lost.args)

    def _enqueue(
        self, payload: bytes, timeout_ms: float | None, is_answered: bool, on_end: Callable[[_PendingRequest], None]
    ) -> _PendingRequest:
        if self._lost is not None:
            raise self._lost_error()
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        self.used_at = trio.current_time()
        pending = _PendingRequest(payload, self.used_at + timeout_s, is_answered, on_end)
        self._unsent.append(pending)
        self._wanted.set()
        self._watch()
        return pending

    async def _queue(self, payload: bytes, timeout_ms: float | None) -> _PendingRequest:
        """Queue a request and wait until it is answered or the connection is lost."""
        while self._lost is None and self.in_flight >= IN_FLIGHT_MAX:
            await self._room.park()
        ended = trio.Event()
        pending = self._enqueue(payload, timeout_ms, True, lambda pending: ended.set())
        try:
            await ended.wait()
        finally:
            if pending in self._unsent:
                self._unsent.remove(pending)
                self._watch()
                self._room.unpark()
        return pending

    async def _carry(self) -> ConnectionLost:
        """Sends and receives until one of both ends. Returns the reason."""
        reasons: list[ConnectionLost] = []
        async with trio.open_nursery() as nursery:

            async def until_lost(way: Callable[[], Awaitable[None]]) -> None:
                try:
                    await way()
                except ConnectionLost as error:
                    reasons.append(error)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    reasons.append(self._broken(error))
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_lost, self._send)
            nursery.start_soon(until_lost, self._receive)
        return reasons[0]

    async def _send(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            if trio.current_time() >= self._authenticate_at:
                await self._authenticate_again()
            frames: list[bytes | memoryview] = []
            unanswered = []
            while self._unsent:
                pending = self._unsent.popleft()
                if not pending.is_answered:
                    unanswered.append(pending)
                frames += self._frame(pending)
            try:
                await self._stream.send_all(b"".join(frames))
            except BaseException:
                for pending in unanswered:
                    pending.on_end(pending)
                raise
            for pending in unanswered:
                self._end_with(pending, b"")

    def _frame(self, pending: _PendingRequest) -> list[bytes | memoryview]:
        """The parts of a request's frame. Its response is expected from now on."""
        wire_id = self._next_id.to_bytes(4)
        self._next_id = (self._next_id + 1) & _ID_MASK
        if pending.is_answered:
            self._sent.append((wire_id, pending))
        payload = memoryview(pending.payload)
        return [len(payload).to_bytes(4), payload[: _REQUEST_ID.start], wire_id, payload[_REQUEST_ID.stop :]]

    async def _authenticate_again(self) -> None:
        """Authenticate before the session ends (KIP-368). Requests in flight are answered, and others wait.

        Raises AuthenticationFailed, which ends the connection.
        """
        assert self._login is not None, "only sessions that have authenticated end"
        self._authenticate_at = await self._login.converse(self._call_ahead)

    async def _call_ahead(self, request: Any, version: int) -> Any:
        """The response to a request that is sent before all that wait."""
        ended = trio.Event()
        payload = encode_request(request, version, self.client_id)
        deadline = trio.current_time() + self._request_timeout_s
        pending = _PendingRequest(payload, deadline, True, lambda pending: ended.set())
        frame = self._frame(pending)
        self._watch()
        await self._stream.send_all(b"".join(frame))
        await ended.wait()
        assert pending.response is not None, "a lost connection has ended this task"
        try:
            return decode_response(request, version, pending.response)
        except WireError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error

    async def _receive(self) -> None:
        received = bytearray()
        wanted = _RECEIVE_BYTES
        while data := await self._stream.receive_some(wanted):
            self._is_answered = True
            received += data
            start = 0
            wanted = _RECEIVE_BYTES
            while len(received) - start >= 4:
                size = int.from_bytes(received[start : start + 4])
                if size > RESPONSE_BYTES_MAX:
                    raise foreign_answer(bytes(received[start : start + _SHOWN_BYTES]))
                missing = size - (len(received) - start - 4)
                if missing > 0:
                    wanted = min(max(missing, _RECEIVE_BYTES), _RECEIVE_BYTES_MAX)
                    break
                if start == 0 and len(received) == 4 + size >= _HANDED_OVER_MIN:
                    self._answered(memoryview(received)[4:])
                    received = bytearray()
                    break
                with memoryview(received) as view:
                    response = bytes(view[start + 4 : start + 4 + size])
                self._answered(response)
                start += 4 + size
            del received[:start]
        raise self._broken(None)

    def _broken(self, error: Exception | None) -> ConnectionLost:
        """The error of a connection that broke, or that the other side has closed if `error` is None.

        In TLS 1.3 a node refuses a client's certificate only after the handshake of the client has ended.
        """
        refused = None if error is None or self._is_answered else refusal(error.__cause__)
        if refused is not None:
            return AuthenticationFailed(refused)
        is_secured = self._stream is not self._transport
        is_foreign = not (self._is_answered or is_secured or self._login)
        is_second_refused = self._is_answered and self._next_id == 2 and len(self._sent) == 1
        return ConnectionLost(
            lost_reason(error, may_be_tls_port=is_foreign, may_be_sasl_port=is_second_refused and self._login is None)
        )

    def _answered(self, response: bytes | memoryview) -> None:
        if not self._sent or self._sent[0][0] != response[_RESPONSE_ID]:
            raise ConnectionLost("a response without a request")
        _, pending = self._sent.popleft()
        self._end_with(pending, response)

    def _end_with(self, pending: _PendingRequest, response: bytes | memoryview) -> None:
        pending.response = response
        pending.on_end(pending)
        self._watch()
        self._room.unpark()

    def _watch(self) -> None:
        """Waits until the oldest request has been unanswered for the request timeout, which ends the connection."""
        oldest = self._sent[0][1] if self._sent else self._unsent[0] if self._unsent else None
        self._deadline_scope.deadline = inf if oldest is None else oldest.deadline

    def _end(self, lost: ConnectionLost) -> None:
        """Reset the connection where requests are open: what the kernel has not sent yet must not run later."""
        self._lost = lost
        open_requests = [*(pending for _, pending in self._sent), *self._unsent]
        if open_requests:
            self._set_option(trio.socket.SO_LINGER, _LINGER.pack(1, 0))
        self._transport.socket.close()
        self._sent.clear()
        self._unsent.clear()
        for pending in open_requests:
            pending.on_end(pending)
        self._room.unpark_all()
