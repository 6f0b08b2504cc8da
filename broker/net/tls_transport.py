"""A TCP connection with TLS as a transport of the reactor."""

import socket
import ssl
from contextlib import suppress
from typing import Final, cast

import trio

from broker.net.driven_connection import DrivenConnection
from broker.net.poller import MUTED, READ, WRITE
from broker.net.reply import Buffer, FileRange, Part
from broker.net.send import JOIN_BELOW, ShortFile, drop_sent
from broker.net.socket_reactor import SocketReactor, SocketTransport
from broker.net.tls_stream import TlsEngine, TlsStream

# The encrypted bytes that are received at a time, which takes some 100 µs to decrypt.
_RECEIVE_BYTES: Final = 128 * 1024
# The bytes that are encrypted at a time: a slow reader holds these in memory, and no more of a file.
_PIECE_BYTES: Final = 128 * 1024
# The bytes that one connection encrypts before others have their turn.
_FLUSH_BYTES: Final = 1024 * 1024

# All transports receive into the same memory; each decrypts what it has received at once.
_received: Final = memoryview(bytearray(_RECEIVE_BYTES))


class TlsTransport(SocketTransport):
    """A socket whose bytes `engine` encrypts, after the handshake.

    The poller does not tell of bytes that the engine has taken from the socket and the connection has no space for.
    While there are some, the socket is watched for being writable, too, which it is at once.
    """

    __slots__ = ("_encrypted", "_encrypted_of", "_engine", "_has_more")

    def __init__(
        self, reactor: SocketReactor, sock: socket.socket, connection: DrivenConnection, engine: TlsEngine
    ) -> None:
        super().__init__(reactor, sock, connection)
        self._engine = engine
        self._encrypted: bytes | memoryview = b""  # what the socket has not taken yet
        self._encrypted_of = 0  # how many bytes of the connection's queue these are
        self._has_more = True  # requests may have come with the end of the handshake
        self.events = READ | WRITE

    def receive(self) -> None:
        connection = self.connection
        if connection.throttled or not connection.receive_space():
            self._mute()
            return
        try:
            count = self.sock.recv_into(_received)
        except BlockingIOError:
            return
        except OSError as error:
            connection.fail(error)
            return
        if not count:
            connection.close(None)
            return
        self._engine.incoming.write(_received[:count])
        self._decrypt()

    def resume(self) -> None:
        had_unsent = self.events == WRITE
        if self.flush():
            if had_unsent:
                self._add_turn(self.connection)  # requests that were decrypted before may have waited for this
            if self._has_more:
                self._decrypt()

    def flush(self) -> bool:
        """See `Transport.flush`. A full socket is watched for writability, and not read from meanwhile."""
        connection = self.connection
        try:
            is_sent = self._send()
        except OSError as error:  # of the socket, of the file that is sent, or of TLS
            connection.fail(error)
            return False
        if not is_sent:
            if self.events != WRITE:
                self._watch(WRITE)
            return False
        connection.muted = False
        self._read_on()
        return True

    def shut(self) -> None:
        """Close, after telling the peer so, or why; unless it reads too slowly to be told."""
        self._reactor.forget(self)
        if not self._encrypted:
            with suppress(OSError):
                self._engine.tls.unwrap()
            with suppress(OSError):
                self.sock.send(self._engine.outgoing.read())
        self.sock.close()

    def _decrypt(self) -> None:
        """Give the connection what the engine holds, as far as there is space for it."""
        connection = self.connection
        space = connection.receive_space()
        if connection.throttled or not space:
            self._mute()
            return
        try:
            count = self._decrypt_into(space)
        except ssl.SSLError as error:
            connection.fail(error)
            return
        if not count and self._has_more:
            connection.close(None)
            return
        if count:
            connection.received(count)
            self._add_turn(connection)
        if self._engine.outgoing.pending:  # the peer changes its keys
            self.flush()
        else:
            self._read_on()

    def _decrypt_into(self, space: memoryview) -> int:
        """Decrypt as much as there is space for. 0 with `_has_more` says that the peer has ended the stream."""
        read = self._engine.tls.read
        count, size = 0, len(space)
        self._has_more = True
        try:
            while count < size:
                record_size = cast(int, read(size - count, space[count:]))
                if not record_size:
                    break
                count += record_size
        except ssl.SSLWantReadError:
            self._has_more = False
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass  # the engine tells it again, after the requests before
        return count

    def _send(self) -> bool:
        """Encrypt and send; False if something is left, because the socket is full or others have their turn."""
        connection, engine = self.connection, self._engine
        queue = connection.outgoing
        left = _FLUSH_BYTES
        while True:
            if self._encrypted:
                try:
                    sent = self.sock.send(self._encrypted)
                except BlockingIOError:
                    return False
                self._encrypted = memoryview(self._encrypted)[sent:]
                if self._encrypted:
                    return False
                drop_sent(queue, self._encrypted_of)
                connection.outgoing_size -= self._encrypted_of
                self._encrypted_of = 0
            if not queue and not engine.outgoing.pending:
                return True
            if left <= 0:
                return False
            self._encrypted_of = _encrypt(engine, queue)
            left -= self._encrypted_of
            self._encrypted = engine.outgoing.read()

    def _mute(self) -> None:
        """Read nothing: too many requests wait, or the connection is throttled; `flush` reads again."""
        self.connection.muted = True
        self._watch(MUTED)

    def _read_on(self) -> None:
        events = READ | WRITE if self._has_more else READ
        if self.events != events:
            self._watch(events)


def socket_transport(
    reactor: SocketReactor, sock: socket.socket, connection: DrivenConnection, stream: trio.abc.Stream
) -> SocketTransport:
    """The transport of a connection that has had the stream, whose kernel socket is `sock`."""
    if isinstance(stream, TlsStream):
        return TlsTransport(reactor, sock, connection, stream.engine)
    return SocketTransport(reactor, sock, connection)


def _encrypt(engine: TlsEngine, queue: list[Part]) -> int:
    """Encrypt a piece from the head of the queue, which stays there until it is sent; the number of its bytes."""
    write = engine.tls.write
    small: list[Buffer] = []
    taken = 0
    for part in queue:
        size = min(len(part), _PIECE_BYTES - taken)
        if isinstance(part, FileRange):
            data: Buffer = part.file.read(part.position, size)
            if len(data) < size:
                raise ShortFile(f"the file ends before {part.size} bytes at {part.position}")
        else:
            data = part if size == len(part) else memoryview(part)[:size]
        taken += size
        if size < JOIN_BELOW:
            small.append(data)
        else:
            if small:
                write(b"".join(small))
                small = []
            write(data)
        if taken == _PIECE_BYTES:
            break
    if small:
        write(small[0] if len(small) == 1 else b"".join(small))
    return taken
