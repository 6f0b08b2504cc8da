"""TLS connections of the epoll reactor: what comes with the handshake, ends of either side, damaged records."""

import ssl
import struct
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import trio

from broker.net.acceptor import Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.connection import Connection, Sender
from broker.net.listener_security import ListenerSecurity
from broker.net.receive_buffer import INITIAL_SIZE
from broker.net.tls_stream import TlsEngine
from kraft.env import kernel_socket
from tests.support.certificates import TestAuthority

WITHIN_S = 10


class Echo:
    """A service whose replies are the requests; it notes why connections were closed."""

    def __init__(self) -> None:
        self.closed: list[str | None] = []

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        return Sender.CLIENT

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def serve(self, connection: Connection, start: int, end: int) -> bytes:
        return frame(bytes(connection.buffer.data[start:end]))

    def on_close(self, connection: Connection) -> None:
        self.closed.append(connection.close_reason)


class Client:
    """One end of a connection whose bytes the test sees."""

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        self.stream = stream
        self.engine = TlsEngine(context, "127.0.0.1")

    async def step(self, step: Callable[[], object]) -> object:
        """Take a step of TLS, and receive until it succeeds; what it wants to send is sent only before receiving."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self.send()
                data = await self.stream.receive_some(65_536)
                if data:
                    self.engine.incoming.write(data)
                else:
                    self.engine.incoming.write_eof()

    async def send(self) -> None:
        await self.stream.send_all(self.engine.outgoing.read())

    async def receive(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            record = await self.step(partial(self.engine.tls.read, count - len(received)))
            assert isinstance(record, bytes)
            received += record
        return received


class Listener:
    def __init__(self, service: Echo, port: int, context: ssl.SSLContext) -> None:
        self.service = service
        self._port = port
        self._context = context
        self.clients: list[Client] = []

    async def connect(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Client:
        """A connection whose last bytes of the handshake are not sent yet, if the client sends the last ones."""
        self._context.maximum_version = version
        client = Client(await trio.open_tcp_stream("127.0.0.1", self._port), self._context)
        self.clients.append(client)
        await client.step(client.engine.tls.do_handshake)
        return client


@pytest.fixture
async def listener(nursery: trio.Nursery, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Listener]:
    authority = TestAuthority(tmp_path_factory.mktemp("certificates"))
    security = ListenerSecurity(partial(authority.server_context, authority.issue("node", "127.0.0.1")))
    service = Echo()
    limits = ConnectionLimits(1024 * 1024, connections_max=8, connections_per_ip_max=8, idle_ms_max=600_000)
    acceptor = Acceptor(lambda: True, limits, kernel_socket, service.on_close, lambda *refused: None)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(acceptor.run)
    nursery.start_soon(partial(acceptor.serve, "SECURE", listeners, service, security=security))
    listener = Listener(service, listeners[0].socket.getsockname()[1], authority.client_context())
    with trio.fail_after(WITHIN_S):
        yield listener
    for client in listener.clients:
        await client.stream.aclose()
    nursery.cancel_scope.cancel()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_request_that_comes_with_the_end_of_the_handshake_is_answered(
    listener: Listener, version: ssl.TLSVersion
) -> None:
    client = await listener.connect(version)
    client.engine.tls.write(frame(b"early"))
    await client.send()
    assert await client.receive(9) == frame(b"early")


async def test_requests_beyond_the_space_of_a_connection_are_answered_without_more_bytes(listener: Listener) -> None:
    client = await listener.connect()
    requests = b"".join(frame(b"%06d" % number) for number in range(10_000))
    assert len(requests) > 4 * INITIAL_SIZE
    client.engine.tls.write(requests)
    await client.send()
    assert await client.receive(len(requests)) == requests


async def test_end_of_the_stream_closes_the_connection_after_the_requests_before_it(listener: Listener) -> None:
    client = await listener.connect()
    client.engine.tls.write(frame(b"last"))
    with pytest.raises(ssl.SSLWantReadError):
        client.engine.tls.unwrap()
    await client.send()
    assert await client.receive(8) == frame(b"last")
    while await client.stream.receive_some():
        pass
    assert listener.service.closed == [None]


async def test_client_is_told_of_the_end_by_tls(listener: Listener) -> None:
    client = await listener.connect()
    client.engine.tls.write(struct.pack(">i", -1))
    await client.send()
    assert await client.step(lambda: client.engine.tls.read(1)) == b"", "an end without an alert is an SSLEOFError"
    assert len(listener.service.closed) == 1


async def test_damaged_record_closes_the_connection_with_an_alert(listener: Listener) -> None:
    client, healthy = await listener.connect(), await listener.connect()
    client.engine.tls.write(frame(b"whole"))
    client.engine.tls.write(frame(b"damaged"))
    record = bytearray(client.engine.outgoing.read())
    record[-1] ^= 1
    await client.stream.send_all(record)
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        await client.receive(1_000)
    (reason,) = listener.service.closed
    assert "BAD_RECORD_MAC" in str(reason) or "DECRYPTION_FAILED" in str(reason)
    healthy.engine.tls.write(frame(b"fine"))
    await healthy.send()
    assert await healthy.receive(8) == frame(b"fine")
