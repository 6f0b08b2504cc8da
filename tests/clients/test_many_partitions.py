"""Thousands of partitions created by one request: complete, unchanged after a restart, and cheap while idle."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from tests.support.confluent_driver import new_consumer
from tests.support.linux import reads_proc
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 10


def described(bootstrap: str) -> dict[str, dict[str, Any]]:
    """The Metadata of every topic, with partitions by index."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        topics = admin.describe_topics()
    finally:
        admin.close()
    for topic in topics:
        topic["partitions"] = {partition["partition_index"]: partition for partition in topic["partitions"]}
    return {topic["name"]: topic for topic in topics}


def what_stays(topics: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The state that a restart must not change. Leader epochs may increase, because leaders are elected again."""
    return {
        name: (
            topic["error_code"],
            topic["topic_id"],
            topic["is_internal"],
            {
                index: (partition["leader_id"], partition["replica_nodes"], partition["isr_nodes"])
                for index, partition in topic["partitions"].items()
            },
        )
        for name, topic in topics.items()
    }


@reads_proc
def test_metadata_of_many_partitions_outlives_a_restart(
    new_node: Callable[..., NodeProcess], full: bool, figure: Callable[[str], None]
) -> None:
    names = [f"many-{number:04}" for number in range(1_000 if full else 100)]
    node = new_node()
    node.start()
    began = time.monotonic()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    futures = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names], request_timeout=120)
    for future in futures.values():
        future.result(120)
    created_s = time.monotonic() - began
    before = described(node.bootstrap)
    assert sorted(before) == names
    for topic in before.values():
        assert topic["error_code"] == 0
        assert sorted(topic["partitions"]) == list(range(PARTITIONS))
        for partition in topic["partitions"].values():
            assert partition["error_code"] == 0
            assert partition["replica_nodes"] == partition["isr_nodes"] == [partition["leader_id"]]
    assert len({topic["topic_id"] for topic in before.values()}) == len(names)

    write_one_to_each(node.bootstrap, names)
    node.stop()
    start_s = node.start()
    began = time.monotonic()
    after = described(node.bootstrap)
    answered_s = time.monotonic() - began
    assert what_stays(after) == what_stays(before)
    assert_one_in_each(node.bootstrap, names[-10:])

    idle_s = 5.0 if full else 1.0
    cpu_s = node.cpu_seconds()
    time.sleep(idle_s)
    idle = (node.cpu_seconds() - cpu_s) / idle_s
    figure(
        f"{len(names) * PARTITIONS} partitions: created in {created_s:.2f} s; start-up {start_s:.2f} s, "
        f"Metadata {answered_s:.2f} s later; idle CPU {idle:.1%}, {node.resident_bytes() / 1e6:.0f} MB, "
        f"{node.open_files()} files"
    )
    node.stop()


def write_one_to_each(bootstrap: str, names: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names:
        producer.produce(name, name.encode(), partition=PARTITIONS - 1)
    assert producer.flush(120) == 0


def assert_one_in_each(bootstrap: str, names: list[str]) -> None:
    consumer = new_consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(name, PARTITIONS - 1, 0) for name in names])
        messages = [consumer.poll(30) for _ in names]
        assert sorted(message.value() or b"" for message in messages if message is not None) == [
            name.encode() for name in names
        ]
    finally:
        consumer.close()
