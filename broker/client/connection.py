"""One connection to a node: many tasks' requests, pipelined, and the responses in the order of the requests."""

from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from struct import Struct
from typing import Any, Final

import attrs
import trio

from broker.client.payloads import decode_response, encode_request
from broker.wire.errors import WireError

# Requests that wait for an answer at a time; more of them queue. A node runs 256 of one connection before it stops
# reading, so what was sent is being worked on.
IN_FLIGHT_MAX: Final = 64
# Far above the largest answer, that to a Fetch of 50 MiB. The buffer grows with what arrives, not with what is claimed.
RESPONSE_BYTES_MAX: Final = 100 << 20
_RECEIVE_BYTES: Final = 65_536
# A request's payload begins with its key, version and correlation id, a response's with the correlation id.
_REQUEST_ID: Final = slice(4, 8)
_RESPONSE_ID: Final = slice(0, 4)
_ID_MASK: Final = 0x7FFFFFFF
_LINGER: Final = Struct("ii")


class ConnectionLost(Exception):
    """The connection broke, or an answer was overdue: what was asked for may have happened, or may happen yet."""


@attrs.define(eq=False)
class _Asked:
    """A request that was handed over. `response` is None until it is answered, and where the connection was lost."""

    payload: bytes
    deadline: float
    ended: trio.Event = attrs.field(factory=trio.Event)
    response: bytes | None = None


class Connection:
    """See the module's docstring. Nothing moves but while `run` runs.

    Where a request is not answered within `request_timeout_ms`, the connection is lost for all: answers come in order,
    so nothing behind it can be answered either. Who has less patience cancels its own call; the request is not sent
    then, if it was not yet, and otherwise its answer is thrown away.
    """

    def __init__(self, stream: trio.SocketStream, client_id: str, *, request_timeout_ms: float) -> None:
        self._stream = stream
        self._client_id = client_id
        self._request_timeout_s = request_timeout_ms / 1000
        self._unsent: deque[_Asked] = deque()
        self._sent: deque[tuple[bytes, _Asked]] = deque()  # with its correlation id on the wire
        self._next_id = 0
        self._room = trio.lowlevel.ParkingLot()
        self._wanted = trio.Event()
        self._patience = trio.CancelScope()
        self._lost = ""

    @classmethod
    async def open(
        cls, host: str, port: int, client_id: str, *, connect_timeout_ms: float, request_timeout_ms: float
    ) -> "Connection":
        """Raises ConnectionLost where nobody answers in time."""
        try:
            with trio.fail_after(connect_timeout_ms / 1000):
                stream = await trio.open_tcp_stream(host, port)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        except trio.TooSlowError as error:
            raise ConnectionLost(f"no answer from {host}:{port}") from error
        return cls(stream, client_id, request_timeout_ms=request_timeout_ms)

    async def run(self) -> None:
        """Carry requests until the connection is lost; then close it and raise ConnectionLost."""
        reason = "given up"
        try:
            with trio.CancelScope() as self._patience:
                self._watch()
                reason = await self._carry()
            if self._patience.cancelled_caught:
                reason = "no answer in time"
        finally:
            self._end(reason)
        raise ConnectionLost(reason)

    async def call(self, request: Any, version: int) -> Any:
        """Send a request and return the response. Raises ConnectionLost, also for an answer that cannot be read."""
        answer = await self.exchange(encode_request(request, version, self._client_id))
        try:
            return decode_response(request, version, answer)
        except WireError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error

    async def exchange(self, payload: bytes) -> bytes:
        """Send the payload of a request as it is, and return that of its response, with the request's correlation id.

        On the wire it has an id of the connection's. Raises ConnectionLost.
        """
        while not self._lost and len(self._unsent) + len(self._sent) >= IN_FLIGHT_MAX:
            await self._room.park()
        if self._lost:
            raise ConnectionLost(self._lost)
        asked = _Asked(payload, trio.current_time() + self._request_timeout_s)
        self._unsent.append(asked)
        self._wanted.set()
        self._watch()
        try:
            await asked.ended.wait()
        finally:
            if asked in self._unsent:
                self._unsent.remove(asked)
                self._watch()
                self._room.unpark()
        if asked.response is None:
            raise ConnectionLost(self._lost)
        return payload[_REQUEST_ID] + asked.response[_RESPONSE_ID.stop :]

    async def _carry(self) -> str:
        """Both ways at once, until one of them ends; why it did."""
        reasons: list[str] = []
        async with trio.open_nursery() as nursery:

            async def until_lost(way: Callable[[], Awaitable[None]]) -> None:
                try:
                    await way()
                except ConnectionLost as error:
                    reasons.append(str(error))
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    reasons.append(f"the connection broke: {error}")
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_lost, self._send)
            nursery.start_soon(until_lost, self._receive)
        return reasons[0]

    async def _send(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            frames = []
            while self._unsent:
                asked = self._unsent.popleft()
                wire_id = self._next_id.to_bytes(4)
                self._next_id = (self._next_id + 1) & _ID_MASK
                self._sent.append((wire_id, asked))
                payload = asked.payload
                frames += [len(payload).to_bytes(4), payload[: _REQUEST_ID.start], wire_id, payload[_REQUEST_ID.stop :]]
            await self._stream.send_all(b"".join(frames))

    async def _receive(self) -> None:
        received = bytearray()
        while data := await self._stream.receive_some(_RECEIVE_BYTES):
            received += data
            start = 0
            while len(received) - start >= 4:
                size = int.from_bytes(received[start : start + 4])
                if size > RESPONSE_BYTES_MAX:
                    raise ConnectionLost(f"a response of {size} bytes")
                if len(received) - start - 4 < size:
                    break
                self._answered(bytes(received[start + 4 : start + 4 + size]))
                start += 4 + size
            del received[:start]
        raise ConnectionLost("closed by the other side")

    def _answered(self, response: bytes) -> None:
        if not self._sent or self._sent[0][0] != response[_RESPONSE_ID]:
            raise ConnectionLost("an answer to nothing that was asked")
        _, asked = self._sent.popleft()
        asked.response = response
        asked.ended.set()
        self._watch()
        self._room.unpark()

    def _watch(self) -> None:
        """The patience with the oldest request is the patience with the connection."""
        oldest = self._sent[0][1] if self._sent else self._unsent[0] if self._unsent else None
        self._patience.deadline = inf if oldest is None else oldest.deadline

    def _end(self, reason: str) -> None:
        """Reset the connection where requests are open: what the kernel has not sent yet must not run later."""
        self._lost = reason
        open_requests = [*(asked for _, asked in self._sent), *self._unsent]
        if open_requests:
            self._stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, _LINGER.pack(1, 0))
        self._stream.socket.close()
        self._sent.clear()
        self._unsent.clear()
        for asked in open_requests:
            asked.ended.set()
        self._room.unpark_all()
