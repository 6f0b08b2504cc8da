"""SaslHandshake and SaslAuthenticate over the wire: Kafka's states, codes and messages (KIP-152, KIP-368)."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from broker.node import Node
from broker.security.sasl.jaas import PLAIN_MODULE
from broker.server import unauthenticated as unauthenticated_connections
from broker.server.unauthenticated import AUTHENTICATION_TIMEOUT_S, UNAUTHENTICATED_PER_ADDRESS_MAX
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.errors import ErrorCode
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from metadata.protocol import ScramMechanism
from tests.support.linux import needs_loopback_addresses
from tests.support.running_node import RunningNode, node_config
from tests.support.sasl import (
    LISTENERS,
    MECHANISMS,
    PASSWORD,
    SCRAM,
    USER,
    USERS_OF_PLAIN,
    authenticate,
    client_exchange,
    handshake,
    sasl_node,
    sasl_port,
    set_password,
)
from tests.support.wire_client import WireClient, connected, framed

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with sasl_node(tmp_path) as running:
        yield running


@pytest.fixture
async def client(node: RunningNode) -> AsyncIterator[WireClient]:
    async with connected(sasl_port(node)) as connection:
        yield connection


def principals(node: RunningNode) -> list[str]:
    """The principals of the connections to the SASL listener."""
    shared = node.node.broker
    assert shared is not None
    return [each.session.principal for each in shared._shared.acceptor.connections if each.listener == "CLIENTS"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_right_password_authenticates(node: RunningNode, client: WireClient, mechanism: str) -> None:
    response = await authenticate(client, mechanism)
    assert (response.error_code, response.error_message, response.session_lifetime_ms) == (0, None, 0)
    assert principals(node) == [f"User:{USER}"]
    assert (await client.call(MetadataRequest(), 12)).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("mallory", PASSWORD)])
async def test_wrong_credentials_are_refused_late_and_close_the_connection(
    node: RunningNode, client: WireClient, mechanism: str, user: str, password: str
) -> None:
    began = trio.current_time()
    response = await authenticate(client, mechanism, user, password)
    assert response.error_code == FAILED
    assert response.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert trio.current_time() - began >= 0.1
    await client.expect_close()
    [event] = node.traced.of("authentication_failed")
    assert (event["listener"], event["mechanism"], event["peer"]) == ("CLIENTS", mechanism, "127.0.0.1")
    assert PASSWORD not in str(node.traced.events)
    assert not node.traced.of("connection_closed")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "The SASL mechanism GSSAPI of listener CLIENTS is not supported"),
        ({"sasl.enabled.mechanisms": " "}, "has to name a mechanism for listener CLIENTS"),
        (
            {"listener.name.clients.plain.sasl.jaas.config": f"{USERS_OF_PLAIN} hunter2"},
            "listener.name.clients.plain.sasl.jaas.config is invalid: Login module control flag not specified",
        ),
    ],
)
def test_configs_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, overrides: dict[str, str], message: str
) -> None:
    config = node_config(tmp_path, **{**LISTENERS, **overrides})
    with pytest.raises(InvalidConfig, match=message) as refused:
        Node(real_env(lambda kind, /, **fields: None), config)
    assert "hunter2" not in str(refused.value)


async def test_unknown_mechanism_is_answered_with_the_enabled_ones(client: WireClient) -> None:
    response = await handshake(client, "GSSAPI")
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(MECHANISMS))
    await client.expect_close()


async def test_only_versions_may_be_asked_for_before_authentication(client: WireClient) -> None:
    versions = await client.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    assert {17, 36} <= {api.api_key for api in versions.api_keys}
    await client.send(MetadataRequest(), 12)
    await client.expect_close()


async def test_no_request_overtakes_an_exchange(client: WireClient) -> None:
    exchange = client_exchange("SCRAM-SHA-256")
    await client.pipeline(
        (SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
        (SaslAuthenticateRequest(auth_bytes=exchange.first()), 2),
        (DescribeClusterRequest(), 0),
    )
    await client.expect_close()


async def test_authenticate_without_a_handshake_closes_the_connection(client: WireClient) -> None:
    await client.send(SaslAuthenticateRequest(auth_bytes=client_exchange("PLAIN").first()), 2)
    await client.expect_close()


async def test_second_handshake_within_an_exchange_is_illegal(client: WireClient) -> None:
    await handshake(client, "PLAIN")
    assert (await handshake(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    await client.expect_close()


async def test_sasl_on_a_plaintext_listener_is_illegal_and_changes_nothing(node: RunningNode) -> None:
    async with connected(node.port) as plain:
        assert (await handshake(plain, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        response = await plain.call(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)
        assert (response.error_code, response.error_message) == (
            ErrorCode.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
        assert (await plain.call(MetadataRequest(), 12)).brokers


async def test_messages_after_version_0_have_no_headers_kip_43(node: RunningNode, client: WireClient) -> None:
    for mechanism in MECHANISMS:
        async with connected(sasl_port(node)) as raw:
            assert (await raw.call(SaslHandshakeRequest(mechanism=mechanism), 0)).error_code == 0
            exchange = client_exchange(mechanism)
            message: bytes | None = exchange.first()
            while message is not None:
                await raw.send_bytes(framed(message))
                message = exchange.answer(await raw.receive_frame())
            assert (await raw.call(MetadataRequest(), 12)).brokers
            assert principals(node)[-1] == f"User:{USER}"


@pytest.mark.parametrize("message", [b"", b"\0alice\0wrong", b"\0\x24\0\0\0\0"])
async def test_wrong_message_without_a_header_closes_the_connection(client: WireClient, message: bytes) -> None:
    assert (await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)).error_code == 0
    await client.send_bytes(framed(message))
    await client.expect_close()


@pytest.mark.parametrize("key", [0, 36, 17, 18, 999])
async def test_large_request_before_authentication_is_not_received(client: WireClient, key: int) -> None:
    await client.send_bytes((50_000_000).to_bytes(4) + key.to_bytes(2) + bytes(10))
    await client.expect_close()


async def test_message_beyond_the_configured_size_fails(tmp_path: Path) -> None:
    async with sasl_node(tmp_path, **{"sasl.server.max.receive.size": 100}) as node:
        async with connected(sasl_port(node)) as client:
            response = await authenticate(client, "PLAIN", "a" * 100)
            assert response.error_code == FAILED
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "PLAIN")).error_code == 0


async def test_credentials_take_effect_without_a_restart(node: RunningNode) -> None:
    async with connected(node.port) as admin:
        await set_password(admin, "dave", "first", ScramMechanism.SCRAM_SHA_512)
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "SCRAM-SHA-512", "dave", "first")).error_code == 0
        await set_password(admin, "dave", "second", ScramMechanism.SCRAM_SHA_512)
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "SCRAM-SHA-512", "dave", "first")).error_code == FAILED
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "SCRAM-SHA-256", "dave", "second")).error_code == FAILED


async def test_users_of_plain_change_without_a_restart(node: RunningNode) -> None:
    name = "listener.name.clients.plain.sasl.jaas.config"
    async with connected(node.port) as admin:
        for password in ("first", "second"):
            config = AlterableConfig(name=name, value=f'{PLAIN_MODULE} required user_dave="{password}";')
            resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
            response = await admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert [each.error_code for each in response.responses] == [0]
            async with connected(sasl_port(node)) as client:
                assert (await authenticate(client, "PLAIN", "dave", password)).error_code == 0
        resource = AlterConfigsResource(
            resource_type=4, resource_name="1", configs=[AlterableConfig(name=name, value="hunter2")]
        )
        await admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "PLAIN", "dave", "second")).error_code == 0
        described = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=[name])
        [result] = (await admin.call(DescribeConfigsRequest(resources=[described]), 4)).results
        assert [(each.is_sensitive, each.value) for each in result.configs] == [(True, None)]
    assert "hunter2" not in str(node.traced.events)
    assert "second" not in str(node.traced.events)


async def test_session_ends_unless_the_client_authenticates_again_kip_368(tmp_path: Path) -> None:
    overrides = {"connections.max.reauth.ms": 60_000, "listener.name.clients.plain.connections.max.reauth.ms": 1_500}
    async with sasl_node(tmp_path, **overrides) as node, connected(sasl_port(node)) as client:
        assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 1_500
        assert (await client.call(MetadataRequest(), 12)).brokers
        assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 1_500
        await trio.sleep(1.6)
        await client.send(MetadataRequest(), 12)
        await client.expect_close()
        [event] = node.traced.of("connection_closed")
        assert event["reason"] == "Metadata (API 3) after the client's authentication has expired"
        async with connected(sasl_port(node)) as other:
            assert (await authenticate(other, SCRAM[0])).session_lifetime_ms == 60_000


async def test_sessions_keep_the_length_of_the_start_kip_368(tmp_path: Path) -> None:
    """Altered to 1 ms, no administrator could have altered it back."""
    name = "listener.name.clients.plain.connections.max.reauth.ms"
    overrides = {"connections.max.reauth.ms": 60_000}
    async with sasl_node(tmp_path, **overrides) as node, connected(node.port) as admin:
        resource = AlterConfigsResource(
            resource_type=4, resource_name="1", configs=[AlterableConfig(name=name, value="1")]
        )
        response = await admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [each.error_code for each in response.responses] == [0]
        for _ in range(20):
            async with connected(sasl_port(node)) as client:
                assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 60_000
    async with sasl_node(tmp_path, **overrides) as node, connected(sasl_port(node)) as client:
        assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 60_000


async def test_listeners_keep_the_protocol_of_the_start(node: RunningNode) -> None:
    """Altered to PLAINTEXT, the listener would have refused everybody, also after a restart."""
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT"
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name="1",
        configs=[AlterableConfig(name="listener.security.protocol.map", value=protocols)],
    )
    async with connected(node.port) as admin:
        response = await admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [each.error_code for each in response.responses] == [0]
    for _ in range(20):
        async with connected(sasl_port(node)) as client:
            assert (await authenticate(client, "PLAIN")).error_code == 0


async def test_expired_session_may_still_authenticate_again_kip_368(tmp_path: Path) -> None:
    overrides = {"connections.max.reauth.ms": 1}
    async with sasl_node(tmp_path, **overrides) as node, connected(sasl_port(node)) as client:
        assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 1
        await trio.sleep(0.01)
        assert (await authenticate(client, "PLAIN")).error_code == 0
        assert (await handshake(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_reauthentication_keeps_user_and_mechanism_kip_368(node: RunningNode) -> None:
    async with connected(sasl_port(node)) as client:
        await authenticate(client, "PLAIN")
        response = await authenticate(client, "PLAIN", "bob", "bob-secret")
        assert (response.error_code, response.error_message) == (
            FAILED,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
        await client.expect_close()
    async with connected(sasl_port(node)) as client:
        await authenticate(client, "PLAIN")
        response = await authenticate(client, SCRAM[0])
        assert (response.error_code, response.error_message) == (
            FAILED,
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism "
            "'PLAIN'",
        )
        await client.expect_close()


@needs_loopback_addresses
async def test_memory_of_clients_that_have_not_authenticated_is_bounded(
    node: RunningNode, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that holds most loses its oldest connections; a client with a small message is not affected."""
    monkeypatch.setattr(unauthenticated_connections, "UNAUTHENTICATED_MEMORY_MAX", 1_000_000)
    await handshake(client, "PLAIN")
    unfinished = (500_000).to_bytes(4) + b"\0\x24\0\0" + bytes(400_000)
    streams = [await trio.open_tcp_stream("127.0.0.1", sasl_port(node), local_address="127.0.0.2") for _ in range(4)]
    for stream in streams:
        await stream.send_all(unfinished)
    with trio.fail_after(10):
        while len(node.traced.of("connection_closed")) < 2:
            await trio.sleep(0.02)
        for stream in streams[:2]:
            with suppress(trio.BrokenResourceError):
                assert not await stream.receive_some()
    closed = node.traced.of("connection_closed")
    assert [event["reason"] for event in closed] == ["clients that have not authenticated have sent too much"] * 2
    message = SaslAuthenticateRequest(auth_bytes=client_exchange("PLAIN").first())
    assert (await client.call(message, 2)).error_code == 0
    for stream in streams:
        await stream.aclose()


async def test_clients_that_do_not_authenticate_are_closed_in_time(node: RunningNode, client: WireClient) -> None:
    unauthenticated = node.node.broker._shared.sasl.unauthenticated  # type: ignore[union-attr]
    async with connected(sasl_port(node)) as other:
        await authenticate(other, "PLAIN")
        await handshake(client, "PLAIN")
        for opened_at in unauthenticated._opened_at.values():
            for connection in opened_at:
                opened_at[connection] -= AUTHENTICATION_TIMEOUT_S
        await client.expect_close()
        assert (await other.call(MetadataRequest(), 12)).brokers
    [event] = node.traced.of("connection_closed")
    assert event["reason"] == "the client has not authenticated in 30 s"


async def test_address_with_many_unauthenticated_connections_loses_the_oldest(node: RunningNode) -> None:
    streams = [await trio.open_tcp_stream("127.0.0.1", sasl_port(node)) for _ in range(UNAUTHENTICATED_PER_ADDRESS_MAX)]
    async with connected(sasl_port(node)) as client:
        assert (await authenticate(client, "PLAIN")).error_code == 0
        with trio.fail_after(5):
            assert await streams[0].receive_some() == b""
    for stream in streams:
        await stream.aclose()
