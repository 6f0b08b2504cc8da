"""A node whose listeners speak TLS: whom it serves, what it says of clients that it does not, new certificates."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    AuthenticationFailed,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    Connection,
    ConnectionLost,
    KafkaError,
)
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.net import listener_security
from broker.net.tls_stream import start_tls
from broker.node import tls_contexts
from broker.wire.api.metadata import MetadataRequest
from metadata.configuration import InvalidConfig
from tests.support.certificates import Identity, TestAuthority
from tests.support.running_node import NODE_ID, RunningNode, node_config, running_node

WITHIN_S = 10


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "certificates")


def secured(
    authority: TestAuthority, identity: Identity, *, client_auth: str = "none", **overrides: str
) -> dict[str, str]:
    """Configs of a node whose listeners all speak TLS; that of controllers always asks for certificates."""
    return {
        "listeners": "SECURE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "inter.broker.listener.name": "SECURE",
        "listener.security.protocol.map": "SECURE:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity.file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.client.auth": client_auth,
        "listener.name.controller.ssl.client.auth": "required",
        **overrides,
    }


@asynccontextmanager
async def tls_node(directory: Path, configs: dict[str, str]) -> AsyncIterator[RunningNode]:
    async with running_node(directory, **configs) as node:
        yield node
        assert not node.traced.of("handler_failed")


def with_context(context: ssl.SSLContext) -> ConnectionSecurity:
    return ConnectionSecurity(lambda: context)


async def ask(port: int, security: ConnectionSecurity) -> int:
    """Sends a request and returns the number of brokers in the response."""
    with trio.fail_after(WITHIN_S):
        connection = await Connection.open(
            "127.0.0.1", port, "test", connect_timeout_ms=5_000, request_timeout_ms=5_000, security=security
        )
        async with running(connection):
            return len((await connection.call(MetadataRequest(topics=[]), 9)).brokers)


@asynccontextmanager
async def running(connection: Connection) -> AsyncIterator[None]:
    """Carries the connection for the block, whose ConnectionLost is raised as it is."""

    async def run() -> None:
        with pytest.raises(ConnectionLost):
            await connection.run()

    lost: ConnectionLost | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield
        except ConnectionLost as error:
            lost = error
        nursery.cancel_scope.cancel()
    if lost is not None:
        raise lost


async def reasons(node: RunningNode, count: int) -> list[object]:
    """The reasons of the connections that were not secured, once there are that many."""
    with trio.fail_after(WITHIN_S):
        while len(node.traced.of("connection_not_secured")) < count:
            await trio.sleep(0.01)
    return [fields["reason"] for fields in node.traced.of("connection_not_secured")]


async def test_node_serves_clients_and_itself_over_tls(tmp_path: Path, authority: TestAuthority) -> None:
    configs = secured(authority, authority.issue("node", "127.0.0.1"))
    async with tls_node(tmp_path, configs) as node:
        assert await ask(node.port_of("SECURE"), with_context(authority.client_context())) == 1
        assert not node.traced.of("connection_not_secured")


async def test_inline_certificates_are_served(tmp_path: Path, authority: TestAuthority) -> None:
    identity = authority.issue("node", "127.0.0.1")
    configs = secured(authority, identity)
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        del configs[key]
    configs["ssl.keystore.certificate.chain"] = identity.chain.replace("\n", " ")
    configs["ssl.keystore.key"] = identity.key.replace("\n", " ")
    configs["ssl.truststore.certificates"] = authority.pem.replace("\n", " ")
    async with tls_node(tmp_path, configs) as node:
        assert await ask(node.port_of("SECURE"), with_context(authority.client_context())) == 1


async def test_principal_is_the_mapped_name_of_the_certificate(tmp_path: Path, authority: TestAuthority) -> None:
    rules = "RULE:^CN=([^,]*),.*$/$1/U,DEFAULT"
    configs = secured(
        authority,
        authority.issue("node", "127.0.0.1"),
        client_auth="requested",
        **{"ssl.principal.mapping.rules": rules},
    )
    async with tls_node(tmp_path, configs) as node:
        assert await principal(node, authority.client_context(authority.issue("alice"))) == "User:ALICE"
        assert await principal(node, authority.client_context()) == "User:ANONYMOUS"


async def principal(node: RunningNode, context: ssl.SSLContext) -> str:
    """The principal of a client's session."""
    connection = await Connection.open(
        "127.0.0.1",
        node.port_of("SECURE"),
        "asker",
        connect_timeout_ms=5_000,
        request_timeout_ms=5_000,
        security=with_context(context),
    )
    async with running(connection):
        await connection.call(MetadataRequest(topics=[]), 9)
        assert node.node.broker is not None
        acceptor = node.node.broker._shared.acceptor
        (found,) = [each.session.principal for each in acceptor.connections if each.session.client_id == "asker"]
    assert isinstance(found, str)
    return found


