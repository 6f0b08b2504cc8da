"""Consumers in groups as an application sees them: subscriptions, commits, auto commit, rebalances."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import ClientError, ConfigError, Consumer, NoOffsetForPartition
from broker.client.consumer.group import RebalanceListener
from broker.client.types import OffsetAndMetadata, TopicPartition
from tests.support.requests import create_topic, produce
from tests.support.topics_for_consumers import (
    ONE,
    WITHIN_S,
    ZERO,
    fetch_exactly,
    fill_node,
    node_with_topic,
    numbered,
    values,
)
from tests.support.wire_client import connected

FAST = {
    "group_id": "group",
    "topics": ["topic"],
    "auto_offset_reset": "earliest",
    "retry_backoff_ms": 10,
    "fetch_max_wait_ms": 50,
    "heartbeat_interval_ms": 50,
}
PROTOCOLS = ["classic", "consumer"]


@asynccontextmanager
async def member(port: int, **settings: Any) -> AsyncIterator[Consumer]:
    async with Consumer(f"127.0.0.1:{port}", **{**FAST, **settings}) as consumer:
        yield consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_reads_on_where_its_last_member_has_committed(tmp_path: Path, protocol: str) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        async with member(node.port, group_protocol=protocol, enable_auto_commit=False) as consumer:
            assert values(await fetch_exactly(consumer, 40)) == list(range(40))
            await consumer.commit()
            assert await consumer.committed([ZERO]) == {ZERO: OffsetAndMetadata(40, 0)}
            await fetch_exactly(consumer, 10)
        async with member(node.port, group_protocol=protocol) as consumer:
            assert values(await fetch_exactly(consumer, 60)) == list(range(40, 100))
            assert consumer.assignment() == {ZERO, ONE}


async def test_closing_commits_iterated_records_but_not_the_one_that_failed(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 20)
        with trio.fail_after(WITHIN_S):
            async with member(node.port) as consumer:
                async for record in consumer:
                    if record.offset == 6:
                        break
            with pytest.raises(LookupError):  # noqa: PT012 - the block is what is tested
                async with member(node.port) as consumer:
                    async for record in consumer:
                        if record.offset == 12:
                            raise LookupError
            async with member(node.port) as consumer:
                assert values(await fetch_exactly(consumer, 1)) == [12]


async def test_auto_commit_goes_on_while_one_run_of_records_is_iterated(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        settings = {"auto_commit_interval_ms": 10, "max_poll_interval_ms": 60}
        async with member(node.port, **settings) as consumer, member(node.port, topics=()) as observer:
            with trio.fail_after(WITHIN_S):
                async for record in consumer:
                    await trio.sleep(0.01)
                    committed = (await observer.committed([ZERO]))[ZERO]
                    if committed is not None and committed.offset > 10:
                        break
                    assert committed is None or committed.offset <= record.offset
            assert consumer.assignment() == {ZERO, ONE}


async def test_auto_commit_goes_on_while_there_is_nothing_to_read(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 10)
        settings = {"auto_commit_interval_ms": 20, "max_poll_interval_ms": 300}
        async with member(node.port, **settings) as consumer, member(node.port, topics=()) as observer:
            await fetch_exactly(consumer, 10)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.fetch)
                with trio.fail_after(WITHIN_S):
                    while (await observer.committed([ZERO]))[ZERO] != OffsetAndMetadata(10, 0):
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()


class Recorded(RebalanceListener):
    def __init__(self, consumer: "list[Consumer]") -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self._consumer = consumer

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", list(partitions)))
        for partition in partitions:
            self._consumer[0].seek(partition, 3)
            assert await self._consumer[0].position(partition) == 3

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", list(partitions)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_listener_may_seek_in_assigned_partitions(tmp_path: Path, protocol: str) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 5)
        holder: list[Consumer] = []
        listener = Recorded(holder)
        async with member(node.port, topics=(), group_protocol=protocol) as consumer:
            holder.append(consumer)
            consumer.subscribe(["topic"], listener=listener)
            assert values(await fetch_exactly(consumer, 2)) == [3, 4]
        assert ("assigned", [ZERO, ONE]) in listener.calls
        assert listener.calls[-1] == ("revoked", [ZERO, ONE])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_member_that_polls_too_late_returns_no_record_of_lost_partitions_kip_447(
    tmp_path: Path, protocol: str
) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        settings = {"group_protocol": protocol, "enable_auto_commit": False}
        async with member(node.port, **settings, max_poll_interval_ms=300) as slow:
            await fetch_exactly(slow, 1)
            place = slow.group_metadata()
            async with member(node.port, **settings) as other:
                await fetch_exactly(other, 100)
                await other.commit()
                # The coordinator refuses offsets from its former place, and accepts them from no place at all.
                assert slow.group_metadata() == place
                assert place.generation_id >= 0
                assert await slow.fetch(timeout_s=0) == []
                assert slow.group_metadata() == place
                assert slow.assignment() == frozenset()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_members_share_the_partitions_and_return_no_record_twice(tmp_path: Path, protocol: str) -> None:
    async with node_with_topic(tmp_path) as node:
        for index in (0, 1):
            await fill_node(node.port, 300, index=index)
        found: list[tuple[int, int]] = []
        assignments: list[set[TopicPartition]] = [set(), set()]

        async def read(number: int) -> None:
            async with member(node.port, group_protocol=protocol, max_poll_records=20) as consumer:
                async for record in consumer:
                    found.append((record.partition, record.offset))
                    assignments[number] = consumer.assignment()
                    await trio.sleep(0.002)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, 0)
            with trio.fail_after(WITHIN_S):
                while len(found) < 50:
                    await trio.sleep(0.005)
                nursery.start_soon(read, 1)
                while len(found) < 600:
                    await trio.sleep(0.005)
            nursery.cancel_scope.cancel()
        assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(300)]


async def test_a_pattern_reads_the_topics_that_it_matches(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        await create_topic(client, "other")
        for pattern in (re.compile("t.p.c"), "t.p.c"):
            await produce(client, numbered(0, 3))
            settings = {"topics": (), "pattern": pattern, "group_id": f"group-{type(pattern).__name__}"}
            async with member(node.port, **settings) as consumer:
                await fetch_exactly(consumer, 3)
                assert consumer.assignment() == {ZERO, ONE}


async def test_unsubscribing_leaves_and_another_subscription_may_follow(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 10)
        async with member(node.port) as consumer:
            await fetch_exactly(consumer, 4)
            await consumer.unsubscribe()
            assert consumer.assignment() == set()
            with pytest.raises(ClientError, match=r"nothing to read"):
                await consumer.fetch()
            consumer.assign([ZERO])
            assert values(await fetch_exactly(consumer, 2)) == [4, 5]
            await consumer.unsubscribe()
            consumer.subscribe(["topic"])
            assert (await fetch_exactly(consumer, 1))[0].offset == 4


async def test_the_policy_none_asks_for_a_committed_offset(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, member(node.port, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartition), trio.fail_after(WITHIN_S):
            await consumer.fetch()


async def test_commits_in_the_background_tell_how_they_went(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, member(node.port, topics=()) as consumer:
        told: list[object] = []
        consumer.commit_soon({ZERO: OffsetAndMetadata(5)}, lambda offsets, error: told.append((offsets, error)))
        await consumer.commit({ONE: OffsetAndMetadata(6, metadata="mine")})
        assert told == [({ZERO: OffsetAndMetadata(5)}, None)]
        assert await consumer.committed([ZERO, ONE]) == {
            ZERO: OffsetAndMetadata(5),
            ONE: OffsetAndMetadata(6, metadata="mine"),
        }


async def test_without_a_group_the_calls_say_that_they_need_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="group_id"):
        Consumer("localhost:9092", topics=["topic"])
    async with node_with_topic(tmp_path) as node, Consumer(f"127.0.0.1:{node.port}") as consumer:
        consumer.assign([ZERO])
        for call in (consumer.commit, lambda: consumer.committed([ZERO])):
            with pytest.raises(ClientError, match="group_id"):
                await call()
        for plain in (consumer.group_metadata, consumer.commit_soon, lambda: consumer.subscribe(["topic"])):
            with pytest.raises(ClientError, match="group_id"):
                plain()


async def test_a_cancelled_member_commits_and_leaves_so_that_others_read_on_at_once(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 20)
        with trio.CancelScope() as scope:
            async with member(node.port) as consumer:
                await fetch_exactly(consumer, 7)
                scope.cancel()
                await consumer.fetch()
        async with member(node.port) as consumer:
            assert values(await fetch_exactly(consumer, 1)) == [7]


async def test_a_cancelled_member_does_not_wait_long_for_a_cluster_that_is_gone(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 5)
        with trio.fail_after(WITHIN_S), trio.CancelScope() as scope:
            async with member(node.port) as consumer:
                await fetch_exactly(consumer, 5)
                node.crash()
                scope.cancel()
                await consumer.fetch()
