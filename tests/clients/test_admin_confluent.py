"""Administration with librdkafka: it can describe what it creates, and failures arrive as Kafka's errors."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.confluent_driver import create_topic

pytestmark = pytest.mark.clients

T = TypeVar("T")


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def error_of(future: "Future[T]") -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        future.result(30)
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def partitions_of(admin: AdminClient, topic: str) -> list[int]:
    description = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    return [partition.id for partition in description.partitions]


def topic_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
    return described


def alter(admin: AdminClient, topic: str, operation: AlterConfigOpType, name: str, value: str | None) -> "Future[None]":
    resource = ConfigResource(
        ResourceType.TOPIC, topic, incremental_configs=[ConfigEntry(name, value, incremental_operation=operation)]
    )
    return admin.incremental_alter_configs([resource])[resource]


def write_at(bootstrap: str, topic: str, timestamps_ms: list[int]) -> None:
    """Write one record per timestamp to partition 0, each in its own batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for timestamp_ms in timestamps_ms:
        producer.produce(topic, b"x", partition=0, timestamp=timestamp_ms)
        assert producer.flush(30) == 0


class TestTopics:
    def test_a_created_topic_is_listed_and_described(self, admin: AdminClient, topic: str) -> None:
        admin.create_topics([NewTopic(topic, 4, 1, config={"retention.ms": "1234567"})])[topic].result(30)
        assert topic in admin.list_topics(timeout=30).topics
        description = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        assert description.name == topic
        assert str(description.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
        assert not description.is_internal
        assert [partition.id for partition in description.partitions] == [0, 1, 2, 3]
        node = admin.describe_cluster().result(30).controller.id
        for partition in description.partitions:
            assert partition.leader.id == node
            assert [replica.id for replica in partition.replicas] == [node]
            assert [replica.id for replica in partition.isr] == [node]
        assert topic_configs(admin, topic)["retention.ms"].value == "1234567"

    def test_omitted_settings_have_their_defaults(self, admin: AdminClient, topic: str) -> None:
        admin.create_topics([NewTopic(topic)])[topic].result(30)
        assert partitions_of(admin, topic) == [0]

    def test_replicas_may_be_assigned_by_hand(self, admin: AdminClient, topic: str) -> None:
        node = admin.describe_cluster().result(30).controller.id
        admin.create_topics([NewTopic(topic, 2, replica_assignment=[[node], [node]])])[topic].result(30)
        assert partitions_of(admin, topic) == [0, 1]

    def test_validation_alone_creates_nothing(self, admin: AdminClient, topic: str) -> None:
        admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(30)
        assert topic not in admin.list_topics(timeout=30).topics

    def test_a_deleted_topic_is_gone_and_can_be_made_anew(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 2)
        first_id = str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)
        write_at(bootstrap, topic, [int(time.time() * 1000)])
        admin.delete_topics([topic])[topic].result(30)
        assert topic not in admin.list_topics(timeout=30).topics
        error = error_of(admin.describe_topics(TopicCollection([topic]))[topic])
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        create_topic(bootstrap, topic, 3)
        assert partitions_of(admin, topic) == [0, 1, 2]
        assert str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id) != first_id
        earliest = TopicPartition(topic, 0)
        assert admin.list_offsets({earliest: OffsetSpec.latest()})[earliest].result(30).offset == 0

    def test_one_request_may_hold_good_and_bad_topics(self, admin: AdminClient, topic: str) -> None:
        futures = admin.create_topics([NewTopic(topic, 1, 1), NewTopic(f"{topic}-bad", 0, 1)])
        futures[topic].result(30)
        assert error_of(futures[f"{topic}-bad"]).code() == KafkaError.INVALID_PARTITIONS

    @pytest.mark.parametrize(
        ("new_topic", "code", "text"),
        [
            (lambda name: NewTopic(name, 0, 1), KafkaError.INVALID_PARTITIONS, "Number of partitions"),
            (lambda name: NewTopic(name, 1, 7), KafkaError.INVALID_REPLICATION_FACTOR, "replication factor"),
            (lambda name: NewTopic(name, 1, 0), KafkaError.INVALID_REPLICATION_FACTOR, "eplication factor"),
            (lambda name: NewTopic(f"{name}/slash", 1, 1), KafkaError.TOPIC_EXCEPTION, "invalid"),
            (lambda name: NewTopic(name + "x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION, "invalid"),
            (lambda name: NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION, "invalid"),
            (
                lambda name: NewTopic(name, 1, replica_assignment=[[77]]),
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                "77",
            ),
            (
                lambda name: NewTopic(name, 1, 1, config={"no.such.config": "1"}),
                KafkaError.INVALID_CONFIG,
                "Unknown topic config name: no.such.config",
            ),
            (
                lambda name: NewTopic(name, 1, 1, config={"retention.ms": "long"}),
                KafkaError.INVALID_CONFIG,
                "Invalid value long for configuration retention.ms: Not a number of type LONG",
            ),
            (
                lambda name: NewTopic(name, 1, 1, config={"cleanup.policy": "burn"}),
                KafkaError.INVALID_CONFIG,
                "cleanup.policy",
            ),
            (
                lambda name: NewTopic(name, 1, 1, config={"min.insync.replicas": "0"}),
                KafkaError.INVALID_CONFIG,
                "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
            ),
        ],
    )
    def test_invalid_new_topic_is_refused_with_a_reason(
        self, admin: AdminClient, topic: str, new_topic: Callable[[str], NewTopic], code: int, text: str
    ) -> None:
        (future,) = admin.create_topics([new_topic(topic)]).values()
        error = error_of(future)
        assert error.code() == code
        assert text in error.str()

    def test_a_topic_cannot_be_created_twice(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        error = error_of(admin.create_topics([NewTopic(topic, 1, 1)])[topic])
        assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS
        assert error.str() == f"Topic '{topic}' already exists."

    def test_a_topic_that_differs_only_in_dots_and_underscores_collides(self, admin: AdminClient, topic: str) -> None:
        admin.create_topics([NewTopic(f"{topic}.a", 1, 1)])[f"{topic}.a"].result(30)
        error = error_of(admin.create_topics([NewTopic(f"{topic}_a", 1, 1)])[f"{topic}_a"])
        assert error.code() == KafkaError.TOPIC_EXCEPTION
        assert "collides" in error.str()

    def test_an_unknown_topic_cannot_be_deleted(self, admin: AdminClient, topic: str) -> None:
        error = error_of(admin.delete_topics([topic])[topic])
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_describing_does_not_create(self, admin: AdminClient, topic: str) -> None:
        error = error_of(admin.describe_topics(TopicCollection([topic]))[topic])
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in admin.list_topics(timeout=30).topics

    def test_producing_to_an_unknown_topic_creates_it(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, b"first")
        assert producer.flush(30) == 0
        assert partitions_of(admin, topic) == [0]


class TestPartitions:
    def test_partitions_are_added(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 2)
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
        assert partitions_of(admin, topic) == [0, 1, 2, 3, 4]
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, b"to the newest", partition=4)
        assert producer.flush(30) == 0

    def test_validation_alone_adds_none(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 2)
        admin.create_partitions([NewPartitions(topic, 5)], validate_only=True)[topic].result(30)
        assert partitions_of(admin, topic) == [0, 1]

    @pytest.mark.parametrize(("total", "text"), [(2, "2"), (1, "1")])
    def test_partitions_only_grow(self, admin: AdminClient, bootstrap: str, topic: str, total: int, text: str) -> None:
        create_topic(bootstrap, topic, 2)
        error = error_of(admin.create_partitions([NewPartitions(topic, total)])[topic])
        assert error.code() == KafkaError.INVALID_PARTITIONS
        assert text in error.str()

    def test_an_unknown_topic_gets_none(self, admin: AdminClient, topic: str) -> None:
        error = error_of(admin.create_partitions([NewPartitions(topic, 5)])[topic])
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


class TestConfigs:
    def test_defaults_are_kafkas(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        configs = topic_configs(admin, topic)
        values = {name: configs[name].value for name in KAFKA_TOPIC_DEFAULTS}
        assert values == KAFKA_TOPIC_DEFAULTS
        assert configs["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
        assert not configs["retention.ms"].is_read_only

    def test_a_value_says_where_it_comes_from(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1, segment_bytes=2_097_152)
        entry = topic_configs(admin, topic)["segment.bytes"]
        assert entry.value == "2097152"
        assert entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        assert not entry.is_default
        assert set(entry.synonyms) == {"segment.bytes", "log.segment.bytes"}

    def test_set_append_subtract_and_delete(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        alter(admin, topic, AlterConfigOpType.SET, "max.message.bytes", "2000").result(30)
        assert topic_configs(admin, topic)["max.message.bytes"].value == "2000"
        alter(admin, topic, AlterConfigOpType.APPEND, "cleanup.policy", "compact").result(30)
        assert topic_configs(admin, topic)["cleanup.policy"].value == "delete,compact"
        alter(admin, topic, AlterConfigOpType.SUBTRACT, "cleanup.policy", "delete").result(30)
        assert topic_configs(admin, topic)["cleanup.policy"].value == "compact"
        alter(admin, topic, AlterConfigOpType.DELETE, "cleanup.policy", None).result(30)
        assert topic_configs(admin, topic)["cleanup.policy"].value == "delete"
        assert topic_configs(admin, topic)["max.message.bytes"].value == "2000"

    @pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
    def test_altering_the_old_way_replaces_everything(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1, retention_ms=5_000, max_message_bytes=3_000)
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "6000"})
        admin.alter_configs([resource])[resource].result(30)
        configs = topic_configs(admin, topic)
        assert configs["retention.ms"].value == "6000"
        assert configs["max.message.bytes"].value == KAFKA_TOPIC_DEFAULTS["max.message.bytes"]

    @pytest.mark.parametrize(
        ("operation", "name", "value", "code"),
        [
            (AlterConfigOpType.SET, "retention.ms", "soon", KafkaError.INVALID_CONFIG),
            (AlterConfigOpType.SET, "no.such.config", "1", KafkaError.INVALID_CONFIG),
            (AlterConfigOpType.SET, "compression.type", "rar", KafkaError.INVALID_CONFIG),
            (AlterConfigOpType.APPEND, "retention.ms", "1", KafkaError.INVALID_CONFIG),
        ],
    )
    def test_a_wrong_change_is_refused_and_changes_nothing(
        self,
        admin: AdminClient,
        bootstrap: str,
        topic: str,
        operation: AlterConfigOpType,
        name: str,
        value: str,
        code: int,
    ) -> None:
        create_topic(bootstrap, topic, 1)
        error = error_of(alter(admin, topic, operation, name, value))
        assert error.code() == code
        assert name in error.str()
        assert topic_configs(admin, topic)["retention.ms"].value == KAFKA_TOPIC_DEFAULTS["retention.ms"]

    def test_an_unknown_topic_has_no_configs(self, admin: AdminClient, topic: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        error = error_of(admin.describe_configs([resource])[resource])
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        error = error_of(alter(admin, topic, AlterConfigOpType.SET, "retention.ms", "1000"))
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_a_changed_limit_binds_the_next_produce(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        alter(admin, topic, AlterConfigOpType.SET, "max.message.bytes", "500").result(30)
        errors: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(topic, b"x" * 5_000, on_delivery=lambda error, _: errors.append(error))
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert KafkaError.MSG_SIZE_TOO_LARGE in [error.code() for error in errors if error is not None]

    def test_a_group_has_configs_before_it_has_members(self, admin: AdminClient, topic: str) -> None:
        name, entry = "consumer.session.timeout.ms", {"incremental_operation": AlterConfigOpType.SET}
        group = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[ConfigEntry(name, "50000", **entry)])
        admin.incremental_alter_configs([group])[group].result(30)
        configs = admin.describe_configs([group])[group].result(30)
        assert configs[name].value == "50000"
        assert [(each.name, each.value) for each in configs[name].synonyms.values()] == [
            (name, "50000"),
            (f"group.{name}", "45000"),
        ]
        wrong = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[ConfigEntry(name, "1", **entry)])
        error = error_of(admin.incremental_alter_configs([wrong])[wrong])
        assert error.code() == KafkaError.INVALID_CONFIG
        assert f"group.{name.replace('consumer.', 'consumer.min.')}" in error.str()

    def test_the_broker_describes_its_own_configs(self, admin: AdminClient) -> None:
        node = admin.describe_cluster().result(30).controller.id
        resource = ConfigResource(ResourceType.BROKER, str(node))
        configs = admin.describe_configs([resource])[resource].result(30)
        assert configs["log.retention.hours"].value == "168"
        assert configs["node.id"].value == str(node)
        assert configs["node.id"].is_read_only
        assert configs["listeners"].source == ConfigSource.STATIC_BROKER_CONFIG.value


class TestCluster:
    def test_the_cluster_is_one_node_with_an_id(self, admin: AdminClient, bootstrap: str) -> None:
        cluster = admin.describe_cluster().result(30)
        assert len(cluster.cluster_id) == 22
        (node,) = cluster.nodes
        assert f"{node.host}:{node.port}" == bootstrap
        assert cluster.controller.id == node.id
        assert admin.list_topics(timeout=30).cluster_id == cluster.cluster_id


class TestOffsets:
    def test_offsets_by_earliest_latest_time_and_maximum(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        now_ms = int(time.time() * 1000)
        write_at(bootstrap, topic, [now_ms - 4_000, now_ms - 1_000, now_ms - 2_000])
        partition = TopicPartition(topic, 0)

        def find(spec: OffsetSpec) -> tuple[int, int]:
            found = admin.list_offsets({partition: spec})[partition].result(30)
            return found.offset, found.timestamp

        assert find(OffsetSpec.earliest()) == (0, -1)
        assert find(OffsetSpec.latest()) == (3, -1)
        assert find(OffsetSpec.for_timestamp(now_ms - 4_000)) == (0, now_ms - 4_000)
        assert find(OffsetSpec.for_timestamp(now_ms - 3_999)) == (1, now_ms - 1_000)
        assert find(OffsetSpec.for_timestamp(now_ms)) == (-1, -1)
        assert find(OffsetSpec.max_timestamp()) == (1, now_ms - 1_000)

    def test_an_empty_partition_has_no_times(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        partition = TopicPartition(topic, 0)
        for spec in (OffsetSpec.for_timestamp(1), OffsetSpec.max_timestamp()):
            found = admin.list_offsets({partition: spec})[partition].result(30)
            assert (found.offset, found.timestamp) == (-1, -1)

    def test_deleted_records_are_out_of_reach(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        now_ms = int(time.time() * 1000)
        write_at(bootstrap, topic, [now_ms] * 5)
        deleted = admin.delete_records([TopicPartition(topic, 0, 3)])
        (low_watermark,) = [future.result(30).low_watermark for future in deleted.values()]
        assert low_watermark == 3
        partition = TopicPartition(topic, 0)
        assert admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(30).offset == 3
        assert admin.list_offsets({partition: OffsetSpec.for_timestamp(0)})[partition].result(30).offset == 3

    def test_all_records_may_be_deleted_but_not_more(self, admin: AdminClient, bootstrap: str, topic: str) -> None:
        create_topic(bootstrap, topic, 1)
        write_at(bootstrap, topic, [int(time.time() * 1000)] * 2)
        (beyond,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
        assert error_of(beyond).code() == KafkaError.OFFSET_OUT_OF_RANGE
        (all_of_it,) = admin.delete_records([TopicPartition(topic, 0, -1)]).values()
        assert all_of_it.result(30).low_watermark == 2


KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
