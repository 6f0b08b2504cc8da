"""Acquired records that wait for the application (KIP-932, KIP-1206)."""

from math import inf

import pytest

from broker.client import TopicPartition
from broker.client.share_consumer.acknowledgements import Source
from broker.client.share_consumer.acquired_records import AcquiredPartition
from broker.client.share_consumer.deliveries import Deliveries
from broker.client.share_consumer.delivery_queue import DeliveryQueue
from broker.wire.api.share_fetch import AcquiredRecords
from tests.support.scripted_broker import batch


def acquired(partition: int, count: int, lock_ends: float = inf) -> AcquiredPartition:
    source = Source(1, TopicPartition("topic", partition), b"t" * 16, 0)
    ranges = [AcquiredRecords(first_offset=0, last_offset=count - 1, delivery_count=1)]
    return AcquiredPartition(source, batch(0, count), ranges, lock_ends, check_crc=True)


@pytest.mark.parametrize(("is_limited", "sizes"), [(True, [10, 6]), (False, [16])])
def test_a_record_limit_holds_for_two_responses_together_kip_1206(is_limited: bool, sizes: list[int]) -> None:
    queue: DeliveryQueue[bytes, bytes] = DeliveryQueue(Deliveries(), None, None, is_limited=is_limited)
    queue.add(acquired(0, 6))
    queue.add(acquired(1, 10))
    assert [len(queue.take(10, 0.0)) for _ in sizes] == sizes
    assert queue.is_empty


def test_records_are_dropped_when_their_locks_have_ended() -> None:
    queue: DeliveryQueue[bytes, bytes] = DeliveryQueue(Deliveries(), None, None, is_limited=False)
    queue.add(acquired(0, 2, lock_ends=1.0))
    queue.add(acquired(1, 3, lock_ends=2.0))
    assert [each.record.partition for each in queue.take(10, 1.0)] == [1, 1, 1]
    queue.add(acquired(0, 2, lock_ends=2.0))
    queue.put_back(queue.take(10, 1.0))
    assert not queue.has_ready(2.0)
