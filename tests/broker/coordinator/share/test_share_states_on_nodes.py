"""The share coordinator and its client on nodes: over sockets, after restarts, while coordinators move (KIP-932)."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from broker.coordinator.internal_topics import SHARE_GROUP_STATE
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.share.requests import Write
from broker.coordinator.share.share_state import (
    ACKNOWLEDGED,
    AVAILABLE,
    UNINITIALIZED,
    PartitionState,
    PartitionSummary,
    SharePartitionKey,
    ShareStateStore,
    StateBatch,
)
from broker.coordinator.share.state_client import ShareStateClient
from broker.coordinator.share.state_requests import InitializeState, ReadState, WriteState, as_message, results_of
from broker.node import Node
from broker.wire.api.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.replicated_topics import create_replicated
from tests.support.requests import create_topic
from tests.support.running_cluster import WITHIN_S, RunningCluster, running_cluster
from tests.support.running_node import RunningNode, running_node
from tests.support.scraped_metrics import scrape
from tests.support.wire_client import connected

T = TypeVar("T")
GROUP = "group"


def states_of(node: Node | None) -> ShareStateClient:
    assert node is not None, "it runs"
    assert node.broker is not None, "it is a broker"
    return node.broker.coordination.coordinators.share_states


def topic_id_of(node: Node | None) -> bytes:
    assert node is not None, "it runs"
    assert node.loader is not None, "it serves"
    topic_id: bytes = node.loader.image.topics.by_name["topic"].topic_id
    return topic_id


async def outcome(completion: Completion[T]) -> T:
    """Raises KafkaError."""
    with trio.fail_after(WITHIN_S):
        found = await completion.wait()
    if isinstance(found, KafkaError):
        raise found
    return found


async def code_of(asked: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await asked
    return refused.value.code


def acknowledged(first: int, last: int) -> tuple[StateBatch, ...]:
    return (StateBatch(first, last, ACKNOWLEDGED, 1),)


async def write(
    states: ShareStateStore, topic_id: bytes, batches: tuple[StateBatch, ...], *, leader_epoch: int = 3, start: int = -1
) -> None:
    await outcome(states.write(GROUP, topic_id, 0, 1, leader_epoch, start, 0, batches))


async def test_states_survive_a_restart_without_their_redundant_records(tmp_path: Path) -> None:
    """After the last snapshot there are two updates, of which the later one does not replace the earlier one."""
    configs = {
        "share_coordinator_snapshot_update_records_per_snapshot": 3,
        "share_coordinator_state_topic_prune_interval_ms": 20,
        "http_listener": "127.0.0.1:0",
    }
    async with running_node(tmp_path, **configs) as running:
        async with connected(running.port) as client:
            await create_topic(client, "topic")
        states, topic_id = states_of(running.node), topic_id_of(running.node)
        assert await outcome(states.read_summary(GROUP, topic_id, 0, 0)) == PartitionSummary(0, 0, UNINITIALIZED, -1)
        assert await code_of(outcome(states.read(GROUP, topic_id, 0, 3))) is ErrorCode.INVALID_REQUEST
        await outcome(states.initialize(GROUP, topic_id, 0, 1, 5))
        assert await outcome(states.read(GROUP, topic_id, 0, 3)) == PartitionState(1, 5, ())
        for offset in range(5, 13, 2):
            await write(states, topic_id, acknowledged(offset, offset))
        assert await code_of(write(states, topic_id, (), leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
        assert await code_of(outcome(states.initialize(GROUP, topic_id, 0, 0, 0))) is ErrorCode.FENCED_STATE_EPOCH
        await write(states, topic_id, (StateBatch(6, 6, AVAILABLE, 2),), start=6)
        with trio.fail_after(WITHIN_S):
            while not running.traced.of("share_state_pruned"):
                await trio.sleep(0.005)
        found, metrics = await scrape(running.port_of("HTTP")), "kafka_server_sharecoordinatormetrics"
        assert found.value(f"{metrics}_write_total") == 7, "one was refused, and one reader was new"
        assert found.value(f"{metrics}_write_latency_count") == 6
        assert found.value(f"{metrics}_last_pruned_offset", topic=SHARE_GROUP_STATE) == pruned_offset(running)
    expected = PartitionState(
        1, 6, (StateBatch(6, 6, AVAILABLE, 2), *(StateBatch(offset, offset, ACKNOWLEDGED, 1) for offset in (7, 9, 11)))
    )
    async with running_node(tmp_path, **configs) as running:
        states = states_of(running.node)
        assert await outcome(states.read(GROUP, topic_id, 0, 3)) == expected
        assert expected.delivery_complete_count == 3
        assert pruned_offset(running) > 0
        await outcome(states.delete(GROUP, topic_id, 0))
        assert await code_of(outcome(states.read(GROUP, topic_id, 0, 3))) is ErrorCode.INVALID_REQUEST


def pruned_offset(running: RunningNode) -> int:
    """The highest log start offset of `__share_group_state`."""
    assert running.node.broker is not None, "it is a broker"
    local = running.node.broker.partitions.topic(SHARE_GROUP_STATE)
    assert local is not None, "it was created"
    return max(each.leader_log().log_start_offset for each in local.partitions.values())


async def test_requests_of_brokers_are_served_over_the_wire(tmp_path: Path) -> None:
    async with running_node(tmp_path) as running, connected(running.port) as client:
        await create_topic(client, "topic", partitions=2)
        topic_id = topic_id_of(running.node)
        keys = [SharePartitionKey(GROUP, topic_id, index) for index in range(2)]
        message = as_message([InitializeState(key, 1, 0) for key in keys])
        refused = results_of(await client.call(message, 0))
        assert {each.error_code for each in refused.values()} == {ErrorCode.NOT_COORDINATOR}, "there is no topic yet"
        for key in keys:  # the client waits until their coordinators are loaded
            await outcome(states_of(running.node).delete(*key))
        assert {each.error_code for each in results_of(await client.call(message, 0)).values()} == {0}
        written = Write(1, 0, UNINITIALIZED, 2, acknowledged(3, 4))
        mixed = [WriteState(keys[0], written), WriteState(keys[1]._replace(partition=2), written)]
        for version in (0, 1):
            results = results_of(await client.call(as_message(mixed), version))
            assert results[topic_id, 0].error_code == ErrorCode.NONE
            assert results[topic_id, 2].error_code == ErrorCode.INVALID_REQUEST
        read = results_of(await client.call(as_message([ReadState(key, 0) for key in keys]), 0))
        assert ReadState(keys[0], 0).value(read[topic_id, 0]) == PartitionState(1, 0, acknowledged(3, 4))
        assert ReadState(keys[1], 0).value(read[topic_id, 1]) == PartitionState(1, 0, ())
        named = as_message([ReadState(keys[0], 0)]).topics
        for group_id, topics in (("", named), (GROUP, []), (GROUP, [*named, ReadStateData(topic_id=topic_id)])):
            assert not (await client.call(ReadShareGroupStateRequest(group_id=group_id, topics=topics), 0)).results


async def test_writes_go_on_while_their_coordinator_moves(tmp_path: Path) -> None:
    """Two brokers write to share-partitions, and one is killed that coordinates some of them."""
    overrides = {"share.coordinator.state.topic.replication.factor": "3"}
    async with running_cluster(tmp_path, 3, overrides=overrides) as cluster:
        await create_replicated(cluster)
        topic_id = topic_id_of(cluster.nodes[1].node)
        groups = [f"group-{number}" for number in range(12)]
        begun = [states_of(cluster.nodes[1].node).initialize(group, topic_id, 0, 1, 0) for group in groups]
        for each in begun:
            await outcome(each)
        await cluster.until_images_match()
        assert len(coordinators(cluster)) == 3, "requests go to all nodes"
        under_way = trio.Event()
        async with trio.open_nursery() as nursery:
            for number, group in enumerate(groups):
                states = states_of(cluster.nodes[1 + number % 2].node)
                nursery.start_soon(write_all, states, group, topic_id, under_way)
            await under_way.wait()
            await cluster.nodes[3].crash()
        for number, group in enumerate(groups):
            state = await outcome(states_of(cluster.nodes[2 - number % 2].node).read(group, topic_id, 0, 1))
            assert state == PartitionState(1, 0, acknowledged(0, WRITES - 1)), group


WRITES = 40


async def write_all(states: ShareStateStore, group: str, topic_id: bytes, under_way: trio.Event) -> None:
    for offset in range(WRITES):
        if offset == WRITES // 4:
            under_way.set()
        await outcome(states.write(group, topic_id, 0, 1, 0, UNINITIALIZED, 0, acknowledged(offset, offset)))


def coordinators(cluster: RunningCluster) -> set[int]:
    """The leaders of the partitions of `__share_group_state`."""
    node = cluster.nodes[1].node
    assert node is not None, "it runs"
    assert node.loader is not None, "it serves"
    return {each.leader for each in node.loader.image.topics.by_name[SHARE_GROUP_STATE].partitions.values()}
