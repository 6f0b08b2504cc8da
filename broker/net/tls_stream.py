"""The TLS handshake over a stream, for both sides. It is bounded in bytes, and the caller bounds it in time."""

import ssl
from typing import Final, cast

import trio

# A handshake has certificates of a few kilobytes from the peer; OpenSSL itself takes chains up to 100 KiB.
HANDSHAKE_BYTES_MAX: Final = 256 * 1024
# How long sending the last bytes of a failed handshake, which say why, may take.
_ALERT_TIMEOUT_S: Final = 1.0
# How long telling the peer that the stream ends may take: it may no longer read.
_CLOSE_TIMEOUT_S: Final = 1.0
# The first byte of TLS: a record of the handshake.
_TLS_BEGINS: Final = b"\x16"
_ALERT: Final = b"\x15"


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
        return bool(self.first_bytes) and self.first_bytes[:1] not in (_TLS_BEGINS, _ALERT)


class TlsStream(trio.abc.Stream):
    """A stream that encrypts what it sends over `transport`. Closing it takes a bounded time."""

    def __init__(self, tls: "trio.SSLStream[trio.abc.Stream]", transport: trio.abc.Stream) -> None:
        self._tls = tls
        self.transport = transport

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the peer in DER; None if it has shown none."""
        certificate: bytes | None = self._tls.getpeercert(binary_form=True)
        return certificate

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._tls.receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._tls.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._tls.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        with trio.move_on_after(_CLOSE_TIMEOUT_S):
            await self._tls.aclose()


async def start_tls(
    stream: trio.abc.Stream, context: ssl.SSLContext, *, server_hostname: str | None = None
) -> TlsStream:
    """Return a stream that encrypts, after the handshake with the peer.

    A client gives the `server_hostname` that it connects to, a server None. Raises HandshakeFailed; the caller closes
    `stream` then.
    """
    bounded = _HandshakeStream(stream)
    recorder = _BuffersOf(context)
    tls: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(
        bounded,
        cast("ssl.SSLContext", recorder),
        server_hostname=server_hostname,
        server_side=server_hostname is None,
        https_compatible=True,  # the frames of Kafka's protocol tell a connection that was cut from one that ended
    )
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        await recorder.send_alert(stream)
        raise HandshakeFailed(bounded.first_bytes) from error
    tls.transport_stream = stream
    return TlsStream(tls, stream)


def socket_beneath(stream: trio.abc.Stream) -> trio.SocketStream:
    """The TCP stream of a connection, which TLS may encrypt."""
    if isinstance(stream, TlsStream):
        return socket_beneath(stream.transport)
    assert isinstance(stream, trio.SocketStream), "a connection is TCP, with or without TLS"
    return stream


class _BuffersOf:
    """Makes TLS objects of a context, and keeps the buffer of outgoing bytes.

    Trio's SSLStream does not send the alert of a handshake that fails, and the peer would not learn why it did.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._outgoing: ssl.MemoryBIO | None = None

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *, server_side: bool, server_hostname: str | None
    ) -> ssl.SSLObject:
        self._outgoing = outgoing
        return self._context.wrap_bio(incoming, outgoing, server_side=server_side, server_hostname=server_hostname)

    async def send_alert(self, stream: trio.abc.Stream) -> None:
        """Send what the failed handshake has left, if the peer takes it."""
        alert = b"" if self._outgoing is None else self._outgoing.read()
        if alert:
            with trio.move_on_after(_ALERT_TIMEOUT_S):
                try:
                    await stream.send_all(alert)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return


class _HandshakeStream(trio.abc.Stream):
    """The stream beneath a handshake: it keeps the peer's first bytes, and breaks when there are too many."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._left = HANDSHAKE_BYTES_MAX
        self.first_bytes = b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytes(await self._stream.receive_some(max_bytes))
        self.first_bytes = self.first_bytes or data[:16]
        self._left -= len(data)
        if self._left < 0:
            raise trio.BrokenResourceError(f"more than {HANDSHAKE_BYTES_MAX} bytes in a TLS handshake")
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()
