"""Faults, requests and events of a test cluster through its Python face."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from jepsen.testing import Cluster, ControlError
from jepsen.testing.fixture_clusters import Kafka
from jepsen.testing.server_lease import ServerLease
from tests.support.document_examples import examples, run_example

pytestmark = pytest.mark.clients

DOCUMENT = "docs/testing-faults.md"
WITHIN_S = 60
RETRIES = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(3, config={"replica.lag.time.max.ms": 1000}, server=server) as cluster:
        yield cluster


def producer(cluster: Cluster, **settings: object) -> Producer:
    return Producer({**cluster.config(), **RETRIES, **settings})


def test_producer_meets_an_error_once_in_a_cluster(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    with cluster.fault(api="Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=1) as fault:
        client = producer(cluster, **{"client.id": "shop"})
        client.produce(topic, b"a")
        assert client.flush(WITHIN_S) == 0
        assert fault.fired == 1
        [firing] = fault.firings
        assert firing["client_id"] == "shop"
        assert firing["subjects"] == [{"topic": topic, "partition": 0}]
    assert fault.fired == 1
    refused, written = cluster.requests(api="Produce", topic=topic)
    assert [error["error"] for error in refused["errors"]] == ["NOT_LEADER_OR_FOLLOWER"]
    assert refused["fault"] == fault.id
    assert (written["errors"], written["outcome"]) == ([], "answered")
    assert [record.value for record in cluster.records(topic)] == [b"a"]
    events = [event["event"] for event in cluster.events() if event["fields"].get("fault") == fault.id]
    assert events == ["fault_began", "fault_ended"]


def test_documented_example_prints_its_output(cluster: Cluster) -> None:
    [(_, code, shown)] = examples(DOCUMENT)
    assert run_example(code, DOCUMENT, {"cluster": cluster}) == shown


def test_held_request_is_released(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    client = producer(cluster)
    with cluster.fault(api="Produce", topic=topic, hold=True, times=1) as held:
        client.produce(topic, b"a")
        client.poll(0)
        held.wait()
        assert held.held == 1
        assert cluster.records(topic) == []
        held.release()
        assert client.flush(WITHIN_S) == 0
        assert (held.held, held.fired) == (0, 1)


def test_fault_that_ends_while_its_node_is_paused_releases_its_requests(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        topic = cluster.topic("orders")
        client = producer(cluster)
        held = cluster.fault(api="Produce", topic=topic, hold=True)
        client.produce(topic, b"a")
        client.poll(0)
        held.wait()
        cluster.pause(node=1)
        held.end()
        cluster.resume(node=1)
        assert client.flush(WITHIN_S) == 0


def test_fault_that_is_used_up_while_a_node_is_paused_does_not_fire_there(cluster: Cluster) -> None:
    addresses = {node["id"]: node["address"] for node in cluster.nodes}
    with cluster.fault(api="Metadata", client_id="late", delay_ms=1, times=1) as fault:
        cluster.pause(node=2)
        for node_id in (1, 2):
            if node_id == 2:
                cluster.resume(node=2)
            AdminClient({"bootstrap.servers": addresses[node_id], "client.id": "late"}).list_topics(timeout=WITHIN_S)
            fault.wait()
        assert {request["node"] for request in cluster.requests(api="Metadata", client_id="late")} >= {1, 2}
        assert fault.fired == 1


def test_fault_begins_while_a_node_is_killed(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster, ThreadPoolExecutor(1) as threads:
        os.kill(cluster.nodes[0]["pid"], signal.SIGSTOP)  # it does not answer, and the supervisor does not know why
        beginning = threads.submit(cluster.fault, api="Produce", topic="orders", hold=True)
        while "fault_began" not in {event["event"] for event in cluster.events()}:
            time.sleep(0.01)
        cluster.kill(node=1)
        beginning.result().end()


def test_fault_is_in_force_on_a_node_that_starts_later(cluster: Cluster) -> None:
    topic = cluster.topic("orders", replicas=1)
    with cluster.fault(api="Produce", topic=topic, delay_ms=1) as fault:
        cluster.restart(leader_of=(topic, 0))
        cluster.wait_for(leader=(topic, 0))
        client = producer(cluster)
        client.produce(topic, b"a")
        assert client.flush(WITHIN_S) == 0
        fault.wait()


def test_bad_words_are_refused_with_their_reason(cluster: Cluster) -> None:
    for words, reason in (
        ({"api": "Prodce", "hold": True}, "no API is named 'Prodce'"),
        ({"api": "Produce", "probability": 2, "hold": True}, "probability is between 0 and 1"),
        ({"api": "Produce", "node": 9, "hold": True}, "no node 9; there are 1, 2, 3"),
    ):
        with pytest.raises(ControlError) as refused:
            cluster.fault(**words)
        assert reason in str(refused.value)
    with (
        cluster.fault(api="Produce", topic="absent", hold=True) as fault,
        pytest.raises(ControlError, match=r"\(api='Produce', topic='absent', hold=True\): held=0, not 1, after 0.01 s"),
    ):
        fault.wait(timeout=0.01)
    with pytest.raises(ControlError, match="no request is selected by 'error'"):
        cluster.requests(error="NONE")
    with pytest.raises(ControlError, match="has no other replica in its ISR"):
        cluster.move_leader(cluster.topic("single", replicas=1))


def test_leader_and_coordinator_move_and_a_topic_is_made_again(cluster: Cluster) -> None:
    topic, group = cluster.topic("orders"), cluster.group()
    first = cluster.move_leader(topic)
    assert cluster.move_leader(topic) != first
    moved = cluster.move_coordinator(group=group)
    assert cluster.move_coordinator(group=group, to=moved) == moved
    client = producer(cluster)
    client.produce(topic, b"a")
    assert client.flush(WITHIN_S) == 0
    assert cluster.advance_log_start(topic) == 1
    cluster.recreate_topic(topic)
    assert cluster.records(topic) == []


def test_follower_that_may_not_fetch_leaves_the_isr_until_the_end(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    admin = AdminClient(cluster.config())

    def isr() -> list[int]:
        return list(admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions[0].isrs)

    leader = cluster.move_leader(topic)
    follower = next(node for node in isr() if node != leader)
    client = producer(cluster, acks=1)
    deadline = time.monotonic() + WITHIN_S
    with cluster.shrink_isr(topic, node=follower) as fault:
        while follower in isr():
            assert time.monotonic() < deadline, "the follower is still in sync"
            client.produce(topic, b"a")
            assert client.flush(WITHIN_S) == 0
            time.sleep(0.05)
        assert {firing["client_id"] for firing in fault.firings} == {f"broker-{follower}-fetcher"}
    cluster.wait_for(in_sync=topic)


def test_transaction_expires_and_its_producer_is_fenced(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    client = producer(cluster, **{"transactional.id": topic})
    client.init_transactions(WITHIN_S)
    client.begin_transaction()
    client.produce(topic, b"a")
    assert client.flush(WITHIN_S) == 0
    cluster.expire_transaction(topic)
    with pytest.raises(KafkaException):
        client.commit_transaction(WITHIN_S)
    assert cluster.records(topic) == []
    [expired] = [event for event in cluster.events() if event["event"] == "transaction_timed_out"]
    assert expired["fields"]["transactional_id"] == topic
    with pytest.raises(ControlError, match="has no open transaction"):
        cluster.expire_transaction(topic)


def test_fault_of_the_shared_node_concerns_one_test_and_ends_with_it(cluster: Cluster) -> None:
    kafka = Kafka(cluster)
    topic = kafka.topic()
    with pytest.raises(ValueError, match="has to name one of client_id, group, topic, transactional_id"):
        kafka.fault(api="Produce", hold=True)
    fault = kafka.fault(api="Produce", topic=topic, delay_ms=1)
    kafka.produce(topic, ["a"])
    assert fault.fired == 0  # the test server's own request
    client = producer(cluster)
    client.produce(topic, b"b")
    assert client.flush(WITHIN_S) == 0
    assert fault.fired == 1
    assert [served["fault"] for served in kafka.requests(api="Produce", topic=topic)] == [fault.id]
    kafka.close()
    with pytest.raises(ControlError, match="has ended, with fired=1"):
        fault.wait(2)


def test_rebalance_starts_and_offsets_expire(cluster: Cluster) -> None:
    topic, group = cluster.topic("orders", partitions=2), cluster.group()
    rebalances: list[int] = []
    consumer = Consumer(
        {**cluster.config(), "group.id": group, "enable.auto.commit": False, "heartbeat.interval.ms": 100}
    )
    consumer.subscribe([topic], on_assign=lambda _, partitions: rebalances.append(len(partitions)))
    with ThreadPoolExecutor(1) as thread:
        _poll_until(consumer, lambda: len(rebalances) == 1)
        started = thread.submit(cluster.start_rebalance, group)
        _poll_until(consumer, lambda: started.done() and len(rebalances) >= 3)
        started.result()
    assert (rebalances[0], rebalances[-1]) == (2, 2)
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    with pytest.raises(ControlError, match="subscribe to the topic"):
        cluster.expire_offsets(group)
    consumer.close()
    assert cluster.expire_offsets(group, topic) == [(topic, 0)]


def test_rebalance_of_a_group_that_does_not_poll_is_refused_in_time(cluster: Cluster) -> None:
    topic, group = cluster.topic("orders"), cluster.group()
    assigned: list[int] = []
    consumer = Consumer({**cluster.config(), "group.id": group, "heartbeat.interval.ms": 100})
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    _poll_until(consumer, lambda: bool(assigned))
    with pytest.raises(ControlError, match=r"has not rebalanced after 0.5 s: its members have to poll meanwhile"):
        cluster.start_rebalance(group, timeout=0.5)
    consumer.close()


def _poll_until(consumer: Consumer, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, "the rebalances have not ended"
        consumer.poll(0.05)