async def test_missing_certificate_is_refused_and_named(tmp_path: Path, authority: TestAuthority) -> None:
    configs = secured(authority, authority.issue("node", "127.0.0.1"), client_auth="required")
    async with tls_node(tmp_path, configs) as node:
        with pytest.raises(AuthenticationFailed, match="client certificate"):
            await ask(node.port_of("SECURE"), with_context(authority.client_context()))
        assert await reasons(node, 1) == ["the client has sent no certificate, and ssl.client.auth is required"]
        assert await ask(node.port_of("SECURE"), with_context(authority.client_context(authority.issue("alice")))) == 1


async def test_port_of_the_quorum_refuses_clients_without_a_certificate(
    tmp_path: Path, authority: TestAuthority
) -> None:
    configs = secured(authority, authority.issue("node", "127.0.0.1"))
    stranger = TestAuthority(tmp_path / "certificates", "stranger").issue("mallory")
    async with tls_node(tmp_path, configs) as node:
        for context in (authority.client_context(), authority.client_context(stranger)):
            with pytest.raises(AuthenticationFailed):
                await ask(node.controller_port, with_context(context))
        found = await reasons(node, 2)
        assert found[0] == "the client has sent no certificate, and ssl.client.auth is required"
        assert str(found[1]).startswith("the client's certificate is refused: ")
        assert not node.traced.of("rpc_connection_ended")


async def test_plaintext_client_of_a_tls_listener_is_named(tmp_path: Path, authority: TestAuthority) -> None:
    async with tls_node(tmp_path, secured(authority, authority.issue("node", "127.0.0.1"))) as node:
        with pytest.raises(ConnectionLost, match="this client speaks no TLS"):
            await ask(node.port_of("SECURE"), PLAINTEXT)
        (reason,) = await reasons(node, 1)
        assert str(reason).startswith("the client does not speak TLS, and this listener does")


async def test_tls_client_of_a_plaintext_listener_is_named(tmp_path: Path, authority: TestAuthority) -> None:
    async with running_node(tmp_path) as node:
        with pytest.raises(AuthenticationFailed, match="a PLAINTEXT port answers; this client speaks TLS"):
            await ask(node.port, with_context(authority.client_context()))
        with trio.fail_after(WITHIN_S):
            while not node.traced.of("connection_closed"):
                await trio.sleep(0.01)
        assert "TLS handshake" in str(node.traced.of("connection_closed")[0]["reason"])


async def test_client_that_does_not_trust_the_listener_is_named(tmp_path: Path, authority: TestAuthority) -> None:
    stranger = TestAuthority(tmp_path / "certificates", "stranger")
    async with tls_node(tmp_path, secured(authority, authority.issue("node", "127.0.0.1"))) as node:
        with pytest.raises(AuthenticationFailed, match="certificate verify failed"):
            await ask(node.port_of("SECURE"), with_context(stranger.client_context()))
        (reason,) = await reasons(node, 1)
        assert str(reason).startswith("the client does not trust the certificate of this listener")


async def test_unfinished_handshakes_end_in_bounded_time_and_number(
    tmp_path: Path, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "HANDSHAKE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(listener_security, "UNFINISHED_PER_ADDRESS_MAX", 20)
    async with tls_node(tmp_path, secured(authority, authority.issue("node", "127.0.0.1"))) as node:
        port = node.port_of("SECURE")
        streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(30)]
        # Each that comes after the twentieth takes the place of the oldest one.
        assert await ask(port, with_context(authority.client_context())) == 1
        found = await reasons(node, 30)
        assert sum("newer connections" in str(reason) for reason in found) == 11
        assert sum("has not finished the TLS handshake in 1 s" in str(reason) for reason in found) == 19
        for stream in streams:
            with trio.fail_after(WITHIN_S):
                assert not await stream.receive_some()
            await stream.aclose()


async def served_certificate(port: int, authority: TestAuthority) -> bytes | None:
    stream = await start_tls(
        await trio.open_tcp_stream("127.0.0.1", port), authority.client_context(), server_hostname="127.0.0.1"
    )
    async with stream:
        return stream.peer_certificate


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(WITHIN_S):
        while not await check():
            await trio.sleep(0.02)


