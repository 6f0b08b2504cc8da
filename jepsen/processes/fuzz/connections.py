"""Connections that send hostile frames and read what comes back, as fast as the node answers."""

from collections.abc import Sequence
from typing import Any, Final

import trio

from jepsen.hostile.frames import BadResponse, Frame
from jepsen.hostile.quorum_stories import QuorumFrame
from kraft.handshake import decode_hello
from kraft.message_codec import decode_response
from kraft.msgpack_reading import MalformedMessage

CONNECT_TIMEOUT_S: Final = 20.0
# A node that has not answered by then waits for something itself: a rebalance, a deadline, other replicas.
ANSWER_TIMEOUT_S: Final = 0.4
# Replicas answer at once or, for want of news, much later.
_QUORUM_ANSWER_TIMEOUT_S: Final = 0.05
_RECEIVE_BYTES: Final = 65_536
_LENGTH_BYTES: Final = 4
_RESPONSE_BYTES_MAX: Final = 256 << 20


class Closed(Exception):
    """The node has closed the connection. `answers` are the responses that arrived before."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__("the node closed the connection")
        self.answers = answers


class Silent(Exception):
    """A response has timed out. `answers` are the responses before it. The connection cannot be used again."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__("no answer in time")
        self.answers = answers


class _Incoming:
    """Splits a stream into frames."""

    def __init__(self, stream: trio.abc.Stream) -> None:
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

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._incoming = _Incoming(stream)

    async def exchange(self, frames: Sequence[Frame]) -> list[Any]:
        """Send frames in one go; their responses, None for each that has none.

        Raises Closed, Silent, BadResponse.
        """
        answers: list[Any] = []
        with trio.move_on_after(ANSWER_TIMEOUT_S) as scope:
            try:
                await self._stream.send_all(b"".join([frame.data for frame in frames]))
                for frame in frames:
                    payload = await self._incoming.frame() if frame.is_answered else None
                    answers.append(None if payload is None else frame.read_response(payload))
                    scope.deadline = trio.current_time() + ANSWER_TIMEOUT_S
            except (EOFError, trio.BrokenResourceError) as error:
                raise Closed(answers) from error
        if len(answers) < len(frames):
            raise Silent(answers)
        return answers

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


class QuorumConnection:
    """A connection that speaks the quorum's protocol. Responses come in any order, or never."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._incoming = _Incoming(stream)

    async def greet(self, hello: bytes) -> None:
        """Raises Closed where the node refuses the hello, BadResponse."""
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            try:
                await self._stream.send_all(hello)
                refusal = decode_hello(await self._incoming.frame()).refusal
            except (EOFError, trio.BrokenResourceError) as error:
                raise Closed([]) from error
            except MalformedMessage as error:
                raise BadResponse(f"a hello: {error}") from error
            if not refusal:
                return
        raise Closed([])

    async def exchange(self, frames: Sequence[QuorumFrame]) -> list[Any]:
        """Send the frames in one go; the responses that come soon. Raises Closed, BadResponse."""
        awaited = {frame.correlation_id for frame in frames if frame.is_sound}
        answers: list[Any] = []
        with trio.move_on_after(_QUORUM_ANSWER_TIMEOUT_S):
            try:
                await self._stream.send_all(b"".join([frame.data for frame in frames]))
                while awaited or not any(frame.is_sound for frame in frames):
                    correlation_id, response = decode_response(await self._incoming.frame())
                    answers.append(response)
                    awaited.discard(correlation_id)
            except (EOFError, trio.BrokenResourceError) as error:
                raise Closed(answers) from error
            except MalformedMessage as error:
                raise BadResponse(f"a response of the quorum: {error}") from error
        return answers

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
