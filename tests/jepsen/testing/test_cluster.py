"""A test cluster through its Python face, with confluent-kafka as the application under test."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from broker.client import SyncProducer
from jepsen.testing import Cluster, ControlError
from jepsen.testing.server_lease import ServerLease
from tests.support.linux import process_exists

pytestmark = pytest.mark.clients

FLUSH_S = 60


def produce(cluster: Cluster, topic: str, values: list[str]) -> None:
    """Write records with acks=all, and wait for all acknowledgements."""
    producer = Producer({**cluster.config(), "acks": "all"})
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(FLUSH_S) == 0
    assert not failed


def consume(cluster: Cluster, topic: str, count: int) -> list[str]:
    """The values of the first records of a topic, as a new group reads them."""
    consumer = Consumer({**cluster.config(), "group.id": cluster.group(), "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        values: list[str] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), timeout=FLUSH_S)
            assert messages, f"only {len(values)} records within {FLUSH_S} s"
            for message in messages:
                assert message.error() is None, message.error()
                values.append(str((message.value() or b"").decode()))
        return values
    finally:
        consumer.close()


@pytest.fixture
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(3, server=server) as cluster:
        yield cluster


def states(cluster: Cluster) -> dict[int, str]:
    return {node["id"]: node["state"] for node in cluster.nodes}


def test_single_node_carries_records_and_leaves_no_process_and_no_directory(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic("orders", partitions=2)
        produce(cluster, topic, ["one", "two", "three"])
        assert sorted(consume(cluster, topic, 3)) == ["one", "three", "two"]
        [node] = cluster.nodes
    assert not process_exists(node["pid"])
    assert not Path(node["log"]).parent.exists()


def test_acknowledged_records_survive_the_kill_of_their_leader(cluster: Cluster) -> None:
    topic = cluster.topic("orders", replicas=3)
    produce(cluster, topic, ["before"])
    [killed] = cluster.kill(leader_of=(topic, 0))
    assert states(cluster)[killed] == "down"
    cluster.wait_for(leader=(topic, 0))
    produce(cluster, topic, ["after"])
    assert consume(cluster, topic, 2) == ["before", "after"]
    assert cluster.start() == [killed]
    cluster.wait_for(in_sync=(topic, 0))
    assert set(states(cluster).values()) == {"serving"}


def test_roles_name_the_nodes_that_hold_them_now(cluster: Cluster) -> None:
    group = cluster.group()
    [coordinator] = cluster.kill(coordinator_of=group)
    cluster.start()
    [controller] = cluster.kill(controller=True)
    [next_controller] = cluster.restart(controller=True)
    assert next_controller != controller
    causes = [each["fields"]["cause"] for each in cluster.events() if each["event"] == "node_kill"]
    assert causes == [f"coordinator of group {group}", "active controller"]
    assert coordinator in (1, 2, 3)


def test_paused_leader_is_replaced_and_follows_when_it_is_resumed(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    [paused] = cluster.pause(leader_of=(topic, 0))
    cluster.wait_for(leader=(topic, 0))
    produce(cluster, topic, ["one"])
    assert cluster.resume() == [paused]
    cluster.wait_for(in_sync=topic)
    elections = [each for each in cluster.events() if each["event"] == "partition_changed"]
    assert any(each["fields"]["leader"] not in (None, paused) for each in elections)


def test_stopped_nodes_start_again_with_their_records(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic()
        produce(cluster, topic, ["kept"])
        assert cluster.stop() == [1]
        assert states(cluster) == {1: "down"}
        cluster.start()
        assert consume(cluster, topic, 1) == ["kept"]


def test_delayed_action_happens_later(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        assert cluster.kill(node=1, delay=0.05) == []
        deadline = time.monotonic() + FLUSH_S
        while states(cluster) != {1: "down"}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(ControlError, match=r"orders-0 has no leader that serves, after 0\.01 s"):
            cluster.wait_for(leader=("orders", 0), timeout=0.01)


def test_mistakes_in_actions_are_named(server: ServerLease) -> None:
    mistakes: list[tuple[dict[str, object], str]] = [
        ({}, "kill takes one of node, leader_of, coordinator_of, controller"),
        ({"node": 1, "controller": True}, "node and controller: a node is named by one of"),
        ({"node": 7}, "no node 7; there are 1"),
        ({"node": "1"}, "node has to be an integer, not '1'"),
        ({"leader_of": "orders"}, "leader_of has to be a topic and a partition"),
        ({"node": 1, "dealy": 3}, "unknown: dealy; the nearest name is delay"),
        ({"leader_of": ("ordres", 0)}, "no topic is named ordres; the nearest name is orders-"),
        ({"leader_of": ("__unlike__", 0)}, "no topic is named __unlike__$"),
    ]
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic("orders")
        mistakes.append(({"leader_of": (topic, 3)}, f"{topic} has no partition 3; its partitions: 1"))
        began = time.monotonic()
        for arguments, message in mistakes:
            with pytest.raises(ControlError, match=message):
                cluster.kill(**arguments)
        assert time.monotonic() - began < 15
        with pytest.raises(TypeError, match=r"kill takes the id of a node, or a role such as leader_of=\(topic, 0\)"):
            cluster.kill("1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"as in partition\(\[1\], \[2, 3\]\), not '1'"):
            cluster.partition("1")


def test_nodes_are_named_by_their_ids_alone(server: ServerLease) -> None:
    with Cluster(3, server=server) as cluster:
        with cluster.partition(1, [2, 3]), cluster.partition({"controller": True}), cluster.isolate(2):
            pass
        assert cluster.kill(1) == [1]
        assert states(cluster) == {1: "down", 2: "serving", 3: "serving"}
        assert cluster.start(1) == [1]


def test_node_that_was_suspended_from_outside_is_not_waited_for_without_end(
    server: ServerLease,
) -> None:
    with Cluster(1, server=server) as cluster:
        os.kill(cluster.nodes[0]["pid"], signal.SIGSTOP)
        with pytest.raises(ControlError, match=r"node 1 has not answered within 5 s; it may be suspended \(SIGSTOP\)"):
            cluster.stop(1)
        assert cluster.kill(1) == [1]
        assert cluster.start(1) == [1]


def test_wait_for_an_absent_topic_or_partition_names_it(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic("orders")
        absent: list[tuple[dict[str, Any], str]] = [
            ({"leader": ("ordres", 0)}, f"no topic is named ordres; the nearest name is {topic}, after 0.1 s"),
            ({"in_sync": "absent"}, "no topic is named absent, after 0.1 s"),
            ({"leader": (topic, 7)}, f"{topic} has no partition 7; its partitions: 1, after 0.1 s"),
            ({"in_sync": (topic, 7)}, f"{topic} has no partition 7; its partitions: 1, after 0.1 s"),
        ]
        for words, message in absent:
            with pytest.raises(ControlError, match=message):
                cluster.wait_for(**words, timeout=0.1)


def test_mistakes_in_records_and_names_of_clients_are_named(server: ServerLease) -> None:
    values: list[tuple[Any, str]] = [("one", "a list of records, not 'one'"), ([1], "text, bytes or None, not 1")]
    client: Any = "confluent"
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic()
        for wrong, message in values:
            with pytest.raises(TypeError, match=message):
                cluster.produce(topic, wrong)
        assert cluster.records(topic) == []
        with pytest.raises(ValueError, match="no client is named 'confluent'; there are confluent-kafka, kafka-python"):
            cluster.config(client)


def test_action_that_does_not_apply_is_refused(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        with pytest.raises(ControlError, match="node 1 runs already"):
            cluster.start(node=1)
        with pytest.raises(ControlError, match="node 1 is not paused"):
            cluster.resume(node=1)
        cluster.kill(node=1)
        with pytest.raises(ControlError, match="kill: node 1 does not run, it is down"):
            cluster.kill(node=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes has to be from 1 to 100"),
        ({"security": "none"}, "security is none of plaintext, ssl"),
        ({"config": {"num.partitions": "many"}}, "num.partitions"),
    ],
)
def test_cluster_that_cannot_be_made_is_refused_with_the_reason(
    server: ServerLease, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ControlError, match=message):
        Cluster(**{"nodes": 1, **options}, server=server)  # type: ignore[arg-type]


@pytest.mark.parametrize("security", ["mtls", "sasl_ssl"])
def test_each_client_connects_to_a_secured_cluster_with_its_configuration(server: ServerLease, security: str) -> None:
    with Cluster(1, security=security, server=server) as cluster:
        topic = cluster.topic()
        produce(cluster, topic, ["confluent-kafka"])
        other = KafkaProducer(**cluster.config("kafka-python"))
        other.send(topic, b"kafka-python").get(FLUSH_S)
        other.close()

        async def send() -> None:
            async with AIOKafkaProducer(**cluster.config("aiokafka")) as producer:
                await producer.send_and_wait(topic, b"aiokafka")

        asyncio.run(send())
        with SyncProducer(config=cluster.config("kraft")) as kraft:
            kraft.send(topic, b"kraft")
        values = [record.value for record in cluster.records(topic)]
        assert values == [b"confluent-kafka", b"kafka-python", b"aiokafka", b"kraft"]
        assert cluster.config("java")["security.protocol"] == ("SSL" if security == "mtls" else "SASL_SSL")


def test_cluster_that_has_ended_leaves_no_task_in_the_supervisor() -> None:
    server = ServerLease.start()
    try:
        before = server.client.request("GET", "/")["tasks"]
        for _ in range(2):
            with Cluster(1, server=server) as cluster:
                cluster.topic("orders")
                cluster.kill(node=1, delay=1000)
        deadline = time.monotonic() + FLUSH_S
        while server.client.request("GET", "/")["tasks"] != before:
            assert time.monotonic() < deadline, server.client.request("GET", "/")
            time.sleep(0.01)
    finally:
        server.release()
