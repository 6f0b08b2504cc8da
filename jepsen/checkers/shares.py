"""Promises to share groups (KIP-932)."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.records import final_reads
from jepsen.checkers.share_records import (
    FINAL_TYPES,
    Acknowledgement,
    Delivery,
    SharedRecords,
    completed,
    excerpt,
    group_settings,
    is_later_leader,
)
from jepsen.checkers.share_states import (
    EveryRecordIsFinished,
    FinalStatesHaveReasons,
    FinalStatesStay,
    StoredCountsAreOfDeliveries,
)
from jepsen.history import History, Operation, Outcome
from jepsen.share_values import GONE
from metadata.protocol import AcknowledgeType


class DeliveredRecordsAreOfTheLog:
    """A delivered record is the one that the log has at its offset, unless it was appended after the final read.

    A send may reach the leader long after its client has given up.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        for partition, offset, deliveries in SharedRecords(history):
            final = finals.get((partition.topic, partition.partition))
            for delivery in deliveries if final is not None else ():
                is_later = final is not None and offset >= final.end and _may_follow(delivery, final.operation)
                if final is not None and final.records.get(offset) != delivery.value and not is_later:
                    what = f"{partition}: {delivery.value} was delivered at {offset}"
                    yield Anomaly(type(self).__name__, what, (excerpt(delivery, offset), final.around(offset)))


class DeliveriesStayWithinTheLimit:
    """A delivery count is at least 1, and not above the group's limit."""

    def check(self, history: History) -> Iterator[Anomaly]:
        groups = group_settings(history)
        for partition, offset, deliveries in SharedRecords(history):
            limit = groups[partition.group].delivery_count_limit
            for delivery in deliveries:
                if not 1 <= delivery.count <= limit:
                    what = f"{partition}: delivery {delivery.count} of {offset}, with a limit of {limit}"
                    yield Anomaly(type(self).__name__, what, (excerpt(delivery, offset),))


class DeliveriesAreCounted:
    """After a release is stored, the record's delivery count is higher."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for earlier, release in _stored(deliveries, AcknowledgeType.RELEASE):
                for delivery in _after(deliveries, release):
                    if delivery.count <= earlier.count:
                        what = f"{partition}: delivery {delivery.count} of {offset} after delivery {earlier.count}"
                        proof = excerpt(earlier, offset), release.operation, excerpt(delivery, offset)
                        yield Anomaly(type(self).__name__, what, proof)


class NothingElseIsCounted:
    """A delivery count is not higher than the number of deliveries."""

    def check(self, history: History) -> Iterator[Anomaly]:
        records = SharedRecords(history)
        for partition, offset, deliveries in records:
            for delivery in deliveries:
                end = completed(delivery.operation)
                possible = sum(each.operation.invoked_at < end for each in deliveries)
                if delivery.count > possible + records.unknown_before(partition, end):
                    what = f"{partition}: delivery {delivery.count} of {offset} is number {possible} at most"
                    yield Anomaly(type(self).__name__, what, (excerpt(delivery, offset),))


class NothingIsDeliveredAfterItIsFinished:
    """After an acceptance or a rejection is stored, the record is not delivered again."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for earlier, acknowledgement in _stored(deliveries, *FINAL_TYPES):
                for delivery in _after(deliveries, acknowledgement):
                    what = f"{partition}: {offset} was delivered after it was finished"
                    proof = excerpt(earlier, offset), acknowledgement.operation, excerpt(delivery, offset)
                    yield Anomaly(type(self).__name__, what, proof)


class LocksAreExclusive:
    """While a member holds a record, no other one gets it, from the same leader or with an effect."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for pair in combinations(deliveries, 2):
                for holder, other in (pair, pair[::-1]):
                    if _is_within(other.operation, holder) and _have_one_leader(holder, other):
                        what = f"{partition}: two members hold {offset}"
                        yield Anomaly(type(self).__name__, what, (excerpt(holder, offset), excerpt(other, offset)))


class EmptyGroupsStay:
    """A share group without members keeps its position in its topics: it exists until it is deleted, as in Kafka."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("describe-empty-share-group", outcome=Outcome.OK):
            if operation.result == GONE:
                what = f"share group {operation.value} is gone, and was not deleted"
                yield Anomaly(type(self).__name__, what, (operation,))


def _may_follow(delivery: Delivery, read: Operation) -> bool:
    return completed(delivery.operation) > read.invoked_at


def _is_within(operation: Operation, holder: Delivery) -> bool:
    """True if the record was acquired while `holder` certainly held it."""
    return holder.held_from <= operation.invoked_at and completed(operation) <= holder.held_until


def _have_one_leader(holder: Delivery, other: Delivery) -> bool:
    if holder.leader_epoch == other.leader_epoch >= 0:
        return True
    return holder.is_stored and other.is_stored


def _stored(deliveries: Sequence[Delivery], *kinds: AcknowledgeType) -> Iterator[tuple[Delivery, Acknowledgement]]:
    for delivery in deliveries:
        for acknowledgement in delivery.acknowledgements:
            if acknowledgement.is_stored and acknowledgement.kind in kinds:
                yield delivery, acknowledgement


def _after(deliveries: Sequence[Delivery], acknowledgement: Acknowledgement) -> Iterator[Delivery]:
    """The deliveries by leaders that knew what was stored, and that were asked for after that."""
    since = completed(acknowledgement.operation)
    for delivery in deliveries:
        if delivery.operation.invoked_at >= since and is_later_leader(delivery, acknowledgement.leader_epoch):
            yield delivery


SHARE_CHECKERS: Final[tuple[Checker, ...]] = (
    DeliveredRecordsAreOfTheLog(),
    EveryRecordIsFinished(),
    DeliveriesStayWithinTheLimit(),
    DeliveriesAreCounted(),
    NothingElseIsCounted(),
    NothingIsDeliveredAfterItIsFinished(),
    LocksAreExclusive(),
    FinalStatesHaveReasons(),
    FinalStatesStay(),
    StoredCountsAreOfDeliveries(),
    EmptyGroupsStay(),
)
