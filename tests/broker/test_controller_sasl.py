"""A controllers' port with SASL, as hostile clients, administrators and other replicas of the quorum see it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.client import Admin, AuthenticationFailed
from broker.server.unauthenticated import UNAUTHENTICATED_BYTES_MAX, UNAUTHENTICATED_PER_ADDRESS_MAX
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.describe_cluster import DescribeClusterRequest
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest
from broker.wire.api.sasl_handshake import SaslHandshakeRequest
from broker.wire.errors import ErrorCode
from broker.wire.uuids import encode_uuid
from kraft.core import ReplicaKey
from kraft.handshake import Hello, decode_hello, hello
from kraft.message_codec import encode
from tests.support.running_node import RunningNode, running_node
from tests.support.sasl import PASSWORD, USER, USERS_OF_PLAIN, authenticate
from tests.support.wire_client import WireClient, connected, framed

CONTROLLERS = 2  # the type of endpoint
CONFIGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": USERS_OF_PLAIN.replace(
        "required", 'required username="bob" password="bob-secret"'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER}",
}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, **CONFIGS) as running:
        yield running
        assert not running.traced.of("handler_failed")


@pytest.fixture
async def client(node: RunningNode) -> AsyncIterator[WireClient]:
    async with connected(node.controller_port) as connection:
        yield connection


def hello_of(node: RunningNode) -> bytes:
    return framed(encode(hello(node.node.cluster_id, ReplicaKey(7, encode_uuid(b"d" * 16)))))


async def answer_to_hello(node: RunningNode, client: WireClient) -> Hello:
    await client.send_bytes(hello_of(node))
    return decode_hello(await client.receive_frame())


async def test_replica_that_authenticates_is_answered_in_the_quorums_protocol(
    node: RunningNode, client: WireClient
) -> None:
    assert (await authenticate(client, "PLAIN")).error_code == 0
    answer = await answer_to_hello(node, client)
    assert (answer.refusal, answer.cluster_id) == ("", node.node.cluster_id)


async def test_replica_without_the_right_to_act_for_the_cluster_learns_only_that(
    node: RunningNode, client: WireClient
) -> None:
    assert (await authenticate(client, "PLAIN", "bob", "bob-secret")).error_code == 0
    answer = await answer_to_hello(node, client)
    assert answer.refusal == "User:bob is neither among super.users nor allowed CLUSTER_ACTION on the cluster"
    assert (answer.cluster_id, answer.directory_id) == ("", "")


async def test_hello_before_authentication_closes_the_connection(node: RunningNode, client: WireClient) -> None:
    assert (await client.call(ApiVersionsRequest(), 0)).error_code == 0
    await client.send_bytes(hello_of(node))
    await client.expect_close()
    [closed] = node.traced.of("connection_closed")
    assert closed["reason"] == "a replica of the quorum has to authenticate by SASL before its Hello"


async def test_hello_within_an_exchange_closes_the_connection(node: RunningNode, client: WireClient) -> None:
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    await client.send_bytes(hello_of(node))
    await client.expect_close()


async def test_hello_after_a_failed_authentication_is_not_answered(node: RunningNode, client: WireClient) -> None:
    assert (await authenticate(client, "PLAIN", USER, "wrong")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    await client.expect_close()
    [failed] = node.traced.of("authentication_failed")
    assert (failed["listener"], failed["mechanism"]) == ("CONTROLLER", "PLAIN")


async def test_hello_after_requests_is_no_hello(node: RunningNode, client: WireClient) -> None:
    assert (await authenticate(client, "PLAIN")).error_code == 0
    assert (await client.call(ApiVersionsRequest(), 0)).error_code == 0
    await client.send_bytes(hello_of(node))
    await client.expect_close()


@pytest.mark.parametrize(
    "data",
    [
        bytes(64),
        b"\xff" * 64,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        framed(b""),
        framed(b"\x00\x12"),
        (UNAUTHENTICATED_BYTES_MAX + 1).to_bytes(4) + b"\x00\x24\x00\x02",
    ],
    ids=["zeros", "ones", "tls", "http", "empty", "short", "large"],
)
async def test_hostile_bytes_before_authentication_close_the_connection(
    node: RunningNode, client: WireClient, data: bytes
) -> None:
    await client.send_bytes(data)
    await client.send_bytes(b"\0")
    await client.expect_close()
    async with connected(node.controller_port) as other:
        assert (await authenticate(other, "PLAIN")).error_code == 0


async def test_requests_before_authentication_close_the_connection(client: WireClient) -> None:
    await client.send(DescribeClusterRequest(endpoint_type=CONTROLLERS), 1)
    await client.expect_close()


async def test_messages_without_headers_authenticate_a_replica_kip_43(node: RunningNode, client: WireClient) -> None:
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    await client.send_bytes(framed(f"\0{USER}\0{PASSWORD}".encode()))
    assert await client.receive_frame() == b""
    assert (await answer_to_hello(node, client)).refusal == ""


@pytest.mark.parametrize("piece", [1, 3, 7])
async def test_frames_in_pieces_are_told_apart(node: RunningNode, client: WireClient, piece: int) -> None:
    async def send(data: bytes) -> None:
        for start in range(0, len(data), piece):
            await client.send_bytes(data[start : start + piece])
            await trio.sleep(0.001)

    await send(client.frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    assert (await client.receive()).error_code == 0
    await send(client.frame(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 2))
    assert (await client.receive()).error_code == 0
    await send(hello_of(node))
    assert decode_hello(await client.receive_frame()).refusal == ""


async def test_session_of_a_replica_ends(tmp_path: Path) -> None:
    reauth = {"listener.name.controller.connections.max.reauth.ms": "500"}
    async with running_node(tmp_path, **CONFIGS, **reauth) as node, connected(node.controller_port) as client:
        assert (await authenticate(client, "PLAIN")).session_lifetime_ms == 500
        assert (await answer_to_hello(node, client)).refusal == ""
        before = trio.current_time()
        await client.expect_close()
        assert trio.current_time() - before < 2


async def test_address_with_many_unauthenticated_connections_loses_the_oldest(node: RunningNode) -> None:
    port = node.controller_port
    streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(UNAUTHENTICATED_PER_ADDRESS_MAX)]
    async with connected(port) as client:
        assert (await authenticate(client, "PLAIN")).error_code == 0
        with trio.fail_after(5):
            assert await streams[0].receive_some() == b""
    for stream in streams:
        await stream.aclose()


async def test_administrator_authenticates_to_the_controllers(node: RunningNode) -> None:
    server = f"127.0.0.1:{node.controller_port}"
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "bob-secret",
    }
    super_user = {**config, "sasl.username": USER, "sasl.password": PASSWORD}
    async with Admin(bootstrap_controllers=server, config=super_user) as admin:
        assert (await admin.describe_cluster()).cluster_id == node.node.cluster_id
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        async with Admin(bootstrap_controllers=server, config={**config, "sasl.password": "wrong"}) as admin:
            await admin.describe_cluster()
