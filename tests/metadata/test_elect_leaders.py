"""Elections that an operator requests (KIP-460)."""

from collections.abc import Sequence

import pytest

from metadata.controller import ElectedTopic, NewTopic
from metadata.controller.elect_leaders import ElectLeadersControl
from metadata.controller.election_configs import overdue_elections
from metadata.image import PartitionImage
from metadata.protocol import ElectionType, KafkaError
from metadata.records import LEADER_RECOVERING, NO_LEADER
from tests.support.metadata import Cluster, schema

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def cluster_with(replicas: Sequence[int] = (1, 2, 3), partitions: int = 1, **configs: str) -> Cluster:
    cluster = Cluster(brokers=3)
    assignments = [(partition_id, tuple(replicas)) for partition_id in range(partitions)]
    named = {name.replace("_", "."): value for name, value in configs.items()}
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", assignments=assignments, configs=named)]))
    return cluster


def partition(cluster: Cluster, partition_id: int = 0) -> PartitionImage:
    return cluster.image.topics.by_name["t"].partitions[partition_id]


def elect(
    cluster: Cluster, kind: int, wanted: Sequence[tuple[str, Sequence[int]]] | None = (("t", (0,)),)
) -> list[tuple[str, int, str | None]]:
    """Topic, partition and error of each result."""
    topics: list[ElectedTopic] = cluster.decide(ElectLeadersControl(schema()).elect(cluster.image, kind, wanted))
    return [
        (topic.name, each.partition_id, each.error.code.name if each.error else None)
        for topic in topics
        for each in topic.partitions
    ]


def come_back(cluster: Cluster, broker_id: int) -> None:
    """The broker is unfenced, and added to the ISR."""
    cluster.join(broker_id)
    cluster.catch_up(broker_id)


def test_preferred_election_elects_the_returned_preferred_leader() -> None:
    cluster = cluster_with()
    cluster.fence(1)
    come_back(cluster, 1)
    before = partition(cluster)
    assert before.leader == 2

    assert elect(cluster, PREFERRED) == [("t", 0, None)]

    after = partition(cluster)
    assert (after.leader, after.isr, after.leader_epoch) == (1, before.isr, before.leader_epoch + 1)


def test_preferred_election_is_not_needed_when_the_preferred_leader_leads() -> None:
    cluster = cluster_with()
    assert elect(cluster, PREFERRED) == [("t", 0, "ELECTION_NOT_NEEDED")]
    assert partition(cluster).leader_epoch == 0


def test_a_preferred_leader_that_is_not_in_sync_is_not_available() -> None:
    cluster = cluster_with(unclean_leader_election_enable="true")
    cluster.fence(1)
    assert elect(cluster, PREFERRED) == [("t", 0, "PREFERRED_LEADER_NOT_AVAILABLE")]
    cluster.join(1)
    assert elect(cluster, PREFERRED) == [("t", 0, "PREFERRED_LEADER_NOT_AVAILABLE")], "alive is not in sync"
    assert partition(cluster).leader == 2


def test_preferred_elections_are_never_unclean() -> None:
    cluster = cluster_with((1, 2))
    lose_all_but(cluster, 2)
    assert elect(cluster, PREFERRED) == [("t", 0, "PREFERRED_LEADER_NOT_AVAILABLE")]
    assert partition(cluster).leader == NO_LEADER


def test_unclean_election_elects_any_active_replica() -> None:
    cluster = cluster_with((1, 2))
    lose_all_but(cluster, 2)

    assert elect(cluster, UNCLEAN) == [("t", 0, None)]

    after = partition(cluster)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), LEADER_RECOVERING)


def test_unclean_election_is_not_needed_with_a_leader() -> None:
    cluster = cluster_with()
    cluster.fence(1)
    assert elect(cluster, UNCLEAN) == [("t", 0, "ELECTION_NOT_NEEDED")]


def test_unclean_election_without_an_active_replica_is_refused() -> None:
    cluster = cluster_with((1,))
    cluster.fence(1)
    assert elect(cluster, UNCLEAN) == [("t", 0, "ELIGIBLE_LEADERS_NOT_AVAILABLE")]


def test_each_partition_has_its_own_result_and_is_decided_once() -> None:
    cluster = cluster_with(partitions=2)
    cluster.fence(1)
    come_back(cluster, 1)
    answers = elect(cluster, PREFERRED, [("t", (0, 7, 0)), ("none", (3,))])
    assert answers == [
        ("t", 0, None),
        ("t", 7, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("t", 0, None),
        ("none", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert partition(cluster).leader_epoch == 2, "once away and once back"
    assert partition(cluster, 1).leader == 2


def test_election_of_all_partitions_returns_those_that_needed_one() -> None:
    cluster = cluster_with(partitions=2)
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("other", assignments=[(0, (3, 2))])]))
    cluster.fence(1)
    come_back(cluster, 1)
    wanted = [("t", [0, 1]), ("other", [0]), ("deleted", [0])]
    control = ElectLeadersControl(schema())
    topics = cluster.decide(control.elect(cluster.image, PREFERRED, wanted, needed_only=True))
    assert {topic.name: [each.partition_id for each in topic.partitions] for topic in topics} == {
        "t": [0, 1],
        "other": [],
        "deleted": [],
    }


def test_unknown_election_type_is_refused() -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST: Unknown election type 2"):
        elect(cluster_with(), 2)


def lose_all_but(cluster: Cluster, broker_id: int) -> None:
    """Fence all brokers and unfence only `broker_id`, which was not in the ISR before."""
    cluster.fence(broker_id)
    for other in cluster.image.topics.by_name["t"].partitions[0].replicas:
        if other != broker_id:
            cluster.fence(other)
    cluster.join(broker_id)


def test_new_controller_elects_leaders_that_its_own_defaults_allow() -> None:
    """Kafka looks for partitions without a leader every 5 minutes. Here all other elections are not delayed."""
    cluster = cluster_with((1, 2))
    lose_all_but(cluster, 2)
    assert overdue_elections(cluster.image, schema()) == []

    cluster.take(overdue_elections(cluster.image, schema(unclean_leader_election_enable="true")))

    assert (partition(cluster).leader, partition(cluster).isr) == (2, (2,))
