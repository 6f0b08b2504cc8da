"""TLS over any Trio stream: data both ways at the same time, ends, and broken streams."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
import trio
import trio.lowlevel
from trio.testing import memory_stream_pair

from broker.net.tls_stream import HANDSHAKE_BYTES_MAX, HandshakeFailed, TlsStream, start_tls
from broker.security.tls.handshake_failures import explain
from tests.support.certificates import TestAuthority


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = TestAuthority(tmp_path_factory.mktemp("certificates"))
    return authority.server_context(authority.issue("node", "localhost")), authority.client_context()


@asynccontextmanager
async def connected(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> AsyncIterator[tuple[TlsStream, TlsStream]]:
    """The server's and the client's end of a connection in memory."""
    ends = memory_stream_pair()
    found: dict[str, TlsStream] = {}

    async def serve() -> None:
        found["server"] = await start_tls(ends[0], contexts[0])

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            found["client"] = await start_tls(ends[1], contexts[1], server_hostname="localhost")
        yield found["server"], found["client"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_sides_send_and_receive_at_the_same_time(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], version: ssl.TLSVersion
) -> None:
    contexts[1].maximum_version = version
    sent = bytes(range(256)) * 8_000
    async with connected(contexts) as streams, trio.open_nursery() as nursery:

        async def send(stream: TlsStream) -> None:
            for start in range(0, len(sent), 700_001):
                await stream.send_all(memoryview(sent)[start : start + 700_001])

        async def receive(stream: TlsStream) -> None:
            received = bytearray()
            while len(received) < len(sent):
                data = await stream.receive_some(50_000)
                assert 0 < len(data) <= 50_000
                received += data
            assert received == sent

        for stream in streams:
            nursery.start_soon(send, stream)
            nursery.start_soon(receive, stream)


async def test_closed_stream_ends_after_the_data_before(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with connected(contexts) as (server, client):
        await client.send_all(b"last")
        await client.aclose()
        assert await server.receive_some() == b"last"
        assert await server.receive_some() == b""
        await server.aclose()


async def test_end_of_the_transport_is_the_end_of_the_stream(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with connected(contexts) as (server, client):
        await client.send_all(b"last")
        await trio.aclose_forcefully(client.transport)
        assert await server.receive_some() == b"last"
        assert await server.receive_some() == b""


async def test_damaged_record_breaks_the_stream(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async with connected(contexts) as (server, client):
        await client.transport.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(trio.BrokenResourceError):
            await server.receive_some()
        await server.aclose()


async def test_record_of_a_cancelled_send_is_not_followed_by_another(
    tmp_path: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    transport = await trio.open_tcp_stream("127.0.0.1", port)
    accepted = await listener.accept()
    found: list[TlsStream] = []

    async def serve() -> None:
        found.append(await start_tls(accepted, contexts[0]))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            client = await start_tls(transport, contexts[1], server_hostname="localhost")
        with trio.move_on_after(0.2) as scope:
            await client.send_all(bytes(64 << 20))  # the server does not read
        assert scope.cancelled_caught
        with pytest.raises(trio.BrokenResourceError):
            await client.send_all(b"more")
        await client.aclose()
        await found[0].aclose()
        await listener.aclose()


async def test_closing_takes_a_bounded_time_if_the_peer_does_not_read(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with connected(contexts) as (server, client):
        transport = client.transport
        assert isinstance(transport, trio.StapledStream)
        transport.send_stream.send_all_hook = trio.sleep_forever
        began = trio.current_time()
        await client.aclose()
        assert trio.current_time() - began < 5
        await server.aclose()


async def test_handshake_is_bounded_in_bytes(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    ours, theirs = memory_stream_pair()

    async def flood() -> None:
        # Records that begin a ClientHello of the largest size and never finish it.
        with suppress(trio.BrokenResourceError):
            await theirs.send_all(b"\x16\x03\x01\x40\x00\x01\x01\xff\xff" + bytes(0x4000 - 4))
            for _ in range(2 * HANDSHAKE_BYTES_MAX // 0x4000):
                await theirs.send_all(b"\x16\x03\x01\x40\x00" + bytes(0x4000))
                await trio.lowlevel.checkpoint()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            with pytest.raises(HandshakeFailed):
                await start_tls(ours, contexts[0])
            await trio.aclose_forcefully(ours)


def client_hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def test_mutated_handshakes_end_in_one_error(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    rng = Random(1)
    hello = client_hello(contexts[1])
    for number in range(400):
        mutated = bytearray(hello if number % 4 else rng.randbytes(rng.randrange(1, 200)))
        for _ in range(rng.randrange(1, 4)):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        ours, theirs = memory_stream_pair()
        await theirs.send_all(bytes(mutated[: rng.randrange(1, len(mutated) + 1)]))
        await theirs.send_eof()
        with pytest.raises(HandshakeFailed) as raised:
            await start_tls(ours, contexts[0])
        assert raised.value.first_bytes
        assert explain(raised.value)
