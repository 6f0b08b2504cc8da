"""A client's connection over TLS: what it verifies, and the errors that say why a side refuses the other."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from broker.client import AuthenticationFailed, Connection, ConnectionLost
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.support.certificates import TestAuthority
from tests.support.scripted_node import scripted_node

# All failures are known within this time: none waits for a timeout.
WITHIN_S = 5


def echo(request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=request.broker_id)


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


def trusting(context: ssl.SSLContext) -> ConnectionSecurity:
    return ConnectionSecurity(lambda: context)


async def call(port: int, security: ConnectionSecurity, *, host: str = "127.0.0.1") -> int:
    """Connects, sends a request and returns the number in the response."""
    with trio.fail_after(WITHIN_S):
        connection = await Connection.open(
            host, port, "test", connect_timeout_ms=4_000, request_timeout_ms=4_000, security=security
        )
        outcome: list[int | ConnectionLost] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, connection)
            try:
                response = await connection.call(AllocateProducerIdsRequest(broker_id=7), 0)
                outcome.append(response.producer_id_start)
            except ConnectionLost as error:
                outcome.append(error)
            nursery.cancel_scope.cancel()
    if isinstance(outcome[0], ConnectionLost):
        raise outcome[0]
    return outcome[0]


async def _run(connection: Connection) -> None:
    with pytest.raises(ConnectionLost):
        await connection.run()


@asynccontextmanager
async def port_that_closes() -> AsyncIterator[int]:
    """A port that reads the first bytes and closes, as the PLAINTEXT port of a broker does."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_requests_are_answered_over_tls(authority: TestAuthority) -> None:
    context = authority.server_context(authority.issue("node", "127.0.0.1"))
    async with scripted_node(echo, context) as node:
        assert await call(node.port, trusting(authority.client_context())) == 7


async def test_certificate_of_an_unknown_authority_is_refused(authority: TestAuthority, tmp_path: Path) -> None:
    context = authority.server_context(authority.issue("node", "127.0.0.1"))
    stranger = TestAuthority(tmp_path, "stranger")
    async with scripted_node(echo, context) as node:
        with pytest.raises(AuthenticationFailed, match=r"certificate verify failed.*ssl\.ca\.location"):
            await call(node.port, trusting(stranger.client_context()))


async def test_certificate_of_another_host_is_refused(authority: TestAuthority) -> None:
    context = authority.server_context(authority.issue("node", "other.example"))
    async with scripted_node(echo, context) as node:
        with pytest.raises(AuthenticationFailed, match=r"mismatch.*ssl\.endpoint\.identification\.algorithm"):
            await call(node.port, trusting(authority.client_context()))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_missing_client_certificate_is_an_authentication_failure(
    authority: TestAuthority, version: ssl.TLSVersion
) -> None:
    """In TLS 1.3 the client's handshake ends before the server refuses it."""
    context = authority.server_context(authority.issue("node", "127.0.0.1"), asks_clients=True)
    context.maximum_version = version
    async with scripted_node(echo, context) as node:
        with pytest.raises(AuthenticationFailed, match="client certificate"):
            await call(node.port, trusting(authority.client_context()))
        assert await call(node.port, trusting(authority.client_context(authority.issue("alice")))) == 7


async def test_client_certificate_of_an_unknown_authority_is_an_authentication_failure(
    authority: TestAuthority, tmp_path: Path
) -> None:
    context = authority.server_context(authority.issue("node", "127.0.0.1"), asks_clients=True)
    stranger = TestAuthority(tmp_path, "stranger").issue("mallory")
    async with scripted_node(echo, context) as node:
        with pytest.raises(AuthenticationFailed, match="does not trust this client's certificate"):
            await call(node.port, trusting(authority.client_context(stranger)))


async def test_tls_versions_without_overlap_are_an_authentication_failure(authority: TestAuthority) -> None:
    context = authority.server_context(authority.issue("node", "127.0.0.1"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with scripted_node(echo, context) as node:
        with pytest.raises(AuthenticationFailed, match=r"TLS versions of ssl\.enabled\.protocols"):
            await call(node.port, trusting(old))


async def test_plaintext_port_ends_a_tls_handshake_at_once(authority: TestAuthority) -> None:
    async with port_that_closes() as port:
        with pytest.raises(ConnectionLost, match="closed by the other side during the TLS handshake"):
            await call(port, trusting(authority.client_context()))


async def test_silent_port_ends_a_tls_handshake_after_the_connect_timeout(authority: TestAuthority) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0))
        with pytest.raises(ConnectionLost, match="timed out"):
            await Connection.open(
                "127.0.0.1",
                listeners[0].socket.getsockname()[1],
                "test",
                connect_timeout_ms=50,
                request_timeout_ms=1_000,
                security=trusting(authority.client_context()),
            )
        nursery.cancel_scope.cancel()


async def test_plaintext_client_of_a_tls_port_loses_its_connection(authority: TestAuthority) -> None:
    context = authority.server_context(authority.issue("node", "127.0.0.1"))
    async with scripted_node(echo, context) as node:
        with pytest.raises(ConnectionLost, match="this client speaks no TLS"):
            await call(node.port, PLAINTEXT)
        assert node.ends == ["refused"]
