"""Waits for records and for committed offsets, the fixture's events, and calls to a cluster whose nodes do not run."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jepsen.testing import Cluster, ControlError
from jepsen.testing.fixture_clusters import Kafka
from jepsen.testing.server_lease import ServerLease

pytestmark = pytest.mark.clients

WITHIN_S = 60


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(1, server=server) as cluster:
        yield cluster


def test_wait_for_records_counts_committed_ones_of_all_partitions(cluster: Cluster) -> None:
    topic = cluster.topic("orders", partitions=2)
    producer = Producer({**cluster.config(), "transactional.id": topic})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, b"a", partition=partition)
    assert producer.flush(WITHIN_S) == 0
    with pytest.raises(ControlError, match=f"{topic} has 0 committed records, not 2, after 0.2 s"):
        cluster.wait_for(records=(topic, 2), timeout=0.2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(cluster.wait_for, records=(topic, 2))
        producer.commit_transaction(WITHIN_S)
        waiting.result(WITHIN_S)


def test_wait_for_committed_offsets(cluster: Cluster) -> None:
    topic, group = cluster.topic("orders"), cluster.group()
    with pytest.raises(ControlError, match=f"group {group} has committed nothing of {topic}-0, not 7"):
        cluster.wait_for(committed=(group, topic, 0, 7), timeout=0.1)
    consumer = Consumer({**cluster.config(), "group.id": group})
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(cluster.wait_for, committed=(group, topic, 0, 7))
        consumer.commit(offsets=[TopicPartition(topic, 0, 8)], asynchronous=False)
        waiting.result(WITHIN_S)
    consumer.close()


@pytest.mark.parametrize("wanted", [["orders"], ["orders", True], ["orders", -1], "orders"])
def test_wait_with_another_shape_is_refused(server: ServerLease, cluster: Cluster, wanted: object) -> None:
    with pytest.raises(ControlError, match="records has to be a topic and a number of records"):
        server.client.request("POST", f"/clusters/{cluster.name}/waits", {"records": wanted})


def test_fixture_causes_events_for_its_own_topics_and_groups(cluster: Cluster) -> None:
    kafka = Kafka(cluster)
    topic, group = kafka.topic("orders"), kafka.group()
    producer = Producer({**kafka.config(), "transactional.id": topic})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    assert producer.flush(WITHIN_S) == 0
    assert kafka.fence_producer(topic) > 0
    with pytest.raises(KafkaException):
        producer.commit_transaction(WITHIN_S)
    consumer = Consumer({**kafka.config(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    assert kafka.expire_offsets(group) == [(topic, 0)]
    kafka.produce(topic, ["b"])
    kafka.wait_for(records=(topic, 1))
    assert kafka.advance_log_start(topic) > 0
    kafka.recreate_topic(topic)
    assert kafka.records(topic) == []
    for call in (lambda: kafka.recreate_topic("other"), lambda: kafka.advance_log_start("other")):
        with pytest.raises(ValueError, match="'other' is no topic of this test"):
            call()
    with pytest.raises(ValueError, match="'other' is no group of this test"):
        kafka.expire_offsets("other")
    kafka.close()


def test_calls_to_a_cluster_without_a_running_node_are_refused_at_once(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic()
        cluster.kill(node=1)
        began = time.monotonic()
        for call in (
            cluster.topic,
            lambda: cluster.produce(topic, ["a"]),
            lambda: cluster.records(topic),
            lambda: cluster.wait_for(records=(topic, 1)),
            lambda: cluster.wait_for(committed=("group", topic, 0, 1)),
            lambda: cluster.move_leader(topic),
        ):
            with pytest.raises(ControlError, match="no node of the cluster runs"):
                call()
        assert time.monotonic() - began < 10
        cluster.start()
        cluster.pause(node=1)
        with pytest.raises(ControlError, match=r"is not created after 0.3 s: node 1 is paused"):
            cluster.topic(timeout=0.3)
