"""Events of a cluster, as clients see them."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer

from broker.client import Admin, NewTopic, TopicPartition
from jepsen.testing import kafka_events
from jepsen.testing.kafka_events import EventRefused
from tests.support.running_cluster import running_cluster
from tests.support.running_node import running_node

WITHIN_S = 60.0


@asynccontextmanager
async def one_node(directory: Path) -> AsyncIterator[tuple[Admin, str]]:
    async with running_node(directory, group_initial_rebalance_delay_ms=0) as node:
        bootstrap = f"127.0.0.1:{node.port}"
        async with Admin(bootstrap_servers=bootstrap) as admin:
            yield admin, bootstrap


async def created(admin: Admin, topic: str, partitions: int = 1, replicas: int = 1, **configs: str) -> str:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    (await admin.create_topics([NewTopic(topic, partitions, replicas, configs=named)])).raise_first()
    return topic


async def test_leader_moves_to_another_replica_and_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        bootstrap = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values())
        async with Admin(bootstrap_servers=bootstrap) as admin:
            partition = TopicPartition(await created(admin, "orders", replicas=3), 0)
            await cluster.until_images_match()
            first = (await admin.describe_topics(["orders"])).value("orders").partitions[0].leader
            with trio.fail_after(WITHIN_S):
                second = await kafka_events.move_leader(admin, partition)
                assert second != first
                assert await kafka_events.move_leader(admin, partition, first) == first
            with pytest.raises(EventRefused, match="no replica on node 9 in its ISR"):
                await kafka_events.move_leader(admin, partition, 9)
            with pytest.raises(EventRefused, match="topic orders has 1 partitions"):
                await kafka_events.move_leader(admin, TopicPartition("orders", 1))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_rebalance_revokes_and_assigns_partitions_of_a_member(tmp_path: Path, protocol: str) -> None:
    rebalances: list[str] = []

    def poll(bootstrap: str, assigned: trio.Event, ended: trio.Event, token: trio.lowlevel.TrioToken) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "group.protocol": protocol}
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = "100"  # at which it notices a rebalance
        consumer = Consumer(settings)
        try:
            consumer.subscribe(
                ["orders"],
                on_assign=lambda _, partitions: (rebalances.append("+"), token.run_sync_soon(assigned.set)),
                on_revoke=lambda _, partitions: rebalances.append("-"),
            )
            deadline = time.monotonic() + WITHIN_S
            while (rebalances.count("+") < 2 or not ended.is_set()) and time.monotonic() < deadline:
                consumer.poll(0.05)
        finally:
            consumer.close()

    async with one_node(tmp_path) as (admin, bootstrap):
        await created(admin, "orders", 2)
        assigned, ended, token = trio.Event(), trio.Event(), trio.lowlevel.current_trio_token()
        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, poll, bootstrap, assigned, ended, token)
                await assigned.wait()
                await kafka_events.start_rebalance(admin, "readers", {"bootstrap.servers": bootstrap})
                ended.set()
        with pytest.raises(EventRefused, match="no member has a partition"):
            await kafka_events.start_rebalance(admin, "readers", {"bootstrap.servers": bootstrap})
    assert "-" in rebalances
    assert rebalances.count("+") >= 2


async def test_fenced_producer_cannot_commit(tmp_path: Path) -> None:
    def produce(producer: Producer) -> None:
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        producer.produce("orders", b"a")
        producer.flush(WITHIN_S)

    async with one_node(tmp_path) as (admin, bootstrap):
        await created(admin, "orders")
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop"})
        await trio.to_thread.run_sync(produce, producer)
        assert await kafka_events.fence_producer(admin, "shop") > 0
        with pytest.raises(KafkaException) as fenced:
            await trio.to_thread.run_sync(producer.commit_transaction, WITHIN_S)
        assert fenced.value.args[0].fatal()


async def test_expired_offsets_are_gone(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (admin, _):
        for topic in ("orders", "bills"):
            await created(admin, topic)
        partitions = [TopicPartition(topic, 0) for topic in ("orders", "bills")]
        (await admin.alter_group_offsets("readers", dict.fromkeys(partitions, 7))).raise_first()
        assert await kafka_events.expire_offsets(admin, "readers", "orders") == partitions[:1]
        assert set((await admin.list_group_offsets({"readers": None})).value("readers")) == {partitions[1]}
        assert await kafka_events.expire_offsets(admin, "readers") == partitions[1:]


async def test_recreated_topic_has_another_id_and_the_same_configs(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (admin, _):
        await created(admin, "orders", 3, retention_ms="12345")
        before = (await admin.describe_topics(["orders"])).value("orders")
        topic_id = await kafka_events.recreate_topic(admin, "orders")
        assert topic_id != before.topic_id
        after = (await admin.describe_topics([topic_id])).value(topic_id)
        assert len(after.partitions) == 3
        resource = kafka_events.topic_resource("orders")
        assert (await admin.describe_configs([resource])).value(resource)["retention.ms"].value == "12345"


async def test_advanced_log_start_hides_earlier_records(tmp_path: Path) -> None:
    async with one_node(tmp_path) as (admin, bootstrap):
        partition = TopicPartition(await created(admin, "orders"), 0)
        producer = Producer({"bootstrap.servers": bootstrap})
        for value in (b"a", b"b", b"c"):
            producer.produce("orders", value)
        assert await trio.to_thread.run_sync(producer.flush, WITHIN_S) == 0
        assert await kafka_events.advance_log_start(admin, partition, 2) == 2
        assert await kafka_events.advance_log_start(admin, partition, -1) == 3
