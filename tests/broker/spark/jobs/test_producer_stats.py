"""`stats` of topics with lost or duplicated records, written by a node that forgets producers at once."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.client import SyncAdmin, TopicPartition
from broker.spark.jobs.stats import render_page, topic_stats
from broker.spark.jobs.topic_stats import SequenceCounts
from tests.support.job_topics import JobTopics
from tests.support.node_process import NodeProcess

FORGETFUL = {
    "producer.id.expiration.ms": "1",
    "producer.id.expiration.check.interval.ms": "5",
    "log.initial.task.delay.ms": "0",
}


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[JobTopics]:
    node = NodeProcess(tmp_path / "data", FORGETFUL)
    try:
        node.start()
        yield JobTopics(node.bootstrap)
        node.stop()
    finally:
        node.discard()


def wait_until_forgotten(topics: JobTopics, name: str, partition: int) -> None:
    """Wait until a partition knows no producer."""
    written, deadline = TopicPartition(name, partition), time.monotonic() + 10
    with SyncAdmin(topics.bootstrap) as admin:
        while admin.describe_producers([written]).raise_first()[written]:
            assert time.monotonic() < deadline, f"{written} knows its producer"
            time.sleep(0.005)


def test_lost_and_repeated_records_are_found_by_partition(spark: SparkSession, forgetful: JobTopics) -> None:
    topic = forgetful.create("planted", 3)
    again, after_two_lost = (0, 7, 0, 3), (0, 7, 5, 2)
    for written in ((0, 7, 0, 3), again, after_two_lost, (1, 7, 0, 2), (1, 8, 0, 2), (1, 7, 2, 1)):
        forgetful.write_numbered(topic, *written)
        wait_until_forgotten(forgetful, topic, written[0])
    forgetful.write(topic, [{"value": b"v", "partition": 2}])
    (found,) = topic_stats(spark, [topic], forgetful.options)
    assert [found.measures.sequences, *(each.measures.sequences for each in found.partitions)] == [
        SequenceCounts(producers=3, records=14, duplicates=3, gaps=1, missing=2),
        SequenceCounts(producers=1, records=8, duplicates=3, gaps=1, missing=2),
        SequenceCounts(producers=2, records=5, duplicates=0, gaps=0, missing=0),
        SequenceCounts(producers=1, records=1, duplicates=0, gaps=0, missing=0),
    ]
    page = render_page([found], "a cluster")
    for producers in (3, 1):
        assert f'<td>{producers}</td><td class="bad">2</td><td class="bad">3</td></tr>' in page
