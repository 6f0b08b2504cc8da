"""Faults of disks and clocks as confluent-kafka meets them, by the Python face and by the control port."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from jepsen.testing import Cluster, ControlError
from jepsen.testing.server_lease import ServerLease

pytestmark = pytest.mark.clients

WITHIN_S = 60
SETTINGS = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "enable.idempotence": True}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(3, server=server) as cluster:
        yield cluster


Begin: TypeAlias = Callable[..., Callable[[], dict[str, Any]]]


@pytest.fixture(params=["python", "http"])
def begin(request: pytest.FixtureRequest, server: ServerLease, cluster: Cluster) -> Begin:
    """Begins a fault of a "disk" or "clock" by one of the two ways. Returns the function that ends it."""

    def by_python(kind: str, **words: object) -> Callable[[], dict[str, Any]]:
        handle = (cluster.disk if kind == "disk" else cluster.clock)(**words)

        def end() -> dict[str, Any]:
            handle.end()
            return {"fired": handle.fired, "firings": handle.firings}

        return end

    def by_http(kind: str, **words: object) -> Callable[[], dict[str, Any]]:
        path = f"/clusters/{cluster.name}"
        begun = server.client.request("POST", f"{path}/{kind}s", words)
        return lambda: dict(server.client.request("DELETE", f"{path}/faults/{begun['id']}"))

    return by_python if request.param == "python" else by_http


def produced(cluster: Cluster, topic: str, **settings: object) -> float:
    """Write a record, and return the seconds until it is acknowledged."""
    producer = Producer({**cluster.config(), **SETTINGS, **settings})
    producer.list_topics(topic, timeout=WITHIN_S)
    began = time.monotonic()
    producer.produce(topic, b"a")
    assert producer.flush(WITHIN_S) == 0
    return time.monotonic() - began


def until_ended(cluster: Cluster, node: int) -> str:
    """Wait until a node has ended, and return its log."""
    deadline = time.monotonic() + WITHIN_S
    while (found := next(each for each in cluster.nodes if each["id"] == node))["state"] != "failed":
        assert time.monotonic() < deadline, "the node runs"
        time.sleep(0.01)
    return Path(found["log"]).read_text()


def test_node_whose_disk_is_full_ends_and_another_takes_its_records(cluster: Cluster, begin: Begin) -> None:
    topic = cluster.topic(replicas=3)
    leader = cluster.move_leader(topic)
    end = begin("disk", leader_of=(topic, 0), full=True, topic=topic, free_bytes=10)
    produced(cluster, topic)
    assert "No space left on device" in until_ended(cluster, leader)
    assert end()["fired"] >= 1
    assert cluster.start() == [leader]
    cluster.wait_for(in_sync=topic)
    assert len(cluster.records(topic)) == 1


def test_slow_sync_delays_acknowledgements(cluster: Cluster, begin: Begin) -> None:
    topic = cluster.topic(replicas=1, config={"flush.messages": 1})
    end = begin("disk", leader_of=(topic, 0), sync_delay_ms=400, topic=topic)
    assert produced(cluster, topic) >= 0.4
    assert {firing["operation"] for firing in end()["firings"]} == {"sync"}
    end = begin("disk", leader_of=(topic, 0), sync_delay_ms=2 * WITHIN_S * 1000, topic=topic)
    producer = Producer({**cluster.config(), **SETTINGS})
    producer.produce(topic, b"a")
    assert producer.flush(0.3) == 1
    end()
    assert producer.flush(WITHIN_S) == 0


def test_node_whose_sync_fails_ends_and_another_takes_its_records(cluster: Cluster, begin: Begin) -> None:
    topic = cluster.topic(replicas=3, config={"flush.messages": 1})
    leader = cluster.move_leader(topic)
    end = begin("disk", leader_of=(topic, 0), sync_error=True)
    produced(cluster, topic)
    log = until_ended(cluster, leader)
    assert "FsyncFailed" in log
    with pytest.raises(ControlError) as refused:
        cluster.pause(node=leader)
    message = str(refused.value)
    assert f"pause: node {leader} does not run, it is failed: its process has ended by itself with exit code" in message
    assert message.endswith("\n".join(log.splitlines()[-5:]))
    end()
    assert cluster.start() == [leader]
    cluster.wait_for(in_sync=topic)
    assert len(cluster.records(topic)) == 1


def test_leader_that_cannot_read_hands_over_and_ends(cluster: Cluster, begin: Begin) -> None:
    topic = cluster.topic(replicas=3)
    produced(cluster, topic)
    leader = cluster.move_leader(topic)
    end = begin("disk", node=leader, read_error=True, topic=topic, partition=0)
    produced(cluster, topic)  # the followers cannot fetch it, and one of them leads
    assert "Input/output error" in until_ended(cluster, leader)
    assert end()["fired"] >= 1
    assert cluster.start() == [leader]
    cluster.wait_for(in_sync=topic)
    assert len(cluster.records(topic)) == 2


def test_clock_of_a_node_is_wrong_until_the_end(cluster: Cluster, begin: Begin) -> None:
    topic = cluster.topic(replicas=1, config={"message.timestamp.type": "LogAppendTime"})
    end = begin("clock", leader_of=(topic, 0), offset_ms=-HOUR_MS)
    produced(cluster, topic)
    [firing] = end()["firings"]
    assert firing["offset_ms"] == -HOUR_MS
    produced(cluster, topic)
    late, right = (record.timestamp for record in cluster.records(topic))
    assert HOUR_MS <= right - late < HOUR_MS + WITHIN_S * 1000


def test_clock_jumps_there_and_back(cluster: Cluster) -> None:
    topic = cluster.topic(replicas=1, config={"message.timestamp.type": "LogAppendTime"})
    with cluster.clock(leader_of=(topic, 0), offset_ms=HOUR_MS, every_ms=100):
        deadline = time.monotonic() + WITHIN_S
        hours: set[int] = set()
        while len(hours) < 2:
            assert time.monotonic() < deadline
            produced(cluster, topic)
            hours = {round((record.timestamp / 1000 - time.time()) / 3600) for record in cluster.records(topic)}
    assert hours == {0, 1}


def test_clock_that_was_wrong_before_a_start_is_wrong_after_it(cluster: Cluster) -> None:
    topic = cluster.topic(replicas=1, config={"message.timestamp.type": "LogAppendTime"})
    with cluster.clock(offset_ms=-HOUR_MS) as fault:
        cluster.restart(leader_of=(topic, 0))
        cluster.wait_for(leader=(topic, 0))
        produced(cluster, topic)
        assert {firing["node"] for firing in fault.firings} == {1, 2, 3}
    [record] = cluster.records(topic)
    assert record.timestamp / 1000 < time.time() - 3500


@pytest.mark.parametrize("way", ["python", "http"])
def test_flipped_bit_is_refused_by_consumers_until_another_node_leads(
    server: ServerLease, cluster: Cluster, way: str
) -> None:
    topic = cluster.topic(replicas=3)
    produced(cluster, topic)
    leader = cluster.move_leader(topic)
    if way == "python":
        flipped = cluster.flip_bit(topic, leader_of=(topic, 0), offset=0, seed=2)
    else:
        words = {"topic": topic, "leader_of": [topic, 0], "seed": 2}
        flipped = server.client.request("POST", f"/clusters/{cluster.name}/flips", words)
    assert (flipped["node"], flipped["base_offset"]) == (leader, 0)
    settings = {"group.id": cluster.group(), "auto.offset.reset": "earliest", "check.crcs": True}
    consumer = Consumer({**cluster.config(), **settings})
    consumer.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    while (message := consumer.poll(1)) is None:
        assert time.monotonic() < deadline
    assert message.error().code() == KafkaError._BAD_MSG
    cluster.move_leader(topic)
    while (message := consumer.poll(1)) is None or message.error() is not None:
        assert time.monotonic() < deadline
    assert message.value() == b"a"
    consumer.close()
    [noted] = [event for event in cluster.events() if event["event"] == "bit_flipped" and topic in str(event)]
    assert noted["fields"]["path"] == flipped["path"]


@pytest.mark.parametrize(
    ("call", "words", "reason"),
    [
        ("disk", {"node": 1}, "a disk takes one of full, sync_delay_ms"),
        ("disk", {"node": 1, "full": True, "read_error": True}, "a disk takes one of full, sync_delay_ms"),
        ("disk", {"node": 9, "full": True}, "no node 9"),
        ("disk", {"node": 1, "full": True, "partition": 0}, "partition goes with topic"),
        ("disk", {"node": 1, "read_error": True, "free_bytes": 1}, "free_bytes has to be 0 or more, and goes with"),
        ("clock", {"node": 1, "offset_ms": 10**15}, "offset_ms has to be from"),
        ("clock", {"node": 1, "offset_ms": 1, "every_ms": 0.5}, "every_ms has to be 1 or more"),
    ],
)
def test_wrong_words_are_refused_with_their_reason(
    cluster: Cluster, call: str, words: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ControlError, match=reason):
        (cluster.disk if call == "disk" else cluster.clock)(**words)


def test_bit_of_a_log_without_records_is_not_flipped(cluster: Cluster) -> None:
    topic = cluster.topic()
    with pytest.raises(ControlError, match=f"the log of {topic}-0 has no such batch here"):
        cluster.flip_bit(topic, leader_of=(topic, 0))
    with pytest.raises(ControlError, match="a flipped bit is that of one node"):
        cluster.flip_bit(topic)
