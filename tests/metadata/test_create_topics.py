"""CreateTopics: created topics, and errors with Kafka's messages."""

import pytest

from metadata.controller import ControllerConfig, CreatedTopic, NewTopic
from metadata.image import MetadataDelta
from metadata.protocol import KafkaError
from metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.metadata import CLUSTER_ID, Cluster


def create(cluster: Cluster, *topics: NewTopic) -> list[CreatedTopic]:
    return cluster.decide(cluster.topics.create(cluster.image, topics))


def refusal(cluster: Cluster, topic: NewTopic) -> tuple[str, str]:
    """The error's name and message. No topic may have been created."""
    decision = cluster.topics.create(cluster.image, [topic])
    assert not decision.records
    error = decision.response[0].error
    assert error is not None
    return error.code.name, error.message


def test_created_topic_has_an_id_partitions_and_leaders() -> None:
    cluster = Cluster()
    (created,) = create(cluster, NewTopic("orders", 3, 1, configs={"retention.ms": "1000"}))
    assert created == CreatedTopic("orders", None, created.topic_id, 3, 1, {"retention.ms": "1000"})
    topic = cluster.image.topics.by_name["orders"]
    assert topic is cluster.image.topics.by_id[created.topic_id]
    assert list(topic.partitions) == [0, 1, 2]
    (directory,) = cluster.image.cluster.brokers[1].log_dirs
    for partition in topic.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == (directory,)
    assert cluster.image.configs.topic("orders") == {"retention.ms": "1000"}


