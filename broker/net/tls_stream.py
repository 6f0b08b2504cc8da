"""TLS over any stream, for both sides: the handshake, which is bounded in bytes, and the stream after it.

Trio's SSLStream is not used: it reads one record of at most 16 KiB per call, each with a turn of the event loop, and
does not send the alert of a handshake that fails, so that the peer would not learn why it did.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio

# A handshake has certificates of a few kilobytes from the peer; OpenSSL itself takes chains up to 100 KiB.
HANDSHAKE_BYTES_MAX: Final = 256 * 1024
# How long sending the last bytes may take: the alert of a handshake that failed, and the end of a stream.
_LAST_BYTES_TIMEOUT_S: Final = 1.0
# The first byte of TLS: a record of the handshake, or an alert.
_TLS_BEGINS: Final = (b"\x16", b"\x15")
_FIRST_BYTES: Final = 16
# The bytes that are received at a time, encrypted; a record has at most 16 KiB.
_RECEIVE_BYTES: Final = 65_536
_RECORD_BYTES: Final = 16_384
# The bytes that are encrypted at a time, which holds the event loop for some 50 µs.
_SEND_BYTES: Final = 256 * 1024


class HandshakeFailed(Exception):
    """No TLS connection was made. `__cause__` is the error of OpenSSL or of the network.

    `first_bytes` are the first ones that the peer has sent; empty if it has sent none.
    """

    def __init__(self, first_bytes: bytes) -> None:
        super().__init__("the TLS handshake failed")
        self.first_bytes = first_bytes

    @property
    def tls_error(self) -> ssl.SSLError | None:
        """The error of OpenSSL, unless the connection ended without one."""
        error = self.__cause__ and self.__cause__.__cause__
        is_end = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        return error if isinstance(error, ssl.SSLError) and not is_end else None

    @property
    def is_foreign(self) -> bool:
        """True if the peer does not speak TLS: its first byte begins neither a handshake nor an alert."""
        return bool(self.first_bytes) and self.first_bytes[:1] not in _TLS_BEGINS


class TlsEngine:
    """TLS without a transport: `tls` takes what is received from `incoming`, and puts what has to be sent, `outgoing`.

    The `server_hostname` is that of the server to which a client connects, and None at the server.
    """

    __slots__ = ("incoming", "outgoing", "tls")

    def __init__(self, context: ssl.SSLContext, server_hostname: str | None) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )


class TlsStream(trio.abc.Stream):
    """A stream that encrypts what it sends over `transport`. One task may send while another one receives.

    After the handshake, another driver may go on with `engine` and `transport` in place of the stream.
    The end of the transport counts as the end of the stream: the frames of Kafka's protocol tell one that was cut.
    """

    def __init__(self, transport: trio.abc.Stream, context: ssl.SSLContext, server_hostname: str | None) -> None:
        self.transport = transport
        self.engine = TlsEngine(context, server_hostname)
        self._incoming, self._outgoing, self._tls = self.engine.incoming, self.engine.outgoing, self.engine.tls
        self._sending = trio.Lock()
        self._is_broken = False
        self._is_cut = False  # while a record is sent, and after a cancelled send: the peer cannot read what follows
        self._received = 0
        self.first_bytes = b""

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the peer in DER; None if it has shown none."""
        return self._tls.getpeercert(binary_form=True)

    async def do_handshake(self) -> None:
        """Raises BrokenResourceError."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._is_done(self._tls.do_handshake):
            await self._flush()
            if self._received > HANDSHAKE_BYTES_MAX:
                raise trio.BrokenResourceError(f"more than {HANDSHAKE_BYTES_MAX} bytes in a TLS handshake")
            await self._receive()
        await self._flush()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        bytes_max = _RECEIVE_BYTES if max_bytes is None else max_bytes
        while True:
            records: list[bytes] = []
            left = bytes_max
            try:
                while left and (record := self._tls.read(min(left, _RECORD_BYTES))):
                    records.append(record)
                    left -= len(record)
            except ssl.SSLWantReadError:
                if not records:
                    await self._flush()
                    await self._receive()
                    continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                pass
            except ssl.SSLError as error:
                self._is_broken = True
                raise trio.BrokenResourceError(str(error)) from error
            return b"".join(records)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        with memoryview(data) as view:
            for start in range(0, len(view), _SEND_BYTES):
                if not self._is_done(partial(self._tls.write, view[start : start + _SEND_BYTES])):
                    raise trio.BrokenResourceError("the peer negotiates TLS again")
                await self._flush()

    async def wait_send_all_might_not_block(self) -> None:
        await self.transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Tell the peer that the stream ends, unless it no longer reads, and close the transport."""
        try:
            if not self._is_broken:
                with suppress(trio.BrokenResourceError):
                    self._is_done(self._tls.unwrap)
            await self.send_last_bytes()
        finally:
            await trio.aclose_forcefully(self.transport)

    async def send_last_bytes(self) -> None:
        """Send what is left: the end of the stream, or the alert of a handshake that has failed."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError), trio.move_on_after(_LAST_BYTES_TIMEOUT_S):
            await self._flush()

    async def _receive(self) -> None:
        data = await self.transport.receive_some(_RECEIVE_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        self._received += len(data)
        self.first_bytes = self.first_bytes or bytes(data[:_FIRST_BYTES])

    async def _flush(self) -> None:
        """Send the encrypted bytes. Both tasks do: the receiving one answers when the peer changes its keys."""
        if not self._outgoing.pending:
            return
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            if self._is_cut:
                raise trio.BrokenResourceError("a record was sent in part")
            self._is_cut = True
            await self.transport.send_all(self._outgoing.read())
            self._is_cut = False
        finally:
            self._sending.release()

    def _is_done(self, step: Callable[[], object]) -> bool:
        """Take a step of TLS; False if it needs more bytes of the peer. Raises BrokenResourceError."""
        try:
            step()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._is_broken = True
            raise trio.BrokenResourceError(str(error)) from error
        return True


async def start_tls(
    stream: trio.abc.Stream, context: ssl.SSLContext, *, server_hostname: str | None = None
) -> TlsStream:
    """Return a stream that encrypts, after the handshake with the peer.

    A client gives the `server_hostname` that it connects to, a server None. Raises HandshakeFailed; the caller closes
    `stream` then.
    """
    tls = TlsStream(stream, context, server_hostname)
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        await tls.send_last_bytes()
        raise HandshakeFailed(tls.first_bytes) from error
    return tls


def socket_beneath(stream: trio.abc.Stream) -> trio.SocketStream:
    """The TCP stream of a connection, which TLS may encrypt."""
    tcp = beneath_tls(stream)
    assert isinstance(tcp, trio.SocketStream), "a connection is TCP, with or without TLS"
    return tcp


def beneath_tls(stream: trio.abc.Stream) -> trio.abc.Stream:
    """The stream whose bytes TLS encrypts, or the stream itself."""
    return stream.transport if isinstance(stream, TlsStream) else stream
