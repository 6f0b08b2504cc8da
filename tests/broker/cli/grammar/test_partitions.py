"""Offsets that commands show, also where a partition has no leader."""

from typing import Any

import pytest
import trio

from broker.cli.grammar.partitions import find_offsets
from broker.client import Admin, OffsetSpec, TimedOut, TopicPartition
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_node import scripted_node


async def test_offsets_of_other_partitions_are_found_soon_while_one_has_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.cli.grammar.partitions._ANSWER_MS", 500)

    def answer(request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            found = ListOffsetsPartitionResponse(partition_index=0, offset=3)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="one", partitions=[found])])
        partitions = [
            MetadataResponsePartition(partition_index=0, leader_id=1),
            MetadataResponsePartition(partition_index=1, leader_id=-1),
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=node.port)],
            topics=[MetadataResponseTopic(name="one", topic_id=b"o" * 16, partitions=partitions)],
        )

    led, leaderless = TopicPartition("one", 0), TopicPartition("one", 1)
    async with scripted_node(answer) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        async with Admin(node.address, config={"retry.backoff.ms": 5}) as admin:
            with trio.fail_after(10):
                found, errors = await find_offsets(admin, [led, leaderless], [OffsetSpec.EARLIEST, OffsetSpec.LATEST])
    assert [{each: offset and offset.offset for each, offset in of.items()} for of in found] == [{led: 3}, {led: 3}]
    assert list(errors) == [leaderless]
    assert isinstance(errors[leaderless], TimedOut)
    assert "the partition has no leader" in str(errors[leaderless])
