"""With a given Kafka release, kafka-python takes API versions from a table instead of requesting them from the node."""

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

RECORDS = 10


@pytest.mark.parametrize("release", [(4, 3), (4, 2), (4, 1), (4, 0), (3, 9)])
def test_clients_that_take_versions_from_a_table_work(
    groups_node: NodeProcess, topic: str, release: tuple[int, int]
) -> None:
    config = {"bootstrap_servers": groups_node.bootstrap, "api_version": release}
    name = f"table-{topic[-8:]}"
    admin = KafkaAdminClient(**config)
    admin.create_topics([NewTopic(name, 1, 1)])
    assert name in admin.list_topics()
    admin.close()

    producer = KafkaProducer(**config)
    offsets = [producer.send(name, b"%d" % number).get(timeout=10).offset for number in range(RECORDS)]
    producer.close()
    assert offsets == list(range(RECORDS))

    consumer = KafkaConsumer(
        name, **config, group_id=name, auto_offset_reset="earliest", consumer_timeout_ms=10_000, max_poll_records=1
    )
    read = [record.value for _, record in zip(range(RECORDS), consumer, strict=False)]
    ends = consumer.end_offsets([TopicPartition(name, 0)])
    consumer.close()
    assert read == [b"%d" % number for number in range(RECORDS)]
    assert ends == {TopicPartition(name, 0): RECORDS}
