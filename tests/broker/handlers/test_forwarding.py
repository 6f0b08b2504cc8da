"""Requests to the controller in an envelope, and at a broker that cannot reach a controller."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.api.envelope import EnvelopeRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.codec import decode, encode
from broker.wire.errors import ErrorCode
from broker.wire.header import encode_request_header, parse_response_header
from tests.support.running_cluster import running_cluster
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected, only

CORRELATION_ID = 4711


def creation(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    )


def payload(request: Any, version: int) -> bytes:
    key = type(request).__message__.key
    return encode_request_header(key, version, CORRELATION_ID, "client") + b"".join(encode(request, version))


def envelope(data: bytes, **fields: Any) -> EnvelopeRequest:
    settings = {"request_principal": b"User:alice", "client_host_address": ip_address("10.0.0.1").packed, **fields}
    return EnvelopeRequest(request_data=data, **settings)


async def enveloped_creation(client: WireClient, name: str) -> Any:
    response = await client.call(envelope(payload(creation(name), 7)), 0)
    assert response.error_code == 0
    correlation_id, start = parse_response_header(response.response_data, True)
    assert correlation_id == CORRELATION_ID
    return only(decode(CreateTopicsResponse, 7, response.response_data, start)[0].topics)


async def test_request_in_an_envelope_gets_the_response_of_its_client(node: RunningNode) -> None:
    async with connected(node.controller_port) as broker:
        assert (await enveloped_creation(broker, "topic")).error_code == 0
        assert (await enveloped_creation(broker, "topic")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    async with connected(node.port) as client:
        topics = (await client.call(MetadataRequest(topics=None), 12)).topics
        assert only(topics).name == "topic"


@pytest.mark.parametrize(
    "request_",
    [
        envelope(payload(MetadataRequest(topics=None), 12)),
        envelope(payload(envelope(payload(creation("topic"), 7)), 0)),
        envelope(payload(creation("topic"), 7)[:-3]),
        envelope(b""),
        envelope(payload(creation("topic"), 7), client_host_address=b"abc"),
        envelope(payload(creation("topic"), 7), request_principal=b"\xff"),
        envelope(payload(creation("topic"), 7), request_principal=None),
        envelope(payload(creation("topic"), 7), request_principal=b""),
        envelope(payload(creation("topic"), 7), request_principal=b"User:"),
    ],
    ids=[
        "not forwarded",
        "an envelope",
        "cut short",
        "empty",
        "from nowhere",
        "undecodable principal",
        "no principal",
        "empty principal",
        "unnamed principal",
    ],
)
async def test_an_envelope_that_is_wrong_harms_no_other(node: RunningNode, request_: EnvelopeRequest) -> None:
    async with connected(node.controller_port) as broker:
        response = await broker.call(request_, 0)
        assert (response.error_code, response.response_data) == (ErrorCode.INVALID_REQUEST, None)
        assert (await enveloped_creation(broker, "topic")).error_code == 0


async def test_api_of_newer_nodes_is_refused_as_unsupported(node: RunningNode) -> None:
    """During a rolling upgrade, a broker may use a version that the controller does not know."""
    for version in (1, 8):
        unknown = encode_request_header(19, version, CORRELATION_ID, "client")
        async with connected(node.controller_port) as broker:
            assert (await broker.call(envelope(unknown), 0)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_envelopes_of_one_broker_share_a_commit(node: RunningNode) -> None:
    """They come from many clients, which should not wait for each other."""
    async with connected(node.controller_port) as broker:
        before = len(node.traced.of("log_written"))
        await broker.pipeline(*[(envelope(payload(creation(f"topic-{number}"), 7)), 0) for number in range(50)])
        assert [(await broker.receive()).error_code for _ in range(50)] == [0] * 50
        assert len(node.traced.of("log_written")) - before < 10


async def test_the_largest_request_that_a_broker_accepts_can_be_forwarded(tmp_path: Path) -> None:
    size_max = 200_000  # arrives in several pieces
    limits = {"socket.request.max.bytes": str(size_max)}
    roles = {1: "controller", 2: "broker"}
    async with running_cluster(tmp_path, roles, overrides=limits) as cluster, connected(cluster.port(2)) as client:
        names = [letter * 20_000 for letter in "abcdefghi"]  # a name may have 32,767 bytes
        shortest = len(client.frame(creation(*names, "x" * 17_000), 7, is_answered=False)) - 4 - 17_000
        largest = creation(*names, "x" * (size_max - shortest))
        assert len(client.frame(largest, 7, is_answered=False)) - 4 == size_max
        topics = (await client.call(largest, 7)).topics
        assert [topic.error_code for topic in topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 10
        assert not cluster.nodes[2].traced.of("controller_connection_lost")


async def test_only_the_active_controller_opens_envelopes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        for node in cluster.nodes.values():
            if node is not active:
                async with connected(node.controller_port) as broker:
                    response = await broker.call(envelope(payload(creation("topic"), 7)), 0)
                    assert (response.error_code, response.response_data) == (ErrorCode.NOT_CONTROLLER, None)


async def test_a_client_is_told_when_no_controller_could_be_asked(tmp_path: Path) -> None:
    roles, impatient = {1: "broker", 2: "controller"}, {"request.timeout.ms": "300"}
    async with running_cluster(tmp_path, roles, overrides=impatient) as cluster, connected(cluster.port(1)) as client:
        await cluster.nodes[2].crash()
        result = only((await client.call(creation("topic"), 7)).topics)
        assert (result.name, result.error_code) == ("topic", ErrorCode.REQUEST_TIMED_OUT)
        await cluster.start(2)
        with trio.fail_after(10):
            while only((await client.call(creation("topic"), 7)).topics).error_code == ErrorCode.REQUEST_TIMED_OUT:
                pass
