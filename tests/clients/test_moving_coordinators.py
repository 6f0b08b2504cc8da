"""Coordinators move while real clients consume: a node is killed, restarted, and elected as the preferred leader."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.group_members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    GroupMember,
    KafkaPythonMember,
    LibraryConsumerProtocolMember,
    LibraryMember,
    wait_until,
)
from tests.support.group_scenario import GroupScenario, discard

# kafka-python leaves the sockets of failed connections to the garbage collector.
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("few_objects"),
]

PARTITIONS = 12
GROUPS: dict[str, tuple[type[GroupMember], str]] = {
    "confluent": (ConfluentMember, "cooperative-sticky"),
    "confluent-consumer": (ConsumerProtocolMember, "uniform"),
    "kafka-python": (KafkaPythonMember, "range"),
    "aiokafka": (AiokafkaMember, "roundrobin"),
    "library": (LibraryMember, "cooperative-sticky"),
    "library-consumer": (LibraryConsumerProtocolMember, "uniform"),
}
# If a commit is due before librdkafka has connected to a coordinator that it has just found, it considers the
# coordinator dead and looks for it again, which takes as long as a fetch waits. So commits must not be due all the
# time, and the session timeout must be longer.
SETTINGS: dict[str, dict[str, Any]] = {
    "confluent": {"auto.commit.interval.ms": 2_000, "session.timeout.ms": 30_000},
    "confluent-consumer": {"auto.commit.interval.ms": 2_000},
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    overrides = {
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "3",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "group.initial.rebalance.delay.ms": "500",
        "auto.leader.rebalance.enable": "false",
    }
    with new_cluster(tmp_path, overrides=overrides) as cluster:
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture
def scenarios(cluster: ClusterProcess) -> Iterator[list[GroupScenario]]:
    """A group of each kind, with members that share its topic."""
    scenarios: list[GroupScenario] = []
    for group, (kind, strategy) in GROUPS.items():
        topics = {f"topic-of-{group}": PARTITIONS}
        settings = SETTINGS.get(group)
        scenario = GroupScenario(
            cluster.bootstrap, topics, group=group, replicas=3, kind=kind, strategy=strategy, settings=settings
        )
        scenarios.append(scenario)
        scenario.start_members(f"{group}-a", f"{group}-b")
    for scenario in scenarios:
        scenario.shared()
    yield scenarios
    discard(scenarios)


def lead_again(cluster: ClusterProcess) -> None:
    """Elect the preferred leader of each offsets partition, once it is in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def is_elected() -> bool:
        partitions = [TopicPartition("__consumer_offsets", index) for index in range(3)]
        answers = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
        assert answers is not None
        return all(error is None or error.name() == "ELECTION_NOT_NEEDED" for error in answers.values())

    wait_until(is_elected, "preferred leaders of all partitions of offsets", every_s=0.2)


def test_all_kinds_of_clients_follow_their_coordinators(
    cluster: ClusterProcess, scenarios: list[GroupScenario], figure: Callable[[str], None]
) -> None:
    before = {scenario.group: scenario.coordinator() for scenario in scenarios}
    for scenario in scenarios:
        scenario.produce()
    for scenario in scenarios:
        scenario.all_read()
        scenario.all_committed()
    node_id = Counter(before.values()).most_common(1)[0][0]
    cluster.nodes[node_id].kill()
    for scenario in scenarios:
        assert scenario.committed() == scenario.produced, scenario.group
        assert scenario.coordinator() != node_id
        scenario.produce()
    for scenario in scenarios:
        scenario.all_read()
    cluster.nodes[node_id].start()
    lead_again(cluster)
    wait_until(
        lambda: {scenario.group: scenario.coordinator() for scenario in scenarios} == before,
        "the coordinators of before",
    )
    for scenario in scenarios:
        scenario.produce()
    for scenario in scenarios:
        scenario.all_read()
        scenario.all_committed()
        scenario.is_stable()
        scenario.end()
    figure(f"read twice: { {scenario.group: scenario.history.twice for scenario in scenarios} }")
    assert [scenario.history.losers for scenario in scenarios] == [[]] * len(scenarios)
