"""DeleteTopics, by name and by id."""

import pytest

from metadata.controller import ControllerConfig, NewTopic, TopicToDelete
from metadata.protocol import KafkaError
from tests.support.metadata import CLUSTER_ID, Cluster, refusal


def with_topics(*names: str) -> tuple[Cluster, list[bytes]]:
    cluster = Cluster()
    created = cluster.decide(
        cluster.topics.create(cluster.image, [NewTopic(name, configs={"retention.ms": "1"}) for name in names])
    )
    return cluster, [topic.topic_id for topic in created]


def delete(cluster: Cluster, *topics: TopicToDelete) -> list[tuple[str | None, bytes, tuple[str, str] | None]]:
    answers = cluster.decide(cluster.topics.delete(cluster.image, topics))
    return [(a.name, a.topic_id, refusal(a.error)) for a in answers]


def test_topics_are_deleted_by_name_or_id_with_their_configs() -> None:
    cluster, (first, second, third) = with_topics("one", "two", "three")
    answers = delete(cluster, TopicToDelete("one"), TopicToDelete(topic_id=second))
    assert answers == [("one", first, None), ("two", second, None)]
    assert list(cluster.image.topics.by_name) == ["three"]
    assert list(cluster.image.topics.by_id) == [third]
    assert cluster.image.configs.topic("one") == {}
    assert cluster.image.configs.topic("three") == {"retention.ms": "1"}


def test_recreated_topic_has_another_id() -> None:
    cluster, (first,) = with_topics("one")
    delete(cluster, TopicToDelete("one"))
    (again,) = cluster.decide(cluster.topics.create(cluster.image, [NewTopic("one")]))
    assert again.topic_id != first
    assert cluster.image.configs.topic("one") == {}


def test_unknown_topic_cannot_be_deleted() -> None:
    cluster, _ = with_topics("one")
    unknown = b"\x01" * 16
    assert delete(cluster, TopicToDelete("none"), TopicToDelete(topic_id=unknown)) == [
        ("none", bytes(16), ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition.")),
        (None, unknown, ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID.")),
    ]


def test_topic_to_delete_is_given_once_by_name_or_by_id() -> None:
    cluster, (one, _, three) = with_topics("one", "two", "three")
    answers = delete(
        cluster,
        TopicToDelete(),
        TopicToDelete("one", one),
        TopicToDelete("one"),
        TopicToDelete("two"),
        TopicToDelete("two"),
        TopicToDelete(topic_id=three),
        TopicToDelete(topic_id=three),
        TopicToDelete("three"),
    )
    assert [(name, *(error or ())) for name, _, error in answers] == [
        (None, "INVALID_REQUEST", "Neither topic name nor id were specified."),
        ("one", "INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ("one",),
        ("two", "INVALID_REQUEST", "Duplicate topic name."),
        (None, "INVALID_REQUEST", "Duplicate topic id."),
        ("three", "INVALID_REQUEST", "The provided topic name maps to an ID that was already supplied."),
    ]
    assert list(cluster.image.topics.by_name) == ["two", "three"]


def test_topic_that_is_given_by_name_and_by_id_is_not_deleted_and_has_one_result() -> None:
    already = ("INVALID_REQUEST", "The provided topic name maps to an ID that was already supplied.")
    cluster, (one, two) = with_topics("one", "two")
    by_id, by_name = TopicToDelete(topic_id=one), TopicToDelete("one")
    for entries in ([by_id, by_name], [by_name, by_id]):
        assert delete(cluster, *entries) == [("one", one, already)]
    assert list(cluster.image.topics.by_name) == ["one", "two"]
    assert delete(cluster, by_id, by_name, by_name, TopicToDelete("two")) == [
        ("one", one, None),
        ("one", bytes(16), ("INVALID_REQUEST", "Duplicate topic name.")),
        ("two", two, None),
    ]


def test_each_entry_that_identifies_no_topic_has_a_result() -> None:
    cluster, (one,) = with_topics("one")
    answers = delete(cluster, TopicToDelete(), TopicToDelete("one", one), TopicToDelete(), TopicToDelete("one", one))
    assert [(name, *(error or ())) for name, _, error in answers] == [
        (None, "INVALID_REQUEST", "Neither topic name nor id were specified."),
        (None, "INVALID_REQUEST", "Neither topic name nor id were specified."),
        ("one", "INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ("one", "INVALID_REQUEST", "You may not specify both topic name and topic id."),
    ]


def test_deletion_can_be_disabled() -> None:
    cluster = Cluster(1, ControllerConfig(cluster_id=CLUSTER_ID, delete_topic_enable=False))
    with pytest.raises(KafkaError, match="TOPIC_DELETION_DISABLED: Topic deletion is disabled"):
        cluster.topics.delete(cluster.image, [TopicToDelete("one")])
