"""Rebalances and fenced producers in the timeline of a test cluster, with their causes."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from jepsen.testing import Cluster
from jepsen.testing.server_lease import ServerLease
from jepsen.testing.timeline import timeline

pytestmark = pytest.mark.clients

WITHIN_S = 60


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(1, server=server) as cluster:
        yield cluster


def events(cluster: Cluster, kind: str, **fields: object) -> list[dict[str, Any]]:
    """The fields of the events of a kind that have all these fields."""
    found = [event["fields"] for event in cluster.events() if event["event"] == kind]
    return [each for each in found if fields.items() <= each.items()]


def consumer(cluster: Cluster, topic: str, group: str, client_id: str, **settings: object) -> Consumer:
    made = Consumer({**cluster.config(), "group.id": group, "client.id": client_id, **settings})
    made.subscribe([topic])
    return made


def poll_until(holds: Callable[[], object], *consumers: Consumer) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, "the event is missing"
        for each in consumers:
            each.poll(0.02)
        time.sleep(0.01)  # nodes report events a moment after the answer


def test_generations_of_a_classic_group_have_their_causes(cluster: Cluster) -> None:
    topic, group = cluster.topic(partitions=2), cluster.group()
    settings = {"heartbeat.interval.ms": 100}

    def causes() -> list[str]:
        return [str(event["cause"]) for event in events(cluster, "group_rebalanced", group=group)]

    first = consumer(cluster, topic, group, "first", **settings)
    poll_until(lambda: causes() == ["first joined"], first)
    second = consumer(cluster, topic, group, "second", **settings)
    poll_until(lambda: causes()[-1] == "second joined", first, second)
    second.close()
    poll_until(lambda: causes()[-1].startswith("second left"), first)
    # Its requests are held, so that its session ends.
    third = consumer(cluster, topic, group, "third", **settings, **{"session.timeout.ms": 1000})
    poll_until(lambda: causes()[-1] == "third joined", first, third)
    with cluster.link(client_id="third", cut=True, direction="in"):
        poll_until(lambda: "third was silent for its session timeout" in causes()[-1], first)
    for each in (first, third):
        each.close()
    assert any("group_rebalanced" in line and "second joined" in line for line in timeline(cluster.events()))


def test_partitions_of_a_consumer_group_have_their_causes(cluster: Cluster) -> None:
    topic, group = cluster.topic(partitions=2), cluster.group()

    def assigned(client_id: str) -> list[dict[str, Any]]:
        return events(cluster, "group_rebalanced", group=group, client_id=client_id)

    first = consumer(cluster, topic, group, "first", **{"group.protocol": "consumer"})
    poll_until(lambda: assigned("first"), first)
    second = consumer(cluster, topic, group, "second", **{"group.protocol": "consumer"})
    poll_until(lambda: any(each["partitions"] for each in assigned("second")), first, second)
    assert "second joined" in assigned("second")[-1]["cause"]
    second.close()
    poll_until(lambda: assigned("first")[-1]["partitions"] == [[topic, [0, 1]]], first)
    assert assigned("first")[-1]["cause"].endswith("second left")
    poll_until(lambda: [each["client_id"] for each in events(cluster, "member_left", group=group)] == ["second"])
    first.close()


def test_fenced_producer_and_the_client_that_has_fenced_it_are_named(cluster: Cluster) -> None:
    topic = cluster.topic()

    def begun(client_id: str) -> Producer:
        producer = Producer({**cluster.config(), "transactional.id": topic, "client.id": client_id})
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        producer.produce(topic, b"a")
        producer.flush(WITHIN_S)
        return producer

    zombie = begun("zombie")
    assert events(cluster, "producer_fenced", transactional_id=topic) == []
    begun("successor").commit_transaction(WITHIN_S)
    poll_until(lambda: events(cluster, "producer_fenced", transactional_id=topic))
    [fenced] = events(cluster, "producer_fenced", transactional_id=topic)
    assert fenced["cause"].startswith("client successor has initialised the transactional id")
    with pytest.raises(KafkaException):
        zombie.commit_transaction(WITHIN_S)
    poll_until(lambda: events(cluster, "client_fenced", client_id="zombie", api="EndTxn", transactional_id=topic))
    cluster.fence_producer(topic)
    poll_until(lambda: len(events(cluster, "producer_fenced", transactional_id=topic)) == 2)
    assert events(cluster, "producer_fenced", transactional_id=topic)[-1]["cause"].startswith("an administrator has")
