"""Requests that are answered, in every advertised version, and requests that close the connection."""

from typing import Any

import pytest
import trio

from broker.handlers import HANDLERS, TELEMETRY_HANDLERS
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.api.metadata import MetadataRequest
from broker.wire.codec import decode
from broker.wire.errors import ErrorCode
from broker.wire.header import encode_request_header
from tests.support.requests import batch, create_topic, fetch_request, produce_request
from tests.support.running_node import NODE_ID, RunningNode
from tests.support.wire_client import WireClient, connected, framed

API_VERSIONS = 18
PRODUCE, FETCH, METADATA = 0, 1, 3
# The APIs that the broker advertises. A client uses this table to choose requests.
ADVERTISED = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 5),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 6),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 3),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
    80: (0, 1),
    81: (0, 0),
    83: (0, 0),
    84: (0, 0),
    85: (0, 1),
    86: (0, 0),
    87: (0, 1),
    90: (0, 1),
    91: (0, 0),
    92: (0, 0),
    94: (0, 0),
}
SERVED = [
    (handler.api_key, version)
    for handler in HANDLERS
    if handler not in TELEMETRY_HANDLERS
    for version in range(handler.min_version, handler.max_version + 1)
]


def software(name: str = "test", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def request_of(api_key: int, version: int) -> Any:
    """A request whose response is not just an empty list, if that is easily possible."""
    if api_key == API_VERSIONS:
        return software()
    if api_key == PRODUCE:
        return produce_request(batch(b"value"))
    if api_key == FETCH:
        return fetch_request()
    return APIS[api_key].request()


@pytest.mark.parametrize("version", range(6))
async def test_every_version_of_api_versions_advertises_the_served_apis(client: WireClient, version: int) -> None:
    response = await client.call(software(), version)

    assert response.error_code == 0
    assert {api.api_key: (api.min_version, api.max_version) for api in response.api_keys} == ADVERTISED


async def test_every_advertised_version_answers_in_whole(client: WireClient) -> None:
    await create_topic(client)

    for api_key, version in SERVED:
        await client.call(request_of(api_key, version), version)


async def test_default_requests_leave_the_connection_usable(client: WireClient) -> None:
    """All of them are sent at once, so that each also has to wait for its turn."""
    served = [(request_of(api_key, version), version) for api_key, version in SERVED]

    await client.pipeline(*served)

    for _ in served:
        await client.receive()


NOT_SERVED = [
    *((key, last + 1) for key, (_, last) in ADVERTISED.items() if key != API_VERSIONS),
    *((key, first - 1) for key, (first, _) in ADVERTISED.items() if key != API_VERSIONS),
    (PRODUCE, 2),
    (7, 3),  # an API that Kafka once had between its brokers
    (24, 3),  # AddPartitionsToTxn: not yet
    (9999, 0),
]


async def test_unadvertised_api_closes_the_connection(node: RunningNode) -> None:
    for api_key, version in NOT_SERVED:
        await check_closed(node, api_key, version)


async def check_closed(node: RunningNode, api_key: int, version: int) -> None:
    closed = len(node.traced.of("connection_closed"))
    async with connected(node.port) as client:
        await client.send_bytes(framed(encode_request_header(api_key, version, 1, "test") + bytes(64)))
        await client.expect_close()
    assert len(node.traced.of("connection_closed")) == closed + 1


@pytest.mark.parametrize(
    ("api_key", "version", "reason"),
    [
        (56, 3, "AlterPartition (API 56) is not served"),
        (7, 3, "ControlledShutdown (API 7) is not served"),
        (9999, 0, "API 9999, which Kafka does not have, is not served"),
        (-1, 0, "API -1, which Kafka does not have, is not served"),
        (1, 99, "version 99 of Fetch (API 1) is not served"),
    ],
)
async def test_a_request_that_is_not_served_is_traced_with_the_name_of_its_api(
    node: RunningNode, api_key: int, version: int, reason: str
) -> None:
    header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\7\0\4test"
    async with connected(node.port) as client:
        await client.send_bytes(framed(header + bytes(64)))
        await client.expect_close()
    assert [fields["reason"] for fields in node.traced.of("connection_closed")] == [reason]


@pytest.mark.parametrize(
    ("sent", "protocol"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "the client begins a TLS handshake, and this listener is PLAINTEXT"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP"),
    ],
    ids=["tls", "http"],
)
async def test_client_of_another_protocol_is_named(node: RunningNode, sent: bytes, protocol: str) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", node.port)
    async with stream:
        await stream.send_all(sent)
        assert await stream.receive_some() == b""
    (closed,) = node.traced.of("connection_closed")
    assert str(closed["reason"]).endswith(f"is outside 0..104857600: {protocol}")


@pytest.mark.parametrize("version", [6, 99, -1])
async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest(client: WireClient, version: int) -> None:
    """KIP-511: the response tells the client which versions it may use."""
    header = API_VERSIONS.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7\0\4test"
    await client.send_bytes(framed(header + b"\0whatever"))

    payload = await client.receive_frame()

    assert payload[:4] == b"\0\0\0\7"
    response, end = decode(ApiVersionsResponse, 0, payload, 4)
    assert end == len(payload)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(API_VERSIONS, 0, 5)]
    assert (await client.call(software(), 4)).error_code == 0


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("ä", "1"), ("a\n", "1")]
)
async def test_invalid_client_software_name_is_refused(client: WireClient, name: str, version: str) -> None:
    response = await client.call(software(name, version), 3)

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert not response.api_keys


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("own", NODE_ID, ErrorCode.NONE),
        ("own", NODE_ID + 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("other", NODE_ID, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("own", -1, ErrorCode.INVALID_REQUEST),
        (None, NODE_ID, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_client_that_means_another_node_is_told_to_start_over_kip_1242(
    node: RunningNode, client: WireClient, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    request = software()
    request.cluster_id = node.node.cluster_id if cluster_id == "own" else cluster_id
    request.node_id = node_id

    response = await client.call(request, 5)

    assert (response.error_code, bool(response.api_keys)) == (code, code is ErrorCode.NONE)
    assert (await client.call(request, 4)).error_code == ErrorCode.NONE
    async with connected(node.controller_port) as controller:  # controllers do not check, as in Kafka
        told = (await controller.call(request, 5)).error_code
    assert told == (code if code is ErrorCode.INVALID_REQUEST else ErrorCode.NONE)


async def test_features_are_told_with_the_level_in_force(client: WireClient) -> None:
    response = await client.call(software(), 4)

    supported = {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features}
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert "metadata.version" in finalized
    assert all(supported[name][0] <= level <= supported[name][1] for name, level in finalized.items())
    assert response.finalized_features_epoch >= 0


async def test_old_clients_are_not_told_of_features_that_begin_at_zero(client: WireClient) -> None:
    """They consider such a feature an error (KAFKA-17011)."""
    response = await client.call(software(), 3)

    assert all(feature.min_version > 0 for feature in response.supported_features)


async def test_a_request_cut_short_closes_its_connection_alone(node: RunningNode, client: WireClient) -> None:
    async with connected(node.port) as other:
        whole = other.frame(MetadataRequest(topics=None), 9)[4:]
        await other.send_bytes(framed(whole[:-1]))
        await other.expect_close()

    assert (await client.call(software(), 3)).error_code == 0


async def test_a_controller_listener_is_not_for_clients(node: RunningNode) -> None:
    async with connected(node.controller_port) as client:
        assert (await client.call(software(), 3)).error_code == 0

        await client.send(MetadataRequest(topics=None), 9)
        await client.expect_close()
