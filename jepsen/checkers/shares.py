"""Promises to share groups (KIP-932)."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import attrs

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.records import final_reads
from jepsen.checkers.share_records import (
    FINAL_TYPES,
    Acknowledgement,
    Delivery,
    SharedRecords,
    SharePartition,
    completed,
    group_settings,
    is_later_leader,
)
from jepsen.history import History, Operation
from metadata.protocol import AcknowledgeType


class DeliveredRecordsAreOfTheLog:
    """A delivered record is the one that the log has at its offset."""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        for partition, offset, deliveries in SharedRecords(history):
            final = finals.get((partition.topic, partition.partition))
            for delivery in deliveries if final is not None else ():
                if final is not None and final.records.get(offset) != delivery.value:
                    what = f"{partition}: {delivery.value} was delivered at {offset}"
                    yield Anomaly(type(self).__name__, what, (_excerpt(delivery, offset), final.around(offset)))


class EveryRecordIsFinished:
    """At the end, each record was accepted or rejected by a member, or delivered as often as the limit says.

    It was not skipped, and it was not given up before.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        records, groups = SharedRecords(history), group_settings(history)
        for (topic, index), final in final_reads(history).items():
            for group, settings in groups.items():
                partition = SharePartition(group, topic, index)
                unknown = records.unknown_before(partition, completed(final.operation))
                for offset in final.records:
                    deliveries = records.of(partition, offset)
                    if any(_may_be_final(delivery) for delivery in deliveries):
                        continue
                    if len(deliveries) + unknown < settings.delivery_count_limit:
                        what = f"{partition}: {offset} was delivered {len(deliveries)} times, and never accepted"
                        proof = tuple(_excerpt(delivery, offset) for delivery in deliveries)
                        yield Anomaly(type(self).__name__, what, (*proof, *_acknowledgements(deliveries)))


class DeliveriesStayWithinTheLimit:
    """A delivery count is at least 1, and not above the group's limit."""

    def check(self, history: History) -> Iterator[Anomaly]:
        groups = group_settings(history)
        for partition, offset, deliveries in SharedRecords(history):
            limit = groups[partition.group].delivery_count_limit
            for delivery in deliveries:
                if not 1 <= delivery.count <= limit:
                    what = f"{partition}: delivery {delivery.count} of {offset}, with a limit of {limit}"
                    yield Anomaly(type(self).__name__, what, (_excerpt(delivery, offset),))


class DeliveriesAreCounted:
    """After a release is stored, the record's delivery count is higher."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for earlier, release in _stored(deliveries, AcknowledgeType.RELEASE):
                for delivery in _after(deliveries, release):
                    if delivery.count <= earlier.count:
                        what = f"{partition}: delivery {delivery.count} of {offset} after delivery {earlier.count}"
                        proof = _excerpt(earlier, offset), release.operation, _excerpt(delivery, offset)
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
                    yield Anomaly(type(self).__name__, what, (_excerpt(delivery, offset),))


class NothingIsDeliveredAfterItIsFinished:
    """After an acceptance or a rejection is stored, the record is not delivered again."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for earlier, acknowledgement in _stored(deliveries, *FINAL_TYPES):
                for delivery in _after(deliveries, acknowledgement):
                    what = f"{partition}: {offset} was delivered after it was finished"
                    proof = _excerpt(earlier, offset), acknowledgement.operation, _excerpt(delivery, offset)
                    yield Anomaly(type(self).__name__, what, proof)


class LocksAreExclusive:
    """While a member holds a record, no other one gets it, from the same leader or with an effect."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, offset, deliveries in SharedRecords(history):
            for pair in combinations(deliveries, 2):
                for holder, other in (pair, pair[::-1]):
                    if _is_within(other.operation, holder) and _have_one_leader(holder, other):
                        what = f"{partition}: two members hold {offset}"
                        yield Anomaly(type(self).__name__, what, (_excerpt(holder, offset), _excerpt(other, offset)))


def _is_within(operation: Operation, holder: Delivery) -> bool:
    """True if the record was acquired while `holder` certainly held it."""
    return holder.held_from <= operation.invoked_at and completed(operation) <= holder.held_until


def _have_one_leader(holder: Delivery, other: Delivery) -> bool:
    if holder.leader_epoch == other.leader_epoch >= 0:
        return True
    return holder.is_stored and other.is_stored


def _may_be_final(delivery: Delivery) -> bool:
    return any(each.kind in FINAL_TYPES and each.may_be_stored for each in delivery.acknowledgements)


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


def _acknowledgements(deliveries: Sequence[Delivery]) -> Iterator[Operation]:
    return (each.operation for delivery in deliveries for each in delivery.acknowledgements)


def _excerpt(delivery: Delivery, offset: int) -> Operation:
    """The operation of a delivery, with the one record only."""
    operation = delivery.operation
    records = tuple(record for record in operation.result.records if record[0] == offset)
    return attrs.evolve(operation, result=attrs.evolve(operation.result, records=records))


SHARE_CHECKERS: Final[tuple[Checker, ...]] = (
    DeliveredRecordsAreOfTheLog(),
    EveryRecordIsFinished(),
    DeliveriesStayWithinTheLimit(),
    DeliveriesAreCounted(),
    NothingElseIsCounted(),
    NothingIsDeliveredAfterItIsFinished(),
    LocksAreExclusive(),
)
