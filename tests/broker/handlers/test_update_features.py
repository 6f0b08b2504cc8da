"""UpdateFeatures, and its effect on ApiVersions (KIP-584)."""

from collections.abc import AsyncIterator

import pytest
import trio

from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.errors import ErrorCode
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected

ELR = "eligible.leader.replicas.version"
WITHOUT = {"metadata.version": 33, "kraft.version": 1, "group.version": 1, "transaction.version": 2, "share.version": 2}
UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture(params=["broker", "controller"])
async def either(request: pytest.FixtureRequest, node: RunningNode) -> AsyncIterator[WireClient]:
    """A connection to the node's broker listener, which forwards, or to its controller listener."""
    async with connected(node.port if request.param == "broker" else node.controller_port) as client:
        yield client


def update(*updates: FeatureUpdateKey, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)


def level(feature: str, max_version_level: int, upgrade_type: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=max_version_level, upgrade_type=upgrade_type)


async def finalized(client: WireClient) -> tuple[dict[str, int], int]:
    """The finalized levels and their epoch. If the response has a minimum and a maximum level, they must be equal."""
    response = await client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    assert all(each.min_version_level == each.max_version_level for each in response.finalized_features)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return levels, response.finalized_features_epoch


def turned_off(version: int) -> FeatureUpdateKey:
    """The request for a lower level, which differs between versions."""
    if version == 0:
        return FeatureUpdateKey(feature=ELR, max_version_level=0, allow_downgrade=True)
    return level(ELR, 0, SAFE_DOWNGRADE)


@pytest.mark.parametrize("version", range(3))
async def test_a_feature_is_turned_off_and_on(either: WireClient, version: int) -> None:
    levels, first_epoch = await finalized(either)
    assert levels == WITHOUT | {ELR: 1}

    off = await either.call(update(turned_off(version)), version)
    assert (off.error_code, off.error_message) == (0, None)
    assert [(each.feature, each.error_code) for each in off.results] == ([(ELR, 0)] if version < 2 else [])
    levels, second_epoch = await finalized(either)
    assert levels == WITHOUT
    assert second_epoch > first_epoch

    assert (await either.call(update(level(ELR, 1)), version)).error_code == 0
    assert (await finalized(either))[0] == WITHOUT | {ELR: 1}


async def test_group_version_turns_groups_of_the_consumer_protocol_off_and_on(node: RunningNode) -> None:
    """As in Kafka: below group.version 1, their APIs return UNSUPPORTED_VERSION (KIP-848)."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="member",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    describing = ConsumerGroupDescribeRequest(group_ids=["group"])
    async with connected(node.port) as client:
        with trio.fail_after(10):
            while (await client.call(joining, 1)).error_code:
                await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 6)
        assert (await client.call(update(level("group.version", 0, SAFE_DOWNGRADE)), 2)).error_code == 0
        assert (await client.call(joining, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = (await client.call(describing, 1)).groups
        assert [each.error_code for each in described] == [ErrorCode.UNSUPPORTED_VERSION]
        assert (await client.call(update(level("group.version", 1)), 2)).error_code == 0
        assert (await client.call(joining, 1)).error_code == 0


@pytest.mark.parametrize("version", [1, 2])
async def test_validate_only_changes_no_feature(either: WireClient, version: int) -> None:
    assert (await either.call(update(turned_off(version), validate_only=True), version)).error_code == 0

    assert (await finalized(either))[0] == WITHOUT | {ELR: 1}


@pytest.mark.parametrize(
    "refused",
    [level("unknown", 1), level("metadata.version", 29, SAFE_DOWNGRADE), level("metadata.version", 31)],
)
async def test_all_are_updated_or_none(either: WireClient, refused: FeatureUpdateKey) -> None:
    response = await either.call(update(turned_off(2), refused), 2)

    assert (response.error_code, response.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert refused.feature in response.error_message
    assert (await finalized(either))[0] == WITHOUT | {ELR: 1}


@pytest.mark.parametrize("version", range(3))
async def test_nothing_is_turned_off_by_mistake(either: WireClient, version: int) -> None:
    response = await either.call(update(level(ELR, 0)), version)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (await finalized(either))[0] == WITHOUT | {ELR: 1}
