"""Offsets that clients commit without being members: every other client reads them, a coordinator that is killed keeps
them, administrators change them, and Kafka's own tool reads them.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import GroupIdNotFoundError
from kafka.structs import OffsetAndMetadata

from benchmarks import apache_kafka
from tests.support.confluent_driver import create_topic
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PARTITIONS = 3
WITHIN_S = 30.0

# Offset and metadata by partition.
Offsets = dict[int, tuple[int, str]]


class Confluent:
    """This client appends a zero byte to metadata, and reads beyond the end of metadata without one."""

    name = "confluent"

    def commit(self, bootstrap: str, group: str, topic: str, offsets: Offsets) -> None:
        consumer = _confluent_consumer(bootstrap, group)
        wanted = [TopicPartition(topic, index, offset, note) for index, (offset, note) in offsets.items()]
        committed = consumer.commit(offsets=wanted, asynchronous=False)
        assert [each.error for each in committed] == [None] * len(wanted)
        consumer.close()

    def committed(self, bootstrap: str, group: str, topic: str) -> Offsets:
        consumer = _confluent_consumer(bootstrap, group)
        asked = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        found = consumer.committed(asked, timeout=WITHIN_S)
        consumer.close()
        return {each.partition: (each.offset, each.metadata or "") for each in found if each.offset >= 0}


def _confluent_consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


class KafkaPython:
    name = "kafka-python"

    def commit(self, bootstrap: str, group: str, topic: str, offsets: Offsets) -> None:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        consumer.assign([KafkaPythonPartition(topic, index) for index in offsets])
        consumer.commit(
            {
                KafkaPythonPartition(topic, index): OffsetAndMetadata(offset, note, -1)
                for index, (offset, note) in offsets.items()
            }
        )
        consumer.close()

    def committed(self, bootstrap: str, group: str, topic: str) -> Offsets:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
        found = {}
        for index in range(PARTITIONS):
            each = consumer.committed(KafkaPythonPartition(topic, index), metadata=True)
            if each is not None:
                found[index] = (each.offset, each.metadata or "")
        consumer.close()
        return found


class Aiokafka:
    """This client does not return the metadata of committed offsets."""

    name = "aiokafka"

    def commit(self, bootstrap: str, group: str, topic: str, offsets: Offsets) -> None:
        async def commit() -> None:
            async with AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
            ) as consumer:
                consumer.assign([AiokafkaPartition(topic, index) for index in offsets])
                await consumer.commit({AiokafkaPartition(topic, index): each for index, each in offsets.items()})

        asyncio.run(commit())

    def committed(self, bootstrap: str, group: str, topic: str) -> Offsets:
        async def committed() -> Offsets:
            found: Offsets = {}
            async with AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
            ) as consumer:
                for index in range(PARTITIONS):
                    offset = await consumer.committed(AiokafkaPartition(topic, index))
                    if offset is not None:
                        found[index] = (offset, "")
            return found

        return asyncio.run(committed())


Client = Confluent | KafkaPython | Aiokafka
CLIENTS: list[Client] = [Confluent(), KafkaPython(), Aiokafka()]


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: client.name)
def test_every_client_reads_the_offsets_that_another_commits(
    writer: Client, reader: Client, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    offsets: Offsets = {0: (5, "first"), 2: (1 << 40, "nötig")}

    writer.commit(bootstrap, f"group-{topic}", topic, offsets)

    found = reader.committed(bootstrap, f"group-{topic}", topic)
    assert {index: offset for index, (offset, _) in found.items()} == {0: 5, 2: 1 << 40}
    if reader.name == writer.name != "aiokafka":
        assert found == offsets
    assert reader.committed(bootstrap, f"other-{topic}", topic) == {}


def test_commits_survive_the_coordinators_kill(new_node: Callable[..., NodeProcess]) -> None:
    node = new_node(offsets_topic_num_partitions=5)
    node.start()
    create_topic(node.bootstrap, "topic", PARTITIONS)
    groups = [f"group-{number}" for number in range(2 * len(CLIENTS))]
    for life in range(3):
        for number, group in enumerate(groups):
            CLIENTS[number % 3].commit(node.bootstrap, group, "topic", {life: (100 * life + number, "")})
        node.kill()
        node.start()
        for number, group in enumerate(groups):
            found = _when_loaded(node.bootstrap, group)
            assert found == {index: (100 * index + number, "") for index in range(life + 1)}
    node.stop()


def _when_loaded(bootstrap: str, group: str) -> Offsets:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return Confluent().committed(bootstrap, group, "topic")
        except KafkaException as error:
            # librdkafka retries by itself if the coordinator is another broker, but not always while it loads.
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
                raise


def test_an_administrator_alters_and_lists_offsets_through_librdkafka(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    group = f"group-{topic}"
    Confluent().commit(bootstrap, group, topic, {0: (5, ""), 1: (6, "")})
    admin = AdminClient({"bootstrap.servers": bootstrap})

    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 60), TopicPartition(topic, 2, 70)])
    altered = admin.alter_consumer_group_offsets([wanted])[group].result(WITHIN_S)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WITHIN_S)

    assert [each.error for each in altered.topic_partitions] == [None, None]
    assert {each.partition: each.offset for each in listed.topic_partitions} == {0: 5, 1: 60, 2: 70}


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_an_administrator_alters_lists_and_deletes_offsets_through_kafka_python(
    admin: KafkaAdminClient, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    group = f"group-{topic}"
    partitions = [KafkaPythonPartition(topic, index) for index in range(PARTITIONS)]

    admin.alter_group_offsets(group, {each: OffsetAndMetadata(7, "note", -1) for each in partitions})
    admin.delete_group_offsets(group, partitions[1:])

    listed = admin.list_group_offsets(group)
    found = listed.get(group, listed)
    assert {each: (told.offset, told.metadata) for each, told in found.items()} == {partitions[0]: (7, "note")}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets(f"absent-{topic}", partitions)


def test_kafkas_dump_tool_decodes_committed_offsets(new_node: Callable[..., NodeProcess], kafka_jars: None) -> None:
    node = new_node(offsets_topic_num_partitions=1)
    node.start()
    create_topic(node.bootstrap, "topic", PARTITIONS)
    KafkaPython().commit(node.bootstrap, "group", "topic", {0: (5, "note"), 2: (6, "")})
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    admin.delete_group_offsets("group", [KafkaPythonPartition("topic", 2)])
    admin.close()
    node.stop()

    (segment,) = (node.data_dir / "__consumer_offsets-0").glob("*.log")
    line = apache_kafka.java("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    dumped = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout

    decoded = [line.partition(" key: ")[2].partition(" payload: ") for line in dumped.splitlines() if " key: " in line]
    keys = [json.loads(key) for key, _, _ in decoded]
    values = [payload if payload == "<DELETE>" else json.loads(payload) for _, _, payload in decoded]
    assert {key["type"] for key in keys} == {"1"}
    assert [(key["data"]["group"], key["data"]["topic"], key["data"]["partition"]) for key in keys] == [
        ("group", "topic", 0),
        ("group", "topic", 2),
        ("group", "topic", 2),
    ]
    assert values[2] == "<DELETE>"
    first = values[0]["data"]
    assert (values[0]["version"], first["offset"], first["metadata"], first["leaderEpoch"]) == ("4", 5, "note", -1)
