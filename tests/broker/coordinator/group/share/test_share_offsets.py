"""Start offsets of share groups: what a shard decides about them, and what it records afterwards (KIP-932)."""

from typing import Any

import pytest

from broker.coordinator.group.share.offsets import (
    alter_offsets,
    delete_offsets,
    delete_states,
    start_offsets,
)
from broker.coordinator.group.share.partition_states import Initialization, PartitionStates
from broker.coordinator.group.share.shard import share_group
from broker.server.slices import run
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.consumer_clients import GROUP
from tests.support.share_clients import ShareClient, ShareGroupsShard, settle

A, B = b"a" * 16, b"b" * 16
LEAVE = -1


@pytest.fixture
def shard() -> ShareGroupsShard:
    shard = ShareGroupsShard()
    shard.create_topic("a", 2)
    shard.create_topic("b", 1)
    return shard


@pytest.fixture
def client(shard: ShareGroupsShard) -> ShareClient:
    client = ShareClient(shard, "m", ["a"])
    settle(shard, client)
    return client


def altered(shard: ShareGroupsShard, **offsets: dict[int, int]) -> tuple[list[Any], Initialization]:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in theirs.items()
            ],
        )
        for name, theirs in offsets.items()
    ]
    responses, asked = run(start_offsets(topics, shard.image))
    initialization = shard.write(lambda state, now_ms: alter_offsets(state, GROUP, asked, now_ms))
    codes = [(each.partition_index, each.error_code) for topic in responses for each in topic.partitions]
    return codes, initialization


def test_offsets_of_a_new_group_are_set_before_its_first_member(shard: ShareGroupsShard) -> None:
    codes, initialization = altered(shard, a={0: 7, 2: 1, -1: 0, 1: -2}, gone={0: 0})
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    assert codes == [(0, ErrorCode.NONE), (2, unknown), (-1, unknown), (1, invalid), (0, unknown)]
    shard.initialize(initialization)
    group = share_group(shard.state, GROUP)
    assert (group.epoch, group.assignment_epoch) == (1, 1)
    client = ShareClient(shard, "m", ["a"])
    settle(shard, client)
    topic_id = shard.topic_id("a")
    assert shard.kept[topic_id, 0].start_offset == 7
    # The topic is known to the group, so that the group gets all records of its other partition.
    assert shard.kept[topic_id, 1].start_offset == 0
    assert client.names() == {"a": {0, 1}}


def test_offsets_are_changed_only_without_members(shard: ShareGroupsShard, client: ShareClient) -> None:
    for decide in (
        lambda state, now_ms: alter_offsets(state, GROUP, {}, now_ms),
        lambda state, now_ms: delete_offsets(state, GROUP, ["a"]),
    ):
        with pytest.raises(KafkaError) as caught:
            shard.write(decide)
        assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    client.heartbeat(member_epoch=LEAVE)
    codes, initialization = altered(shard, a={1: 40})
    # Its state epoch is above that of the state which the group consumed, so that a leader of before is fenced.
    assert (codes, initialization.state_epoch) == ([(1, ErrorCode.NONE)], shard.share_group.epoch)
    shard.initialize(initialization)
    assert shard.kept[shard.topic_id("a"), 1].start_offset == 40
    assert shard.share_group.states.initializing == {}


def test_member_that_joins_while_offsets_are_set_does_not_reset_them(shard: ShareGroupsShard) -> None:
    _, initialization = altered(shard, a={0: 7, 1: 8})
    client = ShareClient(shard, "m", ["a"])
    client.heartbeat()
    assert shard.begun == []
    shard.initialize(initialization)
    settle(shard, client)
    assert [kept.start_offset for kept in shard.kept.values()] == [7, 8]


def test_offsets_of_topics_are_deleted(shard: ShareGroupsShard, client: ShareClient) -> None:
    client.heartbeat(member_epoch=LEAVE)
    partitions, without = shard.write(lambda state, now_ms: delete_offsets(state, GROUP, ["a", "b", "gone"]))
    assert (partitions, without) == ({shard.topic_id("a"): frozenset({0, 1})}, frozenset({"b"}))
    assert shard.share_group.states.deleting == {shard.topic_id("a")}
    # The deletion failed, or its coordinator did: all partitions of the topic are deleted by the next one.
    shard.load()
    again, _ = shard.write(lambda state, now_ms: delete_offsets(state, GROUP, ["a"]))
    assert again == partitions
    shard.delete(again)
    assert (shard.kept, shard.share_group.states) == ({}, PartitionStates())


def test_states_that_a_new_member_needs_again_survive_a_late_deletion(
    shard: ShareGroupsShard, client: ShareClient
) -> None:
    client.heartbeat(member_epoch=LEAVE)
    partitions = shard.write(lambda state, now_ms: delete_states(state, [GROUP, "other"]))
    client = ShareClient(shard, "n", ["a"])
    settle(shard, client)
    assert isinstance(partitions[GROUP], dict)
    shard.delete(partitions[GROUP])
    assert len(shard.kept) == 2
    assert client.names() == {"a": {0, 1}}


def test_initialization_that_ends_late_leaves_states_to_be_deleted() -> None:
    states = PartitionStates().beginning({A: frozenset({0, 1}), B: frozenset({0})})
    after = states.deleting_topics([A]).ended({A: frozenset({0, 1}), B: frozenset({0})}, {})
    assert after == PartitionStates(initialized={B: frozenset({0})}, deleting=frozenset({A}))
    assert after.without([A, B]) == PartitionStates()


def test_share_group_without_members_does_not_expire(shard: ShareGroupsShard, client: ShareClient) -> None:
    client.heartbeat(member_epoch=LEAVE)
    assert shard.share_group.is_empty
    shard.pass_ms(2 * shard.state.config.offsets_retention_check_interval_ms)
    assert shard.share_group.states.initialized
