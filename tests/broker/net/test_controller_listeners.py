"""Controllers' listeners accept Kafka's protocol and the protocol between replicas, distinguished by the
first bytes.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from functools import partial

import attrs
import pytest
import trio

from broker.net.acceptor import ENVELOPE_BYTES_MAX, Acceptor
from broker.net.admission import ConnectionLimits
from broker.net.connection import Connection, Sender
from broker.net.listener_security import PLAINTEXT, ListenerSecurity
from broker.net.replica_streams import Identity
from broker.net.reply import Reply
from kraft.env import kernel_socket

SIZE_MAX = 1024
# A size and the first bytes of every replica's hello; and a size with the API key and version of a request.
HELLO = b"\0\0\0\x04\x95abc"
REQUEST = b"\0\0\0\x04\0\x12\0\x03"


@attrs.define
class Served:
    """The accepted connection, and its receiver."""

    acceptor: Acceptor
    port: int
    requests: list[bytes] = attrs.field(factory=list)
    replicas: list[bytes] = attrs.field(factory=list)
    closed: list[str | None] = attrs.field(factory=list)
    principals: list[str] = attrs.field(factory=list)

    def open_session(self, connection: Connection) -> None:
        """Keep no state."""

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """Anyone may send any request."""
        return Sender.ANYONE

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """Accept every size."""

    def identity_of(self, connection: Connection) -> Identity | None:
        """The first request authenticates."""
        return Identity("User:replica") if self.requests else None

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        self.requests.append(bytes(connection.buffer.data[start:end]))
        return b"answer"

    async def serve_replica(self, stream: trio.abc.Stream, principal: str, host: str) -> None:
        received = b""
        self.principals.append(principal)
        while data := await stream.receive_some(3):
            received += data
        self.replicas.append(received)
        await stream.send_all(b"bye")

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def until_connected(self, count: int) -> None:
        with trio.fail_after(5):
            while self.acceptor.connection_count != count:
                await trio.sleep(0.001)


async def serve(nursery: trio.Nursery, security: ListenerSecurity) -> Served:
    limits = ConnectionLimits(SIZE_MAX, connections_max=3, connections_per_ip_max=3, idle_ms_max=600_000)
    closed: list[str | None] = []
    acceptor = Acceptor(
        lambda: True,
        limits,
        kernel_socket,
        lambda connection: closed.append(connection.close_reason),
        lambda listener, peer, reason: None,
    )
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    served = Served(acceptor, listeners[0].socket.getsockname()[1], closed=closed)
    nursery.start_soon(acceptor.run)
    nursery.start_soon(
        partial(acceptor.serve_controllers, security=security), "CONTROLLER", listeners, served, served.serve_replica
    )
    return served


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Served]:
    yield await serve(nursery, PLAINTEXT)
    nursery.cancel_scope.cancel()


@pytest.fixture
async def authenticating(nursery: trio.Nursery) -> AsyncIterator[Served]:
    """A listener whose clients authenticate by their first request."""
    yield await serve(nursery, ListenerSecurity(principal_of=lambda certificate: ""))
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("piece", [1, 3, 5, 100])
async def test_each_is_given_all_that_was_sent(served: Served, piece: int) -> None:
    async with await served.connect() as broker, await served.connect() as replica:
        for stream, data in ((broker, REQUEST), (replica, HELLO)):
            for start in range(0, len(data), piece):
                await stream.send_all(data[start : start + piece])
                await trio.sleep(0.001)
        await replica.send_eof()
        with trio.fail_after(5):
            assert await broker.receive_some() == b"answer"
            assert await replica.receive_some() == b"bye"
        assert served.requests == [REQUEST[4:]]
        assert served.replicas == [HELLO]


async def test_connection_closed_before_its_first_bytes_leaves_nothing(served: Served) -> None:
    for said in (b"", HELLO[:4], REQUEST[:4]):
        async with await served.connect() as stream:
            await stream.send_all(said)
            await served.until_connected(1)
        await served.until_connected(0)
    assert served.closed == []


async def test_limits_do_not_hold_for_controllers(served: Served) -> None:
    """Limits are 3 connections in all, and 3 from an address."""
    async with AsyncExitStack() as open_streams:
        replicas = [await open_streams.enter_async_context(await served.connect()) for _ in range(4)]
        for replica in replicas:
            await replica.send_all(HELLO)
        await served.until_connected(4)
        broker = await open_streams.enter_async_context(await served.connect())
        await broker.send_all(REQUEST)
        with trio.fail_after(5):
            assert await broker.receive_some() == b"answer"


async def test_the_largest_request_may_come_in_an_envelope(served: Served) -> None:
    largest = SIZE_MAX + ENVELOPE_BYTES_MAX
    for size, answer in ((largest, b"answer"), (largest + 1, b"")):
        async with await served.connect() as broker:
            with suppress(trio.BrokenResourceError):
                await broker.send_all(size.to_bytes(4) + REQUEST[4:] + bytes(size - 4))
            with trio.fail_after(5), suppress(trio.BrokenResourceError):
                assert await broker.receive_some() == answer
    await served.until_connected(0)
    assert [len(request) for request in served.requests] == [largest]


async def test_all_but_replicas_can_be_told_to_connect_again(served: Served) -> None:
    async with await served.connect() as broker, await served.connect() as silent, await served.connect() as replica:
        await broker.send_all(REQUEST)
        await silent.send_all(REQUEST[:2])
        await replica.send_all(HELLO)
        with trio.fail_after(5):
            assert await broker.receive_some() == b"answer"
            served.acceptor.close_all("CONTROLLER", "enough")
            assert await broker.receive_some() == b""
            await silent.send_all(REQUEST[2:])
            with suppress(trio.BrokenResourceError):  # a reset: it was closed with unread data
                assert await silent.receive_some() == b""
            await replica.send_eof()
            assert await replica.receive_some() == b"bye"
        assert served.closed == ["enough"]
        assert served.requests == [REQUEST[4:]]


@pytest.mark.parametrize("piece", [1, 3, 5, 100])
async def test_replica_may_begin_once_it_has_authenticated_by_requests(authenticating: Served, piece: int) -> None:
    async with await authenticating.connect() as replica:
        await replica.send_all(REQUEST)
        with trio.fail_after(5):
            assert await replica.receive_some() == b"answer"
            for start in range(0, len(HELLO), piece):
                await replica.send_all(HELLO[start : start + piece])
                await trio.sleep(0.001)
            await authenticating.until_connected(1)
            await replica.send_eof()
            assert await replica.receive_some() == b"bye"
        await authenticating.until_connected(0)
    assert (authenticating.replicas, authenticating.principals) == ([HELLO], ["User:replica"])


async def test_connection_that_has_authenticated_by_requests_goes_on_with_requests(authenticating: Served) -> None:
    async with await authenticating.connect() as broker:
        with trio.fail_after(5):
            for _ in range(3):
                await broker.send_all(REQUEST)
                assert await broker.receive_some() == b"answer"
            await broker.send_all(HELLO)
            assert await broker.receive_some() == b"answer"  # to a request like others
    await authenticating.until_connected(0)
    assert authenticating.requests == [REQUEST[4:]] * 3 + [HELLO[4:]]


async def test_replica_is_refused_before_it_has_authenticated(authenticating: Served) -> None:
    async with await authenticating.connect() as replica:
        await replica.send_all(HELLO)
        with trio.fail_after(5), suppress(trio.BrokenResourceError):
            assert await replica.receive_some() == b""
    await authenticating.until_connected(0)
    assert authenticating.closed == ["a replica of the quorum has to authenticate by SASL before its Hello"]
    assert authenticating.replicas == []
