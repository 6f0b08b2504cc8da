"""Has the conversations of a story with a node's port of TLS."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import trio

from broker.net.tls_stream import TlsStream
from jepsen.hostile.frames import BadResponse, Frame
from jepsen.hostile.tls_stories import Damage, Opening, Session
from jepsen.processes.fuzz.connections import ANSWER_TIMEOUT_S, KafkaConnection, open_stream

_RECEIVE_BYTES: Final = 65_536
# Long enough for a node to refuse an opening; a node that waits for more bytes does not.
_OPENING_TIMEOUT_S: Final = 0.02
_HANDSHAKE_TIMEOUT_S: Final = 20.0
# Pieces of one byte are for short writes: each costs this side and the node a call of the system.
_PIECES_MAX: Final = 100


class HostileTransport(trio.abc.Stream):
    """A stream of TCP on which the writes of `session` arrive in pieces, and one of them damaged.

    `is_damaged` is True after that one.
    """

    def __init__(self, transport: trio.SocketStream, session: Session) -> None:
        self._transport = transport
        self._session = session
        self._written = 0
        self.is_damaged = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        sent = bytes(data)
        if self._session.damage is not None and self._written == self._session.damaged_write:
            self.is_damaged = True
            sent = _damaged(sent, self._session.damage)
        self._written += 1
        piece = max(self._session.piece_bytes or len(sent), len(sent) // _PIECES_MAX, 1)
        for start in range(0, len(sent), piece):
            await self._transport.send_all(sent[start : start + piece])

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._transport.receive_some(max_bytes)

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._transport)


def _damaged(sent: bytes, damage: Damage) -> bytes:
    match damage:
        case Damage.FLIPPED:
            return sent[:-1] + bytes([sent[-1] ^ 1])
        case Damage.CUT:
            return sent[:-1]
        case Damage.REPEATED:
            return sent * 2


async def try_opening(port: int, opening: Opening) -> None:
    """Send the writes of an opening, and wait a moment for the node to close the connection."""
    stream = await open_stream(port)
    try:
        with suppress(trio.BrokenResourceError), trio.move_on_after(_OPENING_TIMEOUT_S):
            for write in opening.writes:
                await stream.send_all(write)
            while await stream.receive_some(_RECEIVE_BYTES):
                pass
    finally:
        await trio.aclose_forcefully(stream)


class TlsClient:
    """The connection of one session."""

    def __init__(self, stream: trio.SocketStream, session: Session) -> None:
        self._session = session
        self._transport = HostileTransport(stream, session)
        self._tls = TlsStream(self._transport, _context(session), "localhost")
        self._connection = KafkaConnection(self._tls)

    @property
    def is_damaged(self) -> bool:
        """True if the node has been sent damaged bytes."""
        return self._transport.is_damaged

    async def shake_hands(self) -> bool:
        """False if the handshake fails because of its damage. Raises BadResponse if a sound one fails."""
        is_sound = self._session.damage is None or self._session.damaged_write > 1
        timeout_s = _HANDSHAKE_TIMEOUT_S if is_sound else ANSWER_TIMEOUT_S
        with suppress(trio.BrokenResourceError), trio.move_on_after(timeout_s):
            await self._tls.do_handshake()
            return True
        if is_sound:
            raise BadResponse("a sound handshake has failed")
        return False

    async def exchange(self, frames: Sequence[Frame]) -> list[Any]:
        """As `KafkaConnection.exchange`. Raises BadResponse as well for an answer to damaged bytes."""
        answers = await self._connection.exchange(frames)
        if self.is_damaged and self._session.damage is not Damage.REPEATED:
            raise BadResponse(f"{frames[-1].api} was answered after damage to a record of TLS")
        return answers

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._tls)


def _context(session: Session) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    version = ssl.TLSVersion.TLSv1_3 if session.is_newest else ssl.TLSVersion.TLSv1_2
    context.minimum_version = context.maximum_version = version
    return context
