"""CreatePartitions: topics grow, and never shrink."""

import pytest

from metadata.controller import NewPartitions, NewTopic
from metadata.controller.partitions import create_partitions
from metadata.protocol import KafkaError
from tests.support.metadata import Cluster, refusal


def with_topic(brokers: int = 2, partitions: int = 2, factor: int = 2) -> Cluster:
    cluster = Cluster(brokers)
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", partitions, factor)]))
    return cluster


def grow(cluster: Cluster, *topics: NewPartitions) -> list[tuple[str, tuple[str, str] | None]]:
    outcomes = cluster.decide(create_partitions(cluster.image, topics, cluster.rng))
    return [(o.name, refusal(o.error)) for o in outcomes]


def test_new_partitions_are_placed_like_the_others() -> None:
    cluster = with_topic()
    before = list(cluster.image.topics.by_name["t"].partitions.values())
    assert grow(cluster, NewPartitions("t", 5)) == [("t", None)]
    partitions = cluster.image.topics.by_name["t"].partitions
    assert list(partitions) == [0, 1, 2, 3, 4]
    assert list(partitions.values())[:2] == before
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


def test_new_partitions_follow_a_manual_assignment() -> None:
    cluster = with_topic()
    assert grow(cluster, NewPartitions("t", 4, [(2, 1), (1, 2)])) == [("t", None)]
    partitions = cluster.image.topics.by_name["t"].partitions
    assert [partitions[i].replicas for i in (2, 3)] == [(2, 1), (1, 2)]


@pytest.mark.parametrize(
    ("wanted", "name", "message"),
    [
        (NewPartitions("none", 3), "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        (NewPartitions("t", 2), "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (
            NewPartitions("t", 1),
            "INVALID_PARTITIONS",
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            NewPartitions("t", 4, [(1, 2)]),
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions("t", 3, [(1,)]),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
    ],
)
def test_invalid_growth_is_refused(wanted: NewPartitions, name: str, message: str) -> None:
    cluster = with_topic()
    assert grow(cluster, wanted) == [(wanted.name, (name, message))]
    assert len(cluster.image.topics.by_name["t"].partitions) == 2


def test_a_name_given_twice_does_not_grow() -> None:
    cluster = with_topic()
    outcomes = grow(cluster, NewPartitions("t", 3), NewPartitions("none", 1), NewPartitions("t", 4))
    assert [(name, error and error[0]) for name, error in outcomes] == [
        ("t", "INVALID_REQUEST"),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_request_is_one_batch_of_bounded_size() -> None:
    cluster = with_topic(1, 1, 1)
    assert len(create_partitions(cluster.image, [NewPartitions("t", 10_001)], cluster.rng).records) == 10_000
    with pytest.raises(KafkaError, match="POLICY_VIOLATION: Unable to perform excessively large batch operation"):
        create_partitions(cluster.image, [NewPartitions("t", 10_002)], cluster.rng)
