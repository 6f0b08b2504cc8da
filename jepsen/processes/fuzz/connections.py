"""Connections that send hostile frames and read what comes back, as fast as the node answers."""

from collections.abc import Sequence
from typing import Any, Final

import trio

from jepsen.hostile.frames import BadResponse, Frame
from jepsen.hostile.quorum_messages import QuorumFrame
from kraft.message_codec import MalformedMessage, decode_response

CONNECT_TIMEOUT_S: Final = 20.0
# A node that has not answered by then waits for something itself: a rebalance, a deadline, other replicas.
ANSWER_TIMEOUT_S: Final = 0.4
# Replicas answer at once or, for want of news, much later.
_QUORUM_ANSWER_TIMEOUT_S: Final = 0.05
_RECEIVE_BYTES: Final = 65_536
_LENGTH_BYTES: Final = 4
_RESPONSE_BYTES_MAX: Final = 256 << 20


class Closed(Exception):
    """The node has closed the connection; `answers` are those that came before."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__("the node closed the connection")
        self.answers = answers


class _Incoming:
    """Whole frames out of a stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = bytearray()

    async def frame(self) -> bytes:
        """One frame without its length. Raises EOFError, BadResponse."""
        await self._fill(_LENGTH_BYTES)
        size = int.from_bytes(self._received[:_LENGTH_BYTES], "big")
        if size > _RESPONSE_BYTES_MAX:
            raise BadResponse(f"a response of {size} bytes")
        end = _LENGTH_BYTES + size
        await self._fill(end)
        payload = bytes(self._received[_LENGTH_BYTES:end])
        del self._received[:end]
        return payload

    async def _fill(self, count: int) -> None:
        while len(self._received) < count:
            try:
                data = await self._stream.receive_some(_RECEIVE_BYTES)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                raise EOFError
            self._received += data


async def open_stream(port: int) -> trio.SocketStream:
    """Raises OSError, TooSlowError."""
    with trio.fail_after(CONNECT_TIMEOUT_S):
        return await trio.open_tcp_stream("127.0.0.1", port)


class KafkaConnection:
    """A connection to a listener of Kafka's protocol."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._incoming = _Incoming(stream)

    async def exchange(self, frames: Sequence[Frame]) -> list[Any]:
        """Send frames in one go; their responses, None for each that has none.

        Raises Closed; TooSlowError where an answer does not come, after which nothing else can be sent; BadResponse.
        """
        answers: list[Any] = []
        with trio.fail_after(ANSWER_TIMEOUT_S) as scope:
            try:
                await self._stream.send_all(b"".join([frame.data for frame in frames]))
                for frame in frames:
                    payload = await self._incoming.frame() if frame.is_answered else None
                    answers.append(None if payload is None else frame.read_response(payload))
                    scope.deadline = trio.current_time() + ANSWER_TIMEOUT_S
            except (EOFError, trio.BrokenResourceError) as error:
                raise Closed(answers) from error
        return answers

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


class QuorumConnection:
    """A connection that speaks the quorum's protocol. Responses come in any order, or never."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._incoming = _Incoming(stream)

    async def exchange(self, hello: bytes, frames: Sequence[QuorumFrame]) -> int:
        """Send the frames after `hello` where that is not empty; how many were answered. Raises Closed, BadResponse."""
        awaited = {frame.correlation_id for frame in frames if frame.is_decodable}
        answered: list[int] = []
        with trio.move_on_after(_QUORUM_ANSWER_TIMEOUT_S):
            try:
                await self._stream.send_all(b"".join([hello, *(frame.data for frame in frames)]))
                while awaited:
                    answered.append(_quorum_response(await self._incoming.frame()))
                    awaited.discard(answered[-1])
            except (EOFError, trio.BrokenResourceError) as error:
                raise Closed(answered) from error
        return len(answered)

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


def _quorum_response(payload: bytes) -> int:
    """The correlation id of a response. Raises BadResponse."""
    try:
        correlation_id, _ = decode_response(payload)
    except MalformedMessage as error:
        raise BadResponse(f"a response of the quorum: {error}") from error
    return correlation_id
