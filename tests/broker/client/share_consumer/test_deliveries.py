"""Given records and their outcomes: acknowledged, sent, renewed, taken back (KIP-932, KIP-1222)."""

from math import inf

import pytest

from broker.client import AcknowledgeType, ClientError, RecordNotAcquired, ShareRecord, TopicPartition, WrongValue
from broker.client.share_consumer.acknowledgements import Outcome, Source
from broker.client.share_consumer.deliveries import Deliveries, Delivery
from broker.wire.records import TimestampType

PARTITION = TopicPartition("topic", 0)
SOURCE = Source(1, PARTITION, b"t" * 16, 0)
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)


def delivery(offset: int, source: Source = SOURCE) -> Delivery[bytes, bytes]:
    record = ShareRecord("topic", 0, offset, 0, TimestampType.CREATE_TIME, None, b"", (), None, 1)
    return Delivery(record, source, inf)


def given(*offsets: int) -> Deliveries[bytes, bytes]:
    deliveries: Deliveries[bytes, bytes] = Deliveries()
    deliveries.give(map(delivery, offsets))
    return deliveries


def sent(deliveries: Deliveries[bytes, bytes]) -> list[Outcome]:
    return [outcome for each in deliveries.take() for outcome in each.outcomes]


def test_the_last_outcome_before_a_request_counts_and_a_sent_record_is_gone() -> None:
    deliveries = given(0, 1, 2)
    deliveries.acknowledge(PARTITION, 0, RELEASE)
    deliveries.acknowledge(PARTITION, 0, ACCEPT)
    deliveries.acknowledge(PARTITION, 1, ACCEPT)
    assert sent(deliveries) == [Outcome(0, 1, ACCEPT)]
    with pytest.raises(RecordNotAcquired):
        deliveries.acknowledge(PARTITION, 0, ACCEPT)
    with pytest.raises(ClientError, match="offset 2 of topic-0 has not been acknowledged"):
        deliveries.check_all_acknowledged()
    deliveries.accept_all()
    assert sent(deliveries) == [Outcome(2, 2, ACCEPT)]
    assert deliveries.take() == []


def test_records_of_two_sessions_are_acknowledged_apart() -> None:
    deliveries = given(0)
    deliveries.give([delivery(1, Source(1, PARTITION, b"t" * 16, 1))])
    deliveries.accept_all()
    assert [each.source.session for each in deliveries.take()] == [0, 1]


def test_gaps_and_unreadable_records_go_with_the_next_request_and_are_not_delivered() -> None:
    deliveries = given(5)
    deliveries.accept_all()
    deliveries.add_gap(SOURCE, 0, 1)
    deliveries.add_unreadable(SOURCE, [Outcome(2, 4, REJECT)])
    deliveries.acknowledge(PARTITION, 3, RELEASE)
    with pytest.raises(WrongValue):
        deliveries.acknowledge(PARTITION, 2, RENEW)
    (acknowledgement,) = deliveries.take()
    assert acknowledgement.outcomes == [
        Outcome(0, 1, AcknowledgeType.GAP),
        Outcome(2, 2, REJECT),
        Outcome(3, 3, RELEASE),
        Outcome(4, 4, REJECT),
        Outcome(5, 5, ACCEPT),
    ]
    assert acknowledgement.delivered == [5]


def test_a_renewed_record_is_held_again_and_returned_again_unless_it_is_acknowledged_first() -> None:
    deliveries = given(0, 1)
    for offset in (0, 1):
        deliveries.acknowledge(PARTITION, offset, RENEW)
    (acknowledgement,) = deliveries.take()
    assert acknowledgement.renewed == [0, 1]
    assert deliveries.take_renewed() == []
    deliveries.settle_renewals(acknowledgement, 7.0)
    deliveries.check_all_acknowledged()
    deliveries.acknowledge(PARTITION, 0, ACCEPT)
    assert [(each.offset, each.lock_ends) for each in deliveries.take_renewed()] == [(1, 7.0)]


def test_a_record_whose_renewal_failed_is_gone() -> None:
    deliveries = given(0)
    deliveries.acknowledge(PARTITION, 0, RENEW)
    (acknowledgement,) = deliveries.take()
    deliveries.settle_renewals(acknowledgement, None)
    assert deliveries.take_renewed() == []
    with pytest.raises(RecordNotAcquired):
        deliveries.acknowledge(PARTITION, 0, ACCEPT)


def test_records_that_did_not_reach_the_application_are_taken_back_unless_acknowledged() -> None:
    deliveries = given()
    first, second = delivery(0), delivery(1)
    deliveries.give([first, second])
    deliveries.acknowledge(PARTITION, 1, ACCEPT)
    assert deliveries.take_back([first.record, second.record]) == [first]
    assert sent(deliveries) == [Outcome(1, 1, ACCEPT)]