async def test_replaced_certificate_is_used_by_new_connections(
    tmp_path: Path, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_contexts, "_LOOK_S", 0.05)
    identity = authority.issue("node", "127.0.0.1")
    async with tls_node(tmp_path, secured(authority, identity)) as node:
        port = node.port_of("SECURE")
        before = await served_certificate(port, authority)
        connection = await Connection.open(
            "127.0.0.1",
            port,
            "test",
            connect_timeout_ms=5_000,
            request_timeout_ms=5_000,
            security=with_context(authority.client_context()),
        )
        async with running(connection):
            await connection.call(MetadataRequest(topics=[]), 9)
            identity.file.write_text("no certificate")
            await until(lambda: _is_traced(node, "certificates_refused"))
            assert await served_certificate(port, authority) == before
            authority.issue("node", "127.0.0.1")
            await until(lambda: _is_traced(node, "certificates_reloaded", 2))
            for kind in ("certificates_refused", "certificates_reloaded"):
                assert sorted(str(event["listener"]) for event in node.traced.of(kind)) == ["CONTROLLER", "SECURE"]
            assert await served_certificate(port, authority) != before
            assert len((await connection.call(MetadataRequest(topics=[]), 9)).brokers) == 1


async def test_altered_configs_of_a_listener_are_used_by_new_connections(
    tmp_path: Path, authority: TestAuthority
) -> None:
    """Kafka's way to replace a certificate (KIP-226); unusable configs leave the old one."""
    async with tls_node(tmp_path, secured(authority, authority.issue("node", "127.0.0.1"))) as node:
        port = node.port_of("SECURE")
        before = await served_certificate(port, authority)
        config = {"security.protocol": "SSL", "ssl.ca.location": str(authority.file)}
        async with Admin(f"127.0.0.1:{port}", config=config) as admin:

            async def alter(location: str) -> None:
                change = ConfigChange("listener.name.secure.ssl.keystore.location", location)
                broker = ConfigResource(ConfigResourceType.BROKER, str(NODE_ID))
                (await admin.incremental_alter_configs({broker: [change]})).raise_first()

            with pytest.raises(KafkaError, match=r"SECURE: ssl\.keystore\.location=/no/such/file cannot be read"):
                await alter("/no/such/file")
            stranger = TestAuthority(tmp_path / "stranger", "stranger")
            with pytest.raises(KafkaError, match="would refuse each other's connections"):
                await alter(str(stranger.issue("node", "127.0.0.1").file))
            assert await served_certificate(port, authority) == before
            assert not node.traced.of("dynamic_config_refused")
            await alter(str(authority.issue("other", "127.0.0.1").file))

            async def is_replaced() -> bool:
                return await served_certificate(port, authority) != before

            await until(is_replaced)


async def test_altered_protocol_of_a_listener_does_not_change_whom_it_asks_for_a_certificate(
    tmp_path: Path, authority: TestAuthority
) -> None:
    configs = secured(authority, authority.issue("node", "127.0.0.1"), client_auth="required")
    configs |= {
        "listeners": "SECURE://127.0.0.1:0,OPEN://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "inter.broker.listener.name": "OPEN",
        "listener.security.protocol.map": "SECURE:SSL,OPEN:PLAINTEXT,CONTROLLER:SSL",
    }
    async with tls_node(tmp_path, configs) as node:
        async with Admin(f"127.0.0.1:{node.port_of('OPEN')}") as admin:
            change = ConfigChange("listener.security.protocol.map", "SECURE:SASL_SSL,OPEN:PLAINTEXT,CONTROLLER:SSL")
            broker = ConfigResource(ConfigResourceType.BROKER, str(NODE_ID))
            assert (await admin.incremental_alter_configs({broker: [change]})).succeeded
            for _ in range(20):
                await admin.describe_cluster()
        for _ in range(20):
            with pytest.raises(ConnectionLost):
                await ask(node.port_of("SECURE"), with_context(authority.client_context()))


async def _is_traced(node: RunningNode, kind: str, times: int = 1) -> bool:
    return len(node.traced.of(kind)) >= times


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ssl.keystore.location": "/no/such/file"}, r"SECURE: ssl\.keystore\.location=/no/such/file cannot be read"),
        ({"ssl.keystore.type": "JKS"}, "key store password is not specified"),
        ({"ssl.keystore.type": "JKS", "ssl.keystore.password": "x"}, r"is a PEM file; set ssl\.keystore\.type to PEM"),
        ({"ssl.principal.mapping.rules": "default"}, "Invalid rule: `default`"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH_SUITE"}, "no cipher suite TLS_NO_SUCH_SUITE"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "older ones are broken"),
    ],
)
def test_unusable_configs_are_refused_before_the_node_starts(
    tmp_path: Path, authority: TestAuthority, changes: dict[str, str], message: str
) -> None:
    from broker.node import Node
    from kraft.env import real_env

    configs = {**secured(authority, authority.issue("node", "127.0.0.1")), **changes}
    with pytest.raises(InvalidConfig, match=message):
        Node(real_env(lambda kind, /, **fields: None), node_config(tmp_path, **configs))
