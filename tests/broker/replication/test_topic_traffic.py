"""Traffic counts of a partition, and those of its topic, to which they are added."""

from pathlib import Path

import attrs
import pytest

from broker.wire.errors import ErrorCode
from tests.support.partition_harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.become()
    harness.append(3)
    return harness


def test_traffic_is_added_to_the_topic_once(harness: Harness) -> None:
    partition, log = harness.partition, harness.partition.log
    assert log is not None
    partition.bytes_out, partition.replication_bytes_in, partition.replication_bytes_out = 10, 20, 30
    partition.failed_produces, partition.failed_fetches = 4, 5
    for _ in range(2):
        partition.add_to_topic(log)
        assert attrs.asdict(partition.topic_traffic) == {
            "records_in": 3,
            "bytes_in": log.size_bytes,
            "bytes_out": 10,
            "replication_bytes_in": 20,
            "replication_bytes_out": 30,
            "failed_produces": 4,
            "failed_fetches": 5,
        }


def test_traffic_of_a_closed_partition_stays_in_the_topic(harness: Harness) -> None:
    harness.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert harness.partition.topic_traffic.records_in == 3
