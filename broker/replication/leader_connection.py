"""The connection of a follower to a leader, as a synchronous pump: requests out, responses in, in the same order.

It is the client's side of `broker.net.connection.Connection`, and is driven like it, together with the connections of
clients. So a follower answers a response in the turn that receives it: there is no task switch per round.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias

import trio

from broker.client.connection_failures import foreign_answer, lost_reason, refusal
from broker.client.errors import ConnectionLost
from broker.client.payloads import decode_response
from broker.net.driven_connection import ClosedTransport, DrivenConnection, Transport
from broker.net.receive_buffer import ReceiveBuffer
from broker.net.reply import Part
from broker.wire.codec import encode
from broker.wire.errors import WireError
from broker.wire.header import encode_request_header

# Far above the largest answer, that to a Fetch of 50 MiB. The buffer grows with what arrives, not with what is claimed.
RESPONSE_BYTES_MAX: Final = 100 << 20
NO_ANSWER: Final = "no answer in time"
# The bytes of a response that is none which its error shows.
_SHOWN_BYTES: Final = 16
_ID_MASK: Final = 0x7FFFFFFF
_SIZE: Final = Struct(">i")
_ID_BYTES: Final = 4
_CLOSED: Final = ClosedTransport()

# Is called with the payload of a response, which is valid until it returns.
OnResponse: TypeAlias = Callable[[memoryview], None]


class LeaderConnection:
    """See the module's docstring. `run` runs the connection in a turn (`ConnectionScheduler.run`).

    `is_plain` is true without TLS and SASL: then the peer may be a port with TLS. After the connection has closed,
    `close_reason` says why; it is None if it was not lost.
    """

    __slots__ = (
        "_buffer",
        "_client_id",
        "_ended",
        "_is_answered",
        "_is_plain",
        "_is_pumping",
        "_run",
        "_sent",
        "close_reason",
        "closed",
        "muted",
        "next_id",
        "outgoing",
        "outgoing_size",
        "queued",
        "transport",
    )

    throttled = False
    session = None

    def __init__(self, run: Callable[[DrivenConnection], None], client_id: str, *, is_plain: bool) -> None:
        self._run = run
        self._client_id = client_id
        self._is_plain = is_plain
        self._buffer = ReceiveBuffer()
        self._sent: deque[tuple[int, OnResponse]] = deque()
        self.next_id = 0
        self._ended = trio.Event()
        self._is_answered = self._is_pumping = False
        self.outgoing: list[Part] = []
        self.outgoing_size = 0
        self.transport: Transport = _CLOSED
        self.muted = self.queued = self.closed = False
        self.close_reason = ""

    def post(self, request: Any, version: int, on_response: OnResponse) -> None:
        """Send a request. `on_response` is not called if the connection is lost before.

        Within a call of `on_response`, the request is sent at the end of the turn, otherwise at once.
        """
        header = encode_request_header(request.__message__.key, version, self.next_id, self._client_id)
        payload = b"".join([header, *encode(request, version)])
        self.post_frame(_SIZE.pack(len(payload)) + payload, on_response)

    def post_frame(self, frame: bytes, on_response: OnResponse) -> None:
        """As `post`, for the frame of a request that was encoded with `next_id` as its correlation id."""
        wire_id = self.next_id
        self.next_id = (wire_id + 1) & _ID_MASK
        if self.closed:
            return
        self._sent.append((wire_id, on_response))
        self.outgoing.append(frame)
        self.outgoing_size += len(frame)
        if not self._is_pumping:
            self._run(self)

    async def call(self, request: Any, version: int, timeout_ms: float) -> Any:
        """Send a request and wait for its response, for as long as the connection is open.

        Raises ConnectionLost if the response cannot be read, or is late. The caller has to close the connection then,
        because later responses cannot come either.
        """
        answered = trio.Event()
        payload = b""

        def on_response(response: memoryview) -> None:
            nonlocal payload
            payload = bytes(response)
            answered.set()

        self.post(request, version, on_response)
        with trio.move_on_after(timeout_ms / 1000):
            await answered.wait()
        if not answered.is_set():
            raise ConnectionLost(NO_ANSWER)
        try:
            return decode_response(request, version, payload)
        except WireError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error

    async def wait_closed(self) -> None:
        await self._ended.wait()

    # The driver's side, see `broker.net.driven_connection.DrivenConnection`

    def receive_space(self) -> memoryview:
        buffer = self._buffer
        held = buffer.end - buffer.start
        if not held:
            return buffer.clear()
        frame_size = 0
        if held >= _SIZE.size:
            frame_size = _SIZE.size + _SIZE.unpack_from(buffer.data, buffer.start)[0]
        return buffer.writable(frame_size)

    def received(self, count: int) -> None:
        self._buffer.end += count
        self._is_answered = True

    def pump(self, timed: Callable[[Any], Any] | None = None) -> bool:
        """Handle all complete responses."""
        buffer = self._buffer
        self._is_pumping = True
        try:
            while not self.closed and (held := buffer.end - buffer.start) >= _SIZE.size:
                start = buffer.start + _SIZE.size
                size = _SIZE.unpack_from(buffer.data, buffer.start)[0]
                if not _ID_BYTES <= size <= RESPONSE_BYTES_MAX:
                    shown = buffer.view[buffer.start : min(buffer.end, buffer.start + _SHOWN_BYTES)]
                    self.close(str(foreign_answer(bytes(shown))))
                elif size + _SIZE.size > held:
                    break
                else:
                    buffer.start = start + size
                    self._respond(buffer.view[start : start + size])
        finally:
            self._is_pumping = False
        return False

    def commit_failed(self) -> None:
        """Nothing: what a follower acknowledges was written when it was appended."""

    def fail(self, error: Exception) -> None:
        """The transport has failed. A node may refuse a certificate only after the TLS handshake of this side."""
        is_foreign = self._is_plain and not self._is_answered
        reason = refusal(error) or lost_reason(error, may_be_tls_port=is_foreign, may_be_sasl_port=False)
        self.close(reason)

    def close(self, reason: str | None) -> None:
        if self.closed:
            return
        self.closed = True
        is_foreign = self._is_plain and not self._is_answered
        self.close_reason = reason or lost_reason(None, may_be_tls_port=is_foreign, may_be_sasl_port=False)
        self.outgoing.clear()
        self.outgoing_size = 0
        self._sent.clear()
        transport, self.transport = self.transport, _CLOSED
        transport.shut()
        self._ended.set()

    def _respond(self, payload: memoryview) -> None:
        if not self._sent or self._sent[0][0] != _SIZE.unpack_from(payload)[0]:
            self.close("a response without a request")
            return
        _, on_response = self._sent.popleft()
        on_response(payload)
