"""Topics through an Admin, on a running node."""

from pathlib import Path

import pytest

from broker.client import (
    HIGH_WATERMARK,
    ConfigSource,
    KafkaError,
    NewPartitions,
    NewTopic,
    TopicPartition,
)
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node


async def test_topics_are_created_with_counts_with_assignments_and_with_the_defaults_of_the_cluster(
    tmp_path: Path,
) -> None:
    async with admin_of_a_node(tmp_path, num_partitions=4) as admin:
        created = await admin.create_topics(
            [
                NewTopic("counted", num_partitions=3, replication_factor=1, configs={"retention.ms": "60000"}),
                NewTopic("assigned", assignments={0: [1], 1: [1]}),
                NewTopic("default"),
            ]
        )
        topics = created.raise_first()
        assert {name: topic.num_partitions for name, topic in topics.items()} == {
            "counted": 3,
            "assigned": 2,
            "default": 4,
        }
        configs = topics["counted"].configs
        assert configs is not None
        assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("60000", ConfigSource.TOPIC)
        described = (await admin.describe_topics(topics)).raise_first()
        assert [len(topic.partitions) for topic in described.values()] == [3, 2, 4]
        assert described["counted"].topic_id == topics["counted"].topic_id


async def test_create_topics_reports_the_topics_that_fail_beside_those_that_are_created(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("there")])).raise_first()
        results = await admin.create_topics(
            [
                NewTopic("new"),
                NewTopic("there"),
                NewTopic("not/allowed"),
                NewTopic("large", replication_factor=5),
                NewTopic("odd", configs={"no.such.config": "1"}),
            ]
        )
        assert list(results.succeeded) == ["new"]
        codes = {name: error.code for name, error in results.failed.items() if isinstance(error, KafkaError)}
        assert codes == {
            "there": ErrorCode.TOPIC_ALREADY_EXISTS,
            "not/allowed": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "large": ErrorCode.INVALID_REPLICATION_FACTOR,
            "odd": ErrorCode.INVALID_CONFIG,
        }
        assert all(str(error).partition(": ")[2] for error in results.failed.values()), "every error explains itself"


async def test_create_topics_with_validate_only_creates_nothing(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("topic", 1, 1)], validate_only=True)).raise_first()
        assert await admin.list_topics() == []


def test_a_new_topic_has_either_assignments_or_counts() -> None:
    with pytest.raises(ValueError, match="leave out num_partitions"):
        NewTopic("topic", num_partitions=1, assignments={0: [1]})


async def test_a_topic_that_is_given_twice_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        with pytest.raises(ValueError, match="topic a is given twice"):
            await admin.create_topics([NewTopic("a", 1), NewTopic("a", 2)])
        assert await admin.list_topics() == []


async def test_topics_are_described_and_deleted_by_name_and_by_id(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        created = (await admin.create_topics([NewTopic("a"), NewTopic("b")])).raise_first()
        b_id, unknown_id = created["b"].topic_id, b"\x01" * 16
        described = await admin.describe_topics(["a", b_id, "nowhere", unknown_id])
        assert described.value("a").name == "a"
        assert described.value(b_id).name == "b"
        assert _code(described["nowhere"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert _code(described[unknown_id]) == ErrorCode.UNKNOWN_TOPIC_ID
        deleted = await admin.delete_topics(["a", b_id, "nowhere", unknown_id])
        assert list(deleted.succeeded) == ["a", b_id]
        assert _code(deleted["nowhere"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert _code(deleted[unknown_id]) == ErrorCode.UNKNOWN_TOPIC_ID
        assert await admin.list_topics() == []


async def test_describe_topics_puts_pages_together(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("b", 5), NewTopic("a", 3), NewTopic("c", 1)])).raise_first()
        described = (await admin.describe_topics(["b", "c", "a"], partition_limit=2)).raise_first()
        assert list(described) == ["b", "c", "a"]
        numbers = {name: [each.partition for each in topic.partitions] for name, topic in described.items()}
        assert numbers == {"b": [0, 1, 2, 3, 4], "c": [0], "a": [0, 1, 2]}
        partition = described["a"].partitions[0]
        assert (partition.leader, partition.replicas, partition.isr) == (1, (1,), (1,))
        assert partition.eligible_leader_replicas == ()
        assert described["a"].authorized_operations is None


async def test_describe_topics_tells_authorized_operations_if_asked(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        created = (await admin.create_topics([NewTopic("a")])).raise_first()
        described = await admin.describe_topics(["a", created["a"].topic_id], include_authorized_operations=True)
        by_name, by_id = described.raise_first().values()
        assert by_name.authorized_operations == by_id.authorized_operations
        assert by_name.authorized_operations


async def test_list_topics_leaves_out_internal_topics_unless_asked(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders")])).raise_first()
        (await admin.alter_group_offsets("group", {TopicPartition("orders", 0): 0})).raise_first()
        assert [topic.name for topic in await admin.list_topics()] == ["orders"]
        everything = await admin.list_topics(include_internal=True)
        assert [(topic.name, topic.is_internal) for topic in everything] == [
            ("__consumer_offsets", True),
            ("orders", False),
        ]


async def test_create_partitions_adds_to_some_topics_and_reports_the_others(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("a", 1), NewTopic("b", 2), NewTopic("c", 3)])).raise_first()
        only_checked = await admin.create_partitions({"a": 9}, validate_only=True)
        only_checked.raise_first()
        results = await admin.create_partitions({"a": 3, "b": NewPartitions(3, [[1]]), "c": 2, "nowhere": 5})
        assert list(results.succeeded) == ["a", "b"]
        assert _code(results["c"]) == ErrorCode.INVALID_PARTITIONS
        assert _code(results["nowhere"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        described = (await admin.describe_topics(["a", "b", "c"])).raise_first()
        assert [len(topic.partitions) for topic in described.values()] == [3, 3, 3]


async def test_delete_records_reports_low_watermarks_and_offsets_out_of_range(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("a", 2)])).raise_first()
        results = await admin.delete_records({TopicPartition("a", 0): HIGH_WATERMARK, TopicPartition("a", 1): 7})
        assert results.value(TopicPartition("a", 0)) == 0
        assert _code(results[TopicPartition("a", 1)]) == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_calls_without_items_ask_nobody(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        assert len(await admin.create_topics([])) == 0
        assert len(await admin.describe_topics([])) == 0
        assert len(await admin.list_offsets({})) == 0


def _code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code
