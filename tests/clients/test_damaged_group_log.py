"""A damaged batch in __consumer_offsets after a clean stop is reported once, with instructions."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.confluent_driver import create_topic
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients


def test_a_coordinator_that_cannot_load_its_log_is_told(new_node: Callable[..., NodeProcess], topic: str) -> None:
    node = new_node(offsets_topic_num_partitions=1, offsets_topic_replication_factor=1)
    node.start()
    create_topic(node.bootstrap, topic, 1)
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "group"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    node.stop()

    log = node.data_dir / "__consumer_offsets-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    node.start()
    with pytest.raises(KafkaException):
        consumer.committed([TopicPartition(topic, 0)], timeout=3)
    consumer.close()

    (line,) = [line for line in node.output().splitlines() if "the coordinator for partition" in line]
    assert (
        " error node 1: coordinator_load_failed: the coordinator for partition 0 of __consumer_offsets cannot" in line
    )
    assert f"the batch at offset 0 in {log} is damaged: Record is corrupt" in line
    assert "elect one whose replica is intact" in line
    node.stop()
