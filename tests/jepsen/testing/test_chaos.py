"""Chaos that a seed chooses, in a test cluster with a producer of confluent-kafka."""

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from jepsen.testing import Cluster, ControlError
from jepsen.testing.chaos import KINDS, ChaosSpec, plan_chaos
from jepsen.testing.chaos.chaos_plan import ChaosRefused, default_faults
from jepsen.testing.server_lease import ServerLease

pytestmark = pytest.mark.clients

WITHIN_S = 90
SETTINGS = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 100, "enable.idempotence": True}


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(3, server=server) as cluster:
        yield cluster


def assert_whole(cluster: Cluster) -> None:
    assert [node["state"] for node in cluster.nodes] == ["serving"] * 3
    assert cluster.end_faults() == []


def test_same_seed_plans_the_same_faults_one_after_the_other() -> None:
    kinds: set[str] = set()
    for seed in range(50):
        spec = ChaosSpec(seed, 20.0, default_faults(3, ["a", "b"]), ("a", "b"))
        plan = plan_chaos(spec, [1, 2, 3])
        assert plan == plan_chaos(spec, [1, 2, 3])
        assert plan != plan_chaos(ChaosSpec(seed + 1, 20.0, spec.faults, spec.topics), [1, 2, 3])
        for fault, following in pairwise(plan):
            assert fault.at + fault.lasts_s < following.at
        assert plan[-1].at + plan[-1].lasts_s <= 20
        kinds |= {fault.kind for fault in plan}
    assert kinds == KINDS.keys()


def test_a_single_node_has_faults_without_others() -> None:
    faults = default_faults(1, [])
    assert "kill" in faults
    plan_chaos(ChaosSpec(1, 60.0, faults), [1])
    with pytest.raises(ChaosRefused, match="partition needs a cluster of several nodes"):
        plan_chaos(ChaosSpec(1, 60.0, ("partition",)), [1])


def test_idempotent_producer_loses_and_repeats_nothing(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    topic = cluster.topic(replicas=3)
    producer = Producer({**cluster.config(), **SETTINGS})
    written = []
    faults = ["kill", "pause", "partition", "slow", "reset", "move-leader", "clock", "slow-clients"]
    with cluster.chaos(seed=11, seconds=8, faults=faults, topics=[topic]) as chaos:
        assert capsys.readouterr().out == f"chaos: {chaos.replay}\n"
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            written.append(b"%d" % len(written))
            producer.produce(topic, written[-1])
            producer.poll(0.02)
        chaos.wait(WITHIN_S)
        assert chaos.done + chaos.refused == len(chaos.plan)
        assert chaos.done > chaos.refused
    assert_whole(cluster)
    assert producer.flush(WITHIN_S) == 0
    assert [record.value for record in cluster.records(topic)] == written
    [began] = [event for event in cluster.events() if event["event"] == "chaos_began"]
    assert began["fields"]["replay"] == chaos.replay
    assert chaos.replay == f"cluster.chaos(seed=11, seconds=8, faults={faults}, topics={[topic]})"


@pytest.mark.parametrize("kind", ["kill", "pause", "stop", "partition"])
def test_chaos_that_ends_early_heals_the_cluster(cluster: Cluster, kind: str) -> None:
    with cluster.chaos(seed=3, seconds=60, faults=[kind]) as chaos:
        deadline = time.monotonic() + WITHIN_S
        while not chaos.done:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert_whole(cluster)
    assert chaos.done >= 1


def test_chaos_by_the_control_port(server: ServerLease, cluster: Cluster) -> None:
    path = f"/clusters/{cluster.name}/chaos"
    begun = server.client.request("POST", path, {"seed": 5, "seconds": 2, "faults": ["slow", "reset", "one-way"]})
    assert begun["plan"][0]["fault"] in ("slow", "reset", "one-way")
    ended = server.client.request("POST", f"{path}/{begun['id']}", {"wait": True})
    assert (ended["ended"], ended["done"]) == (True, len(begun["plan"]))
    again = server.client.request("POST", path, {"seed": 5, "seconds": 2, "faults": ["slow", "reset", "one-way"]})
    assert again["plan"] == begun["plan"]
    assert server.client.request("DELETE", f"{path}/{again['id']}")["ended"]
    assert_whole(cluster)


def test_all_faults_and_chaos_end_together(cluster: Cluster) -> None:
    fault = cluster.link(source=1, target=2, latency_ms=1)
    chaos = cluster.chaos(seconds=60, faults=["slow"])
    assert set(cluster.end_faults()) >= {fault.id, chaos.id}
    assert_whole(cluster)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"faults": ["fire"]}, "no fault is named 'fire'; there are kill, pause"),
        ({"faults": ["move-leader"]}, "move-leader needs topics"),
        ({"seconds": 0.1}, "seconds has to be from 1.5 to 3600"),
    ],
)
def test_wrong_words_are_refused_with_their_reason(cluster: Cluster, words: dict[str, object], reason: str) -> None:
    with pytest.raises(ControlError, match=reason):
        cluster.chaos(**words)  # type: ignore[arg-type]
