"""TopicRouting: the partitions of a topic's records, as its metadata changes."""

from random import Random

import pytest

from broker.client.metadata_cache import PartitionMetadata, TopicMetadata
from broker.client.producer.accumulator import Accumulator, AccumulatorLimits
from broker.client.producer.buffer_memory import BufferMemory
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.partitioners import KeyHashes
from broker.client.producer.routing import UNKNOWN_PARTITION, PartitionChoice, TopicRouting
from broker.wire.errors import ErrorCode


def described(topic_id: int, partitions: int) -> TopicMetadata:
    found = [PartitionMetadata(number, 1, 0, (1,), (1,), ()) for number in range(partitions)]
    return TopicMetadata("orders", bytes([topic_id]) * 16, False, ErrorCode.NONE, found)


@pytest.fixture
def routing() -> TopicRouting:
    accumulator = Accumulator(AccumulatorLimits(), None, CompressionRatios(is_compressing=False), BufferMemory(1 << 20))
    return TopicRouting("orders", accumulator, PartitionChoice(Random(1)), KeyHashes(), lambda: 0.0)


def used_partitions(routing: TopicRouting) -> set[int]:
    """The partitions of records with many keys, and of one without a key."""
    batches = [routing.batch_for(b"%d" % number, b"", None, 10) for number in range(50)]
    batches.append(routing.sticky_batch(10))
    return {batch.partition.partition for batch in batches}


def test_recreated_topic_with_fewer_partitions_gets_no_records_for_the_others(
    routing: TopicRouting,
) -> None:
    routing.update(described(1, 8))
    routing.sticky = routing.queues[7]
    assert used_partitions(routing) == set(range(8))
    routing.update(described(2, 2))
    assert used_partitions(routing) == {0, 1}
    assert routing.batch_for(None, b"", 5, 10).partition.partition == UNKNOWN_PARTITION, "held until it is there"


def test_outdated_metadata_of_the_same_topic_removes_no_partitions(routing: TopicRouting) -> None:
    routing.update(described(1, 8))
    routing.update(described(1, 4))
    assert used_partitions(routing) == set(range(8))
