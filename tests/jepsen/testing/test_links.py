"""Faults of the network as confluent-kafka meets them, by the Python face and by the control port."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from jepsen.testing import Cluster, ControlError
from jepsen.testing.fixture_clusters import Kafka
from jepsen.testing.server_lease import ServerLease
from tests.support.document_examples import examples, run_example

pytestmark = pytest.mark.clients

DOCUMENT = "docs/testing-network.md"
WITHIN_S = 60
SETTINGS = {
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.max.ms": 100,
}


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(3, config={"replica.lag.time.max.ms": 1000}, server=server) as cluster:
        yield cluster


def connected(cluster: Cluster, topic: str, client_id: str) -> Producer:
    """A producer that has written a first record, and so has a connection to the leader."""
    producer = Producer({**cluster.config(), **SETTINGS, "client.id": client_id})
    assert produced(producer, topic)
    return producer


def produced(producer: Producer, topic: str, within_s: float = WITHIN_S) -> bool:
    producer.produce(topic, b"a")
    return bool(producer.flush(within_s) == 0)


def seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def isr(cluster: Cluster, topic: str) -> list[int]:
    topics = AdminClient(cluster.config()).list_topics(topic, timeout=WITHIN_S).topics
    return list(topics[topic].partitions[0].isrs)


def test_documented_example_prints_its_output(cluster: Cluster) -> None:
    for _, code, shown in examples(DOCUMENT):
        printed = run_example(code, DOCUMENT, {"cluster": cluster})
        assert printed.endswith("1 order\n") if shown is None else printed == shown


def test_latency_is_that_of_both_directions_and_ends(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer, other = connected(cluster, topic, "slow-1"), connected(cluster, topic, "other")
    with cluster.link(client_id="slow*", leader_of=(topic, 0), latency_ms=300) as fault:
        assert seconds(lambda: produced(producer, topic)) >= 0.6
        assert produced(other, topic)
        assert {(firing["client_id"], firing["effect"]) for firing in fault.firings} == {("slow-1", "delayed")}
    with cluster.link(client_id="slow*", leader_of=(topic, 0), direction="out", latency_ms=300, jitter_ms=100, seed=7):
        assert seconds(lambda: produced(producer, topic)) >= 0.3
    with cluster.link(client_id="slow*", latency_ms=2 * WITHIN_S * 1000):
        assert not produced(producer, topic, 0.1)
    assert producer.flush(WITHIN_S) == 0


def test_records_on_their_way_arrive_in_time_and_in_order(cluster: Cluster) -> None:
    """The latency of one request does not delay the next one: several are under way."""
    topic = cluster.topic()
    producer = connected(cluster, topic, "pipelined")
    values = [b"%d" % number for number in range(50)]
    with cluster.link(client_id="pipelined", latency_ms=200):
        began = time.monotonic()
        for value in values:
            producer.produce(topic, value)
            producer.poll(0.01)
        assert producer.flush(WITHIN_S) == 0
        assert time.monotonic() - began < 50 * 0.2
    assert [record.value for record in cluster.records(topic)][1:] == values


def test_bandwidth_bounds_the_bytes_of_a_client(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "narrow")
    with cluster.link(client_id="narrow", bytes_per_s=50_000):
        producer.produce(topic, b"x" * 50_000)
        assert seconds(lambda: producer.flush(WITHIN_S)) >= 1
    assert len(cluster.records(topic)) == 2


def test_cut_towards_a_node_holds_requests_and_cut_from_it_holds_answers(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "cut")
    with cluster.link(client_id="cut", leader_of=(topic, 0), direction="in", cut=True) as fault:
        assert not produced(producer, topic, 0.1)
        fault.wait()
        assert len(cluster.records(topic)) == 1
    cluster.wait_for(records=(topic, 2))
    assert producer.flush(WITHIN_S) == 0
    with cluster.link(client_id="cut", leader_of=(topic, 0), direction="out", cut=True) as fault:
        assert not produced(producer, topic, 0.1)
        cluster.wait_for(records=(topic, 3))
        fault.wait()
        assert producer.flush(0.1) == 1
        assert fault.held >= 1
    assert producer.flush(WITHIN_S) == 0
    assert len(cluster.requests(api="Produce", client_id="cut")) == 3  # none was sent twice


def test_connection_is_reset_after_bytes_once(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "reset")
    with cluster.link(client_id="reset", leader_of=(topic, 0), direction="in", reset_after_bytes=10, times=1) as fault:
        assert produced(producer, topic)
        [firing] = fault.firings
        assert firing["effect"] == "reset"
    assert len(cluster.records(topic)) == 2


def test_half_open_connection_is_lost_for_the_node_alone(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "half")
    with cluster.link(client_id="half", leader_of=(topic, 0), half_open=True) as fault:
        assert fault.firings[0]["effect"] == "half open"
        assert not produced(producer, topic, 0.5)
        assert cluster.requests(api="Produce", client_id="half", topic=topic)[1:] == []
        # Later connections are whole.
        assert produced(connected(cluster, topic, "half"), topic)
    assert producer.flush(WITHIN_S) == 0
    assert len(cluster.records(topic)) == 4


def test_half_open_connection_is_lost_for_the_client_alone(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "half-there")
    with cluster.link(client_id="half-there", half_open=True, direction="out"):
        assert produced(producer, topic)  # over another connection


def test_black_hole_loses_bytes_and_resets_their_connections_at_its_end(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "lost")
    with cluster.link(client_id="lost", leader_of=(topic, 0), black_hole=True) as fault:
        assert not produced(producer, topic, 0.5)
        assert [firing["effect"] for firing in fault.firings] == ["lost"]
        assert len(cluster.records(topic)) == 1
    assert producer.flush(WITHIN_S) == 0
    assert len(cluster.records(topic)) == 2


def test_partitioned_leader_is_replaced_and_catches_up(cluster: Cluster) -> None:
    topic = cluster.topic(replicas=3)
    leader = cluster.move_leader(topic)
    majority = {**cluster.config(), "bootstrap.servers": cluster.nodes[leader % 3]["address"]}

    def known_leader() -> int:
        # A new client asks the node that it is given. An old one may ask the node that is cut off, and believe it.
        topics = AdminClient(majority).list_topics(topic, timeout=WITHIN_S).topics
        return int(topics[topic].partitions[0].leader)

    with cluster.partition([{"leader_of": (topic, 0)}]) as fault:
        deadline = time.monotonic() + WITHIN_S
        while known_leader() == leader:
            assert time.monotonic() < deadline, "the leader is not replaced"
            time.sleep(0.05)
        assert produced(Producer({**majority, **SETTINGS}), topic)
        assert {firing["effect"] for firing in fault.firings} >= {"held"}
        assert all(leader in (firing["node"], firing["peer"]) for firing in fault.firings)
    cluster.wait_for(in_sync=topic)
    assert len(cluster.records(topic)) == 1


def test_isolated_leader_is_replaced_for_a_client_that_knows_it(cluster: Cluster) -> None:
    topic = cluster.topic(replicas=3)
    timeouts = {"socket.timeout.ms": 2000, "request.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 500}
    producer = Producer({**cluster.config(), **SETTINGS, **timeouts, "enable.idempotence": True})
    assert produced(producer, topic)
    with cluster.isolate(leader_of=(topic, 0)) as fault:
        assert produced(producer, topic, WITHIN_S)
        links = {"client" if firing["client_id"] else "node" for firing in fault.firings}
        assert links == {"client", "node"}, fault.firings
    cluster.wait_for(in_sync=topic)
    assert len(cluster.records(topic)) == 2


def test_one_way_cut_keeps_a_follower_from_fetching(cluster: Cluster) -> None:
    topic = cluster.topic(replicas=3)
    producer = connected(cluster, topic, "shop")
    # A follower with the active controller could also not tell the leader that the ISR has shrunk.
    [*_, controller] = [event["node"] for event in cluster.events() if event["event"] == "leader_elected"]
    leader = cluster.move_leader(topic, to=controller)
    follower = next(node for node in isr(cluster, topic) if node != leader)
    with cluster.link(source=follower, target={"leader_of": (topic, 0)}, cut=True):
        deadline = time.monotonic() + WITHIN_S
        while follower in isr(cluster, topic):
            assert time.monotonic() < deadline, "the follower is still in sync"
            assert produced(producer, topic)
    cluster.wait_for(in_sync=topic)


def test_connects_between_nodes_hang_in_a_black_hole(cluster: Cluster) -> None:
    cluster.stop(node=3)
    with cluster.partition([3], black_hole=True) as fault:
        cluster.start(node=3, delay=0.001)
        fault.wait()
        assert {firing["effect"] for firing in fault.firings} == {"connect held"}
        assert cluster.nodes[2]["state"] == "starting"
    deadline = time.monotonic() + WITHIN_S
    while cluster.nodes[2]["state"] != "serving":
        assert time.monotonic() < deadline, "the node does not serve"
        time.sleep(0.01)


def test_client_over_tls_is_known_by_its_client_id(server: ServerLease) -> None:
    with Cluster(1, security="sasl_ssl", server=server) as cluster:
        topic = cluster.topic()
        producer = connected(cluster, topic, "tls")
        with cluster.link(client_id="tls", node=1, latency_ms=200) as fault:
            assert seconds(lambda: produced(producer, topic)) >= 0.4
            assert {firing["client_id"] for firing in fault.firings} == {"tls"}


CONDITIONS = [
    ({"latency_ms": 50}, "delayed"),
    ({"jitter_ms": 50, "seed": 3}, "delayed"),
    ({"bytes_per_s": 20_000}, "delayed"),
    ({"cut": True}, "held"),
    ({"black_hole": True}, "lost"),
    ({"reset_after_bytes": 20, "times": 1}, "reset"),
    ({"half_open": True}, "half open"),
]


@pytest.mark.parametrize(("conditions", "effect"), CONDITIONS, ids=lambda each: str(each))
def test_fault_begins_and_ends_by_the_control_port(
    server: ServerLease, cluster: Cluster, conditions: dict[str, Any], effect: str
) -> None:
    topic = cluster.topic()
    client_id = effect.replace(" ", "-") + str(len(conditions))
    producer = connected(cluster, topic, client_id)
    path = f"/clusters/{cluster.name}"
    words = {"client_id": client_id, "leader_of": [topic, 0], **conditions}
    begun = server.client.request("POST", f"{path}/links", words)
    producer.produce(topic, b"a")
    producer.poll(0)
    server.client.request("POST", f"{path}/faults/{begun['id']}", {"wait": "fired"})
    described = server.client.request("GET", f"{path}/faults/{begun['id']}")
    assert {firing["effect"] for firing in described["firings"]} == {effect}
    assert begun["links"][0][0] == client_id
    assert server.client.request("DELETE", f"{path}/faults/{begun['id']}")["ended"]
    assert producer.flush(WITHIN_S) == 0
    assert len(cluster.records(topic)) == 2


def test_fault_that_begins_while_a_node_is_paused_is_in_force_once_it_is_resumed(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = connected(cluster, topic, "paused")
    [paused] = cluster.pause(leader_of=(topic, 0))
    with cluster.link(client_id="paused", node=paused, direction="in", cut=True) as fault:
        cluster.resume(node=paused)
        assert not produced(producer, topic, 0.1)
        fault.wait()
    assert producer.flush(WITHIN_S) == 0


def test_link_of_the_shared_node_concerns_clients_of_one_test_and_ends_with_it(cluster: Cluster) -> None:
    kafka = Kafka(cluster)
    topic = kafka.topic()
    producer = connected(cluster, topic, "shared")
    for words in ({"node": 1}, {"client_id": "*"}):
        with pytest.raises(ValueError, match="has to name clients of the test by client_id or address"):
            kafka.link(**words, cut=True)
    fault = kafka.link(client_id="shared", cut=True)
    assert not produced(producer, topic, 0.1)
    fault.wait()
    kafka.close()
    assert producer.flush(WITHIN_S) == 0


def test_address_names_a_client(cluster: Cluster) -> None:
    host, port = cluster.nodes[0]["address"].split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"\0\0\0\x0b" + b"\0\x12\0\0" + b"\0\0\0\x01" + b"\0\x01x")  # ApiVersions of client id "x"
        assert client.recv(65_536)
        address = "{}:{}".format(*client.getsockname())
        with cluster.link(address=address, node=1, direction="in", half_open=True) as fault:
            assert [firing["address"] for firing in fault.firings] == [address]
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(1)
        client.settimeout(WITHIN_S)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"source": 1, "target": 2}, "a link takes one of cut, black_hole"),
        ({"source": 1, "target": 2, "cut": True, "latency_ms": 1}, "a link takes one of cut, black_hole"),
        ({"cut": True}, "links are named by source and target"),
        ({"source": 1, "node": 2, "cut": True}, "links are named by source and target"),
        ({"isolated": {}, "cut": True}, "a node is an id, or an object with one of"),
        ({"source": 9, "cut": True}, "no node 9; there are 1, 2, 3"),
        ({"source": "1", "cut": True}, "the body has to be a JSON object"),
        ({"source": 1, "target": 1, "cut": True}, "the same node"),
        ({"groups": [[1], [1, 2]], "cut": True}, "a node is in two groups"),
        ({"groups": [[1, 2, 3]], "cut": True}, "no links between the groups"),
        ({"node": 1, "direction": "up", "cut": True}, "direction is one of in, out"),
        ({"node": 1, "times": 1, "cut": True}, "times has to be 1 or more, and goes with reset_after_bytes"),
        ({"node": 1, "loss": 0.5, "cut": True}, "unknown: loss"),
    ],
)
def test_wrong_words_are_refused_with_their_reason(cluster: Cluster, words: dict[str, Any], reason: str) -> None:
    with pytest.raises(ControlError, match=reason):
        cluster.link(**words)