def test_defaults_come_from_the_broker() -> None:
    config = ControllerConfig(cluster_id=CLUSTER_ID, num_partitions=4, default_replication_factor=2)
    cluster = Cluster(3, config)
    (created,) = create(cluster, NewTopic("orders"))
    assert (created.num_partitions, created.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("line\n", "'line\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_invalid_topic_names_are_refused(name: str, reason: str) -> None:
    assert refusal(Cluster(), NewTopic(name, 1, 1)) == ("INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {reason}")


def test_longest_name_and_internal_names_are_accepted() -> None:
    created = create(Cluster(), NewTopic("x" * 249), NewTopic("__consumer_offsets"), NewTopic("a.B-9"))
    assert [topic.error for topic in created] == [None, None, None]


def test_cluster_metadata_topic_cannot_be_created() -> None:
    assert refusal(Cluster(), NewTopic("__cluster_metadata")) == (
        "INVALID_REQUEST",
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


def test_existing_topic_name_is_refused() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("a.b"))
    assert refusal(cluster, NewTopic("a.b")) == ("TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists.")


def test_names_that_are_equal_in_metrics_collide() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("a.b"))
    assert refusal(cluster, NewTopic("a_b")) == (
        "INVALID_TOPIC_EXCEPTION",
        "Topic 'a_b' collides with existing topic: a.b",
    )


def test_a_deleted_name_collides_no_more() -> None:
    cluster = Cluster()
    (created,) = create(cluster, NewTopic("a.b"))
    cluster.take([RemoveTopicRecord(topic_id=created.topic_id)])
    assert create(cluster, NewTopic("a_b"))[0].error is None
    assert refusal(cluster, NewTopic("a.b"))[1] == "Topic 'a.b' collides with existing topic: a_b"


@pytest.mark.parametrize("count", [0, -2])
def test_partitions_are_at_least_one(count: int) -> None:
    assert refusal(Cluster(), NewTopic("t", count, 1)) == (
        "INVALID_PARTITIONS",
        "Number of partitions was set to an invalid non-positive value.",
    )


@pytest.mark.parametrize("factor", [0, -2])
def test_replicas_are_at_least_one(factor: int) -> None:
    assert refusal(Cluster(), NewTopic("t", 1, factor)) == (
        "INVALID_REPLICATION_FACTOR",
        "Replication factor must be larger than 0, or -1 to use the default value.",
    )


def test_replicas_are_no_more_than_brokers() -> None:
    assert refusal(Cluster(2), NewTopic("t", 1, 3)) == (
        "INVALID_REPLICATION_FACTOR",
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 2 broker(s) are registered or some brokers have all their log directories cordoned.",
    )


def test_without_an_unfenced_broker_nothing_is_placed() -> None:
    cluster = Cluster(0)
    expected = (
        "INVALID_REPLICATION_FACTOR",
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all "
        "their log directories cordoned.",
    )
    assert refusal(cluster, NewTopic("t", 1, 1)) == expected
    cluster.register(1)
    assert refusal(cluster, NewTopic("t", 1, 1)) == expected


def test_repeated_name_is_not_created() -> None:
    cluster = Cluster()
    made = create(cluster, NewTopic("twice", 1), NewTopic("once"), NewTopic("twice", 2))
    assert [(topic.name, topic.error and topic.error.message) for topic in made] == [
        ("once", None),
        ("twice", "Duplicate topic name."),
    ]
    assert "twice" not in cluster.image.topics.by_name


def test_one_bad_topic_does_not_keep_the_others_from_being_made() -> None:
    cluster = Cluster()
    made = create(cluster, NewTopic("good"), NewTopic("bad", 0), NewTopic("fine"))
    assert [topic.error is None for topic in made] == [True, False, True]
    assert set(cluster.image.topics.by_name) == {"good", "fine"}


def test_assignments_are_taken_as_given() -> None:
    cluster = Cluster(3)
    (created,) = create(cluster, NewTopic("t", assignments=[(1, (3, 1)), (0, (2, 3))]))
    assert (created.num_partitions, created.replication_factor) == (2, 2)
    partitions = cluster.image.topics.by_name["t"].partitions
    assert [(p.replicas, p.isr, p.leader) for p in partitions.values()] == [((2, 3), (2, 3), 2), ((3, 1), (3, 1), 3)]


@pytest.mark.parametrize(
    ("topic", "name", "message"),
    [
        (
            NewTopic("t", replication_factor=1, assignments=[(0, (1,))]),
            "INVALID_REQUEST",
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            NewTopic("t", num_partitions=1, assignments=[(0, (1,))]),
            "INVALID_REQUEST",
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            NewTopic("t", assignments=[(0, (1,)), (0, (2,))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("t", assignments=[(0, (1,)), (2, (2,))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments=[(0, ())]),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            NewTopic("t", assignments=[(0, (9,))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewTopic("t", assignments=[(0, (1, 2, 1))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("t", assignments=[(0, (1, 2)), (1, (2,))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
        (
            NewTopic("t", assignments=[(0, (3,))]),
            "INVALID_REPLICA_ASSIGNMENT",
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
            "shutdown.",
        ),
    ],
)
def test_invalid_assignments_are_refused(topic: NewTopic, name: str, message: str) -> None:
    cluster = Cluster(2)
    cluster.register(3)  # it is never unfenced
    assert refusal(cluster, topic) == (name, message)


def test_a_fenced_replica_is_not_in_the_first_isr() -> None:
    cluster = Cluster(2)
    cluster.register(3)
    create(cluster, NewTopic("t", assignments=[(0, (3, 2))]))
    partition = cluster.image.topics.by_name["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 2), (2,), 2)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        (
            {"retention.ms": "x"},
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        ({"retention.ms": None, "x": None}, "Null value not supported for topic configs: retention.ms,x"),
    ],
)
def test_configs_are_checked(configs: dict[str, str | None], message: str) -> None:
    assert refusal(Cluster(), NewTopic("t", configs=configs)) == ("INVALID_CONFIG", message)


def test_ten_thousand_partitions_are_the_most_of_one_request() -> None:
    cluster = Cluster()
    decision = cluster.topics.create(cluster.image, [NewTopic(f"topic-{i}", 10) for i in range(1000)])
    assert sum(isinstance(record, PartitionRecord) for record in decision.records) == 10_000
    for topics in (
        [NewTopic("a", 10_000), NewTopic("b")],
        [NewTopic("a", 9_999), NewTopic("b", assignments=[(0, (1,)), (1, (1,))])],
    ):
        with pytest.raises(KafkaError, match="POLICY_VIOLATION: Excessively large number of partitions per request"):
            cluster.topics.create(cluster.image, topics)


def test_topics_that_are_named_twice_do_not_count_against_the_partitions_of_a_request() -> None:
    cluster = Cluster()
    topics = [NewTopic("twice", 10_000), NewTopic("once", 10_000), NewTopic("twice", 10_000)]
    created = cluster.topics.create(cluster.image, topics).response
    assert [(each.name, each.error and each.error.message) for each in created] == [
        ("once", None),
        ("twice", "Duplicate topic name."),
    ]


def test_a_topic_comes_before_its_configs_and_its_partitions() -> None:
    cluster = Cluster()
    decision = cluster.topics.create(cluster.image, [NewTopic("t", 1, configs={"retention.ms": "1"})])
    assert [type(record).__name__ for record in decision.records] == ["TopicRecord", "ConfigRecord", "PartitionRecord"]


def test_publishers_see_a_new_topic_as_created() -> None:
    cluster = Cluster()
    decision = cluster.topics.create(cluster.image, [NewTopic("t", 2)])
    delta = MetadataDelta(cluster.image)
    delta.replay(decision.records)
    topic = next(record for record in decision.records if isinstance(record, TopicRecord))
    changed = delta.topics.changed[topic.topic_id]
    assert (changed.base, list(changed.partitions)) == (None, [0, 1])
