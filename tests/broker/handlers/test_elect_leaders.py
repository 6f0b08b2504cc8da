"""ElectLeaders: requests and responses (KIP-460). Other tests cover the elections."""

from collections.abc import AsyncIterator

import pytest

from broker.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from broker.wire.errors import ErrorCode
from tests.support.requests import create_topic
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, connected

PREFERRED, UNCLEAN, NEITHER = 0, 1, 2


@pytest.fixture(params=["broker", "controller"])
async def either(request: pytest.FixtureRequest, node: RunningNode) -> AsyncIterator[WireClient]:
    """A connection to the node's broker listener, which forwards, or to its controller listener."""
    async with connected(node.port) as client:
        await create_topic(client, partitions=2)
        await create_topic(client, "other")
    async with connected(node.port if request.param == "broker" else node.controller_port) as client:
        yield client


def results(response: ElectLeadersResponse) -> list[tuple[str, int, str, bool]]:
    """Topic, partition, error, and whether there is a message."""
    return [
        (topic.topic, each.partition_id, ErrorCode(each.error_code).name, each.error_message is not None)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


@pytest.mark.parametrize("version", range(3))
async def test_each_partition_is_answered(either: WireClient, version: int) -> None:
    named = [TopicPartitions(topic="topic", partitions=[1, 5]), TopicPartitions(topic="none", partitions=[0])]
    response = await either.call(ElectLeadersRequest(topic_partitions=named), version)
    assert response.error_code == ErrorCode.NONE
    assert results(response) == [
        ("topic", 1, "ELECTION_NOT_NEEDED", True),
        ("topic", 5, "UNKNOWN_TOPIC_OR_PARTITION", True),
        ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION", True),
    ]


@pytest.mark.parametrize("version", range(3))
async def test_of_all_there_are_those_are_told_of_that_needed_an_election(either: WireClient, version: int) -> None:
    response = await either.call(ElectLeadersRequest(topic_partitions=None), version)
    assert (response.error_code, results(response)) == (ErrorCode.NONE, [])
    assert sorted(topic.topic for topic in response.replica_election_results) == ["other", "topic"]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_type_that_there_is_not_is_refused_for_the_whole_and_for_each(either: WireClient, version: int) -> None:
    named = [TopicPartitions(topic="topic", partitions=[0, 1])]
    response = await either.call(ElectLeadersRequest(election_type=NEITHER, topic_partitions=named), version)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert results(response) == [("topic", index, "INVALID_REQUEST", True) for index in (0, 1)]


async def test_nothing_is_answered_where_nothing_is_named(either: WireClient) -> None:
    response = await either.call(ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=[]), 2)
    assert (response.error_code, response.replica_election_results) == (ErrorCode.NONE, [])
