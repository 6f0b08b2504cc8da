"""The records that the application has been given, and what became of them. Pure.

A record is given with an acquisition lock. It is acknowledged, explicitly or by the next poll, and a request carries
its outcome. A renewed record comes back when the leader has confirmed its lock (KIP-1222): it can be acknowledged again
at once, and the next poll returns it again.
"""

from collections.abc import Iterable
from typing import Any, Final, Generic

import attrs

from broker.client.errors import ClientError, WrongValue
from broker.client.share_consumer.acknowledgements import Acknowledgement, Outcome, Source, coalesced
from broker.client.share_consumer.errors import RecordNotAcquired
from broker.client.types import K, ShareRecord, TopicPartition, V
from metadata.protocol import AcknowledgeType

_NO_DELIVERIES: Final[dict[int, Any]] = {}


@attrs.define(eq=False)
class Delivery(Generic[K, V]):
    """A record that the consumer holds. `lock_ends` is the time by which the lock has ended, if it is not renewed."""

    record: ShareRecord[K, V]
    source: Source
    lock_ends: float
    outcome: AcknowledgeType | None = None
    is_renewed: bool = False

    @property
    def offset(self) -> int:
        return self.record.offset


class Deliveries(Generic[K, V]):
    """See the module's docstring."""

    def __init__(self) -> None:
        self._given: dict[TopicPartition, dict[int, Delivery[K, V]]] = {}
        # The given records without an outcome, and those with one that no request carries yet.
        self._open: dict[Delivery[K, V], None] = {}
        self._settled: dict[Delivery[K, V], None] = {}
        # Acquired offsets that are not given to the application: gaps, and unreadable records.
        self._gaps: dict[Source, list[Outcome]] = {}
        self._unreadable: dict[Source, list[Outcome]] = {}
        self._renewing: dict[tuple[Source, int], Delivery[K, V]] = {}

    # Given records

    def give(self, deliveries: Iterable[Delivery[K, V]]) -> None:
        """Notes that the application is given these records."""
        for delivery in deliveries:
            of_partition = self._given.setdefault(delivery.source.partition, {})
            if (before := of_partition.get(delivery.offset)) is not None:
                self._remove(before)  # its lock has ended, and the record was delivered again
                of_partition = self._given.setdefault(delivery.source.partition, {})
            of_partition[delivery.offset] = delivery
            self._open[delivery] = None

    def take_back(self, records: Iterable[ShareRecord[K, V]]) -> list[Delivery[K, V]]:
        """Undoes `give` for records that did not reach the application. Returns those that are still held."""
        found = []
        for record in records:
            of_partition = self._given.get(TopicPartition(record.topic, record.partition), _NO_DELIVERIES)
            delivery = of_partition.get(record.offset)
            if delivery is not None and delivery.record is record and delivery.outcome is None:
                self._remove(delivery)
                found.append(delivery)
        return found

    def acknowledge(self, partition: TopicPartition, offset: int, outcome: AcknowledgeType) -> None:
        """Sets the outcome of a record, in place of an earlier one that no request has carried.

        Raises RecordNotAcquired; WrongValue for GAP, and for RENEW of an unreadable record.
        """
        if outcome is AcknowledgeType.GAP:
            raise WrongValue("a record that was delivered is not a gap: ACCEPT, RELEASE, REJECT or RENEW it")
        delivery = self._given.get(partition, _NO_DELIVERIES).get(offset)
        if delivery is not None:
            self._settle(delivery, outcome)
        elif not self._replace_unreadable(partition, offset, outcome):
            raise RecordNotAcquired(
                f"offset {offset} of {partition} is not a record that this consumer holds: it was acknowledged before, "
                "or another fetch has been made since"
            )

    def _settle(self, delivery: Delivery[K, V], outcome: AcknowledgeType) -> None:
        delivery.outcome = outcome
        self._open.pop(delivery, None)
        self._settled[delivery] = None

    def _replace_unreadable(self, partition: TopicPartition, offset: int, outcome: AcknowledgeType) -> bool:
        for source, outcomes in self._unreadable.items():
            for index, (first, last, kind) in enumerate(outcomes):
                if source.partition == partition and first <= offset <= last:
                    if outcome is AcknowledgeType.RENEW:
                        raise WrongValue("a record that cannot be delivered cannot be renewed: RELEASE or REJECT it")
                    parts = (
                        Outcome(first, offset - 1, kind),
                        Outcome(offset, offset, outcome),
                        Outcome(offset + 1, last, kind),
                    )
                    outcomes[index : index + 1] = [part for part in parts if part.first <= part.last]
                    return True
        return False

    def accept_all(self) -> None:
        """Accepts every given record that has no outcome: implicit acknowledgement."""
        for delivery in list(self._open):
            self._settle(delivery, AcknowledgeType.ACCEPT)

    def check_all_acknowledged(self) -> None:
        """Raises ClientError if a given record has no outcome. Renewed ones need none: they are given again."""
        for delivery in self._open:
            if not delivery.is_renewed:
                raise ClientError(
                    f"offset {delivery.offset} of {delivery.source.partition} has not been acknowledged: with "
                    "share.acknowledgement.mode=explicit, acknowledge() every record before the next fetch"
                )

    # Records that were not given

    def add_gap(self, source: Source, first: int, last: int) -> None:
        """Notes acquired offsets at which there is no record."""
        self._gaps.setdefault(source, []).append(Outcome(first, last, AcknowledgeType.GAP))

    def add_unreadable(self, source: Source, outcomes: Iterable[Outcome]) -> None:
        """Notes acquired records that cannot be given; the application may choose other outcomes."""
        self._unreadable.setdefault(source, []).extend(outcomes)

    # Requests

    def take(self) -> list[Acknowledgement]:
        """Takes the outcomes that no request carries yet. Their records are no longer held."""
        others: dict[Source, list[Outcome]] = {}
        for found in (self._gaps, self._unreadable):
            for source, outcomes in found.items():
                others.setdefault(source, []).extend(outcomes)
        self._gaps, self._unreadable = {}, {}
        settled = self._take_settled()
        return [
            _acknowledgement(source, others.get(source, []), settled.get(source, []))
            for source in dict.fromkeys([*others, *settled])
        ]

    def _take_settled(self) -> dict[Source, list[Delivery[K, V]]]:
        """Takes the given records that have an outcome."""
        settled: dict[Source, list[Delivery[K, V]]] = {}
        for delivery in list(self._settled):
            settled.setdefault(delivery.source, []).append(delivery)
            self._remove(delivery)
            if delivery.outcome is AcknowledgeType.RENEW:
                self._renewing[delivery.source, delivery.offset] = delivery
        return settled

    def _remove(self, delivery: Delivery[K, V]) -> None:
        self._open.pop(delivery, None)
        self._settled.pop(delivery, None)
        partition = delivery.source.partition
        del self._given[partition][delivery.offset]
        if not self._given[partition]:
            del self._given[partition]

    def settle_renewals(self, acknowledgement: Acknowledgement, lock_ends: float | None) -> None:
        """Ends the renewals of a request. With a new time for the locks, their records are held again."""
        for offset in acknowledgement.renewed:
            delivery = self._renewing.pop((acknowledgement.source, offset), None)
            if delivery is not None and lock_ends is not None:
                delivery.outcome, delivery.is_renewed, delivery.lock_ends = None, True, lock_ends
                self.give([delivery])

    def take_renewed(self) -> list[Delivery[K, V]]:
        """Takes the renewed records, which the next poll returns again."""
        renewed = [each for each in self._open if each.is_renewed]
        for delivery in renewed:
            delivery.is_renewed = False
            self._remove(delivery)
        return renewed


def _acknowledgement(source: Source, others: list[Outcome], settled: Iterable[Delivery[Any, Any]]) -> Acknowledgement:
    outcomes, delivered, renewed = others, [], []
    for delivery in settled:
        assert delivery.outcome is not None, "only records with an outcome are settled"
        outcomes.append(Outcome(delivery.offset, delivery.offset, delivery.outcome))
        delivered.append(delivery.offset)
        if delivery.outcome is AcknowledgeType.RENEW:
            renewed.append(delivery.offset)
    return Acknowledgement(source, coalesced(outcomes), sorted(delivered), renewed)
