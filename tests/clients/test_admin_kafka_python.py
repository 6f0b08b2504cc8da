"""Administration with kafka-python, including requests of this client only: log directories, topic ids, partitions."""

import time
import uuid
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import OffsetSpec

pytestmark = pytest.mark.clients


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    admin.create_topics(
        {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}},
        wait_for_metadata=True,
    )


def write(bootstrap: str, topic: str, values: list[bytes], first_timestamp_ms: int | None = None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for index, value in enumerate(values):
            timestamp_ms = None if first_timestamp_ms is None else first_timestamp_ms + index
            producer.send(topic, value, partition=0, timestamp_ms=timestamp_ms).get(timeout=30)
    finally:
        producer.close()


def test_topics_are_created_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, 3)
    assert topic in admin.list_topics()
    (description,) = admin.describe_topics([topic])
    assert description["name"] == topic
    assert {partition["partition_index"] for partition in description["partitions"]} == {0, 1, 2}
    (by_id,) = admin.describe_topics([uuid.UUID(description["topic_id"])])
    assert by_id["name"] == topic
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_creation_answers_with_the_topic_as_it_is(admin: KafkaAdminClient, topic: str) -> None:
    answer = admin.create_topics({topic: {"configs": {"retention.ms": "999"}}})
    (created,) = answer["topics"]
    assert created["error_code"] == 0
    assert uuid.UUID(created["topic_id"]).int
    assert (created["num_partitions"], created["replication_factor"]) == (1, 1)
    assert created["configs"]["retention.ms"]["value"] == "999"
    assert created["configs"]["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert created["configs"]["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"


def test_a_topic_is_deleted_by_its_id(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    (description,) = admin.describe_topics([topic])
    topic_id = uuid.UUID(description["topic_id"])
    admin.delete_topics([topic_id])
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicIdError):
        admin.delete_topics([topic_id])


def test_errors_arrive_as_exceptions(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([f"{topic}-unknown"])
    with pytest.raises(InvalidConfigurationError):
        admin.create_topics({f"{topic}-b": {"configs": {"segment.bytes": "many"}}})
    with pytest.raises(InvalidPartitionsError):
        admin.create_topics({f"{topic}-c": {"num_partitions": 0, "replication_factor": 1}})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 1})


def test_described_partitions_come_page_by_page(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, 5)
    page = admin.describe_topic_partitions([topic], response_partition_limit=3)
    (description,) = page["topics"]
    assert [partition["partition_index"] for partition in description["partitions"]] == [0, 1, 2]
    assert page["next_cursor"] == {"topic_name": topic, "partition_index": 3}
    rest = admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=page["next_cursor"])
    (description,) = rest["topics"]
    assert [partition["partition_index"] for partition in description["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None
    (unknown,) = admin.describe_topic_partitions([f"{topic}-unknown"])["topics"]
    assert unknown["error_code"] == UnknownTopicOrPartitionError.errno


def test_configs_are_changed_described_and_reset(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "12345"})
    assert admin.alter_configs([resource]) == {"topic": {topic: "OK"}}
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], include_synonyms=True)
    retention = described["topic"][topic]["retention.ms"]
    assert (retention["value"], retention["config_source"]) == ("12345", "DYNAMIC_TOPIC_CONFIG")
    assert retention["config_type"] == "LONG"
    first_synonym = retention["synonyms"][0]
    assert (first_synonym["name"], first_synonym["source"]) == ("retention.ms", "DYNAMIC_TOPIC_CONFIG")
    assert admin.reset_configs([resource]) == {"topic": {topic: "OK"}}
    assert admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic] == {}


def test_groups_have_configs_and_are_listed_for_them(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    group = f"group-of-{topic}"
    resource = ConfigResource(ConfigResourceType.GROUP, group, {"consumer.heartbeat.interval.ms": "6000"})
    assert admin.alter_configs([resource]) == {"group": {group: "OK"}}
    described = admin.describe_configs([ConfigResource(ConfigResourceType.GROUP, group)], config_filter="all")
    configs = described["group"][group]
    values = {name: config["value"] for name, config in configs.items() if name.startswith("consumer.")}
    assert values == {
        "consumer.assignment.interval.ms": "1000",
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "45000",
    }
    assert configs["consumer.heartbeat.interval.ms"]["config_source"] == "DYNAMIC_GROUP_CONFIG"
    listed = admin.list_config_resources()
    assert group in listed["group"]
    assert topic in listed["topic"]
    assert len(listed["broker"]) == 1
    assert group not in admin.list_config_resources(["TOPIC"]).get("group", [])
    wrong = ConfigResource(ConfigResourceType.GROUP, group, {"consumer.session.timeout.ms": "1"})
    assert "group.consumer.min.session.timeout.ms" in str(admin.alter_configs([wrong])["group"][group])
    assert admin.reset_configs([resource]) == {"group": {group: "OK"}}
    assert group not in admin.list_config_resources(["GROUP"]).get("group", [])


def test_only_the_configs_asked_for_are_described(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms", "cleanup.policy"])
    described = admin.describe_configs([asked], config_filter="all")["topic"][topic]
    assert set(described) == {"retention.ms", "cleanup.policy"}


def test_log_directories_tell_the_size_of_each_partition(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create(admin, topic, 2)
    write(bootstrap, topic, [b"x" * 10_000])
    (broker,) = admin.describe_log_dirs({topic: [0, 1]})
    (log_dir,) = broker["log_dirs"]
    assert log_dir["error_code"] == 0
    assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0
    (described,) = log_dir["topics"]
    assert described["name"] == topic
    sizes = {partition["partition_index"]: partition["partition_size"] for partition in described["partitions"]}
    assert sizes[1] == 0
    assert 10_000 < sizes[0] < 10_200
    assert all(not partition["is_future_key"] for partition in described["partitions"])


def test_the_cluster_is_described(admin: KafkaAdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    assert len(cluster["cluster_id"]) == 22
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert cluster["controller_id"] == broker["broker_id"]


def test_offsets_are_found_and_records_deleted(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create(admin, topic)
    first_ms = int(time.time() * 1000) - 5_000
    write(bootstrap, topic, [b"a", b"b", b"c", b"d"], first_ms)
    partition = TopicPartition(topic, 0)

    def find(spec: int) -> tuple[int, int]:
        found = admin.list_partition_offsets({partition: spec})[partition]
        return found.offset, found.timestamp

    assert find(OffsetSpec.EARLIEST) == (0, -1)
    assert find(OffsetSpec.LATEST) == (4, -1)
    assert find(OffsetSpec.MAX_TIMESTAMP) == (3, first_ms + 3)
    assert find(first_ms + 2) == (2, first_ms + 2)
    assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
    assert find(OffsetSpec.EARLIEST) == (2, -1)
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 5})


def test_a_consumer_finds_offsets_by_time(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    create(admin, topic)
    first_ms = int(time.time() * 1000) - 5_000
    write(bootstrap, topic, [b"a", b"b", b"c"], first_ms)
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        assert consumer.partitions_for_topic(topic) == {0}
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 3}
        found = consumer.offsets_for_times({partition: first_ms + 1})[partition]
        assert (found.offset, found.timestamp) == (1, first_ms + 1)
        assert consumer.offsets_for_times({partition: first_ms + 100}) == {partition: None}
    finally:
        consumer.close()
