"""Pipelined requests of one connection: each sees the effects of those before it, and none of those after it.

Kafka promises that. Large requests are carried out in portions, and before the fix the connection's next request was
served between two of them.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.delete_groups import DeleteGroupsRequest
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.running_node import running_node
from tests.support.wire_client import WireClient, connected, only

PARTITIONS = 300
COMMIT, FETCH, DELETE = 8, 9, 0
COMMITTED, NONE = list(range(PARTITIONS)), -1


@asynccontextmanager
async def coordinated(directory: Path) -> AsyncIterator[WireClient]:
    """A client of a node that coordinates groups and has the topic "wide"."""
    async with running_node(directory) as node, connected(node.port) as client:
        await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        topic = CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)
        await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        with trio.fail_after(20):
            while any(await commit_codes(client, range(PARTITIONS))):
                await trio.sleep(0.01)
        yield client


async def commit_codes(client: WireClient, indexes: Iterable[int]) -> list[int]:
    """Commit, for each partition, its own index as the offset."""
    committed = await client.call(commit({index: index for index in indexes}), COMMIT)
    return [each.error_code for each in only(committed.topics).partitions]


def commit(offsets: dict[int, int], group: str = "group") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="wide", partitions=partitions)])


def fetch(*groups: str, indexes: Iterable[int] | None = None) -> OffsetFetchRequest:
    """A request for all offsets of the groups, or for those of some partitions."""
    topics = None if indexes is None else [OffsetFetchRequestTopics(name="wide", partition_indexes=list(indexes))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups])


def delete(indexes: Iterable[int]) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    return OffsetDeleteRequest(group_id="group", topics=[OffsetDeleteRequestTopic(name="wide", partitions=partitions)])


async def fetched(client: WireClient) -> list[list[int]]:
    """The offsets of each group in the next response, by partition."""
    response = await client.receive()
    return [
        [each.committed_offset for topic in group.topics for each in sorted(topic.partitions, key=_index)]
        for group in response.groups
    ]


def _index(partition: object) -> int:
    index: int = partition.partition_index  # type: ignore[attr-defined]
    return index


async def test_large_offset_commit_is_carried_out_before_the_next_request(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as client:
        later = {index: 1_000 + index for index in range(PARTITIONS)}
        await client.pipeline((commit(later), COMMIT), (fetch("group", indexes=range(PARTITIONS)), FETCH))
        await client.receive()
        assert await fetched(client) == [list(later.values())]


@pytest.mark.parametrize("count", [3, PARTITIONS])
async def test_offset_delete_is_carried_out_before_the_next_request(tmp_path: Path, count: int) -> None:
    async with coordinated(tmp_path) as client:
        await client.pipeline(
            (commit({0: 5}), COMMIT), (delete(range(count)), DELETE), (fetch("group", indexes=range(PARTITIONS)), FETCH)
        )
        await client.receive()
        await client.receive()
        assert await fetched(client) == [[NONE] * count + COMMITTED[count:]]


@pytest.mark.parametrize("indexes", [range(PARTITIONS), None])
async def test_large_offset_fetch_does_not_see_the_next_request(tmp_path: Path, indexes: Iterable[int] | None) -> None:
    """It waits, as all reads do, until an earlier commit is written."""
    async with coordinated(tmp_path) as client:
        last = PARTITIONS - 1
        await client.pipeline(
            (commit({0: 5}), COMMIT), (fetch("group", indexes=indexes), FETCH), (commit({last: 1_000}), COMMIT)
        )
        await client.receive()
        assert await fetched(client) == [[5, *COMMITTED[1:]]]


async def test_offset_fetch_of_several_groups_does_not_see_the_next_request(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as client:
        await client.pipeline(
            (commit({0: 5}), COMMIT), (fetch("group", "other", indexes=[0]), FETCH), (commit({0: 6}, "other"), COMMIT)
        )
        await client.receive()
        assert await fetched(client) == [[5], [NONE]]


async def test_many_groups_are_deleted_before_the_next_request(tmp_path: Path) -> None:
    async with coordinated(tmp_path) as client:
        groups = [f"group-{number:03}" for number in range(600)]
        await client.pipeline(*((commit({0: 5}, group), COMMIT) for group in groups))
        for _ in groups:
            await client.receive()
        await client.pipeline(
            (DeleteGroupsRequest(groups_names=groups), 2), (fetch(groups[0], groups[-1], indexes=[0]), FETCH)
        )
        assert {result.error_code for result in (await client.receive()).results} == {0}
        assert await fetched(client) == [[NONE], [NONE]]
