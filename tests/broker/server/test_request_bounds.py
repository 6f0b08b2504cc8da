"""The size of a request is limited by its API, and checked before memory is allocated."""

from pathlib import Path

import pytest

from broker.handlers import CONTROLLER_HANDLERS, HANDLERS
from broker.server.handler import REQUEST_BYTES_MAX
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.describe_groups import DescribeGroupsRequest
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.header import encode_request_header
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected

PRODUCE, FETCH, DESCRIBE_GROUPS = 0, 1, 15


def test_every_api_but_produce_has_a_bound_far_below_that_of_the_listener() -> None:
    bounds = {entry.api_key: entry.handler.request_bytes_max for entry in (*HANDLERS, *CONTROLLER_HANDLERS)}
    assert [key for key, bound in bounds.items() if bound is None] == [PRODUCE]
    assert max(bound for bound in bounds.values() if bound is not None) <= 16 * REQUEST_BYTES_MAX


async def test_frame_above_its_apis_bound_closes_the_connection_before_it_has_arrived(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        size = REQUEST_BYTES_MAX // 4 + 1
        await client.send_bytes(size.to_bytes(4, "big") + encode_request_header(DESCRIBE_GROUPS, 5, 1, "test"))
        await client.expect_close()
        closed = node.traced.of("connection_closed")
        assert closed[-1]["reason"] == f"a request of {size} bytes to DescribeGroups, which takes 262144 at most"


async def test_whole_frame_above_its_apis_bound_closes_the_connection(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        long = HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000, group_instance_id="i" * 30_000)
        await client.send(long, 4)
        await client.expect_close()


async def test_update_of_thousands_of_features_closes_the_connection(tmp_path: Path) -> None:
    """All updates are one decision. 4,500 of them blocked the loop for 21 ms."""
    async with running_node(tmp_path) as node, connected(node.port) as client:
        updates = [FeatureUpdateKey(feature=f"feature-{number}") for number in range(1_001)]
        few = UpdateFeaturesRequest(feature_updates=updates[:1_000], validate_only=True)
        assert (await client.call(few, 2)).error_code == 0
        await client.send(UpdateFeaturesRequest(feature_updates=updates, validate_only=True), 2)
        await client.expect_close()


@pytest.mark.parametrize("version", [0, 5, 6])
async def test_request_that_is_decoded_in_slices_is_answered_in_order(tmp_path: Path, version: int) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        names = [f"group-{number:05}" for number in range(5_000)]
        metadata = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        await client.pipeline((metadata, 12), (DescribeGroupsRequest(groups=names), version), (metadata, 12))
        assert (await client.receive()).cluster_id
        described = await client.receive()
        assert [group.group_id for group in described.groups] == names
        assert (await client.receive()).cluster_id


async def test_large_undecodable_request_closes_the_connection(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        frame = client.frame(DescribeGroupsRequest(groups=["group"] * 5_000), 5, is_answered=False)
        await client.send_bytes((len(frame) - 8).to_bytes(4, "big") + frame[4:-4])
        await client.expect_close()
        assert "undecodable" in str(node.traced.of("connection_closed")[-1]["reason"])


async def test_connection_that_ends_while_its_request_is_decoded_leaves_the_node_well(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        async with connected(node.port) as client:
            await client.send(DescribeGroupsRequest(groups=["group"] * 40_000), 5)
        async with connected(node.port) as client:
            assert (await _describe(client, 1)).results


async def _describe(client: WireClient, times: int) -> object:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    return await client.call(DescribeConfigsRequest(resources=[resource] * times), 4)
