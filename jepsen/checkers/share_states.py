"""Promises to share groups that need the writes of the share coordinator: the end of each record (KIP-932).

Clients alone cannot tell. An acknowledgement whose response was lost may have been stored or not, and a request without
a response may have been a delivery. The log of the share coordinator has the final state of each record, apart from one
case: a record whose lock expired at its last delivery is archived by its leader, and the next write may only move the
start offset past it, as in Kafka.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from broker.coordinator.share.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, UNINITIALIZED
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import final_reads
from jepsen.checkers.share_records import Delivery, SharedRecords, SharePartition, excerpt, group_settings
from jepsen.history import History, Operation, Outcome
from jepsen.share_values import StoredWrite
from metadata.protocol import AcknowledgeType

# Records that are ARCHIVING have failed: they are not delivered again, and wait for their dead letter.
_GIVEN_UP: Final = (ARCHIVING, ARCHIVED)
_FINAL: Final = (ACKNOWLEDGED, *_GIVEN_UP)


@attrs.define
class StoredRecords:
    """The stored states of the records of one share-partition.

    `finals` are the final states with the delivery count, by offset. From `start_offset` on, records were not passed.
    `reopened` are offsets that had a final state before.

    A write may be repeated late, after others. As in the share coordinator, the higher delivery count wins, then the
    higher state.
    """

    start_offset: int = 0
    finals: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    reopened: list[int] = attrs.field(factory=list)
    _winners: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    def count(self, offset: int) -> int:
        """The highest delivery count that was stored; 0 if none was."""
        return max(self._winners.get(offset, (0, 0))[0], 0)

    def counts(self) -> Iterator[tuple[int, int]]:
        """Offsets with their highest delivery counts."""
        return ((offset, count) for offset, (count, _) in self._winners.items())

    def add(self, write: StoredWrite) -> None:
        *_, start_offset, batches = write
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                if (count, state) > self._winners.get(offset, (-1, -1)):
                    self._winners[offset] = count, state
                    if state in _FINAL:
                        self.finals.setdefault(offset, (state, count))
                    elif offset in self.finals:
                        self.reopened.append(offset)
        if start_offset != UNINITIALIZED:
            self.start_offset = max(start_offset, self.start_offset)


def stored_records(history: History) -> dict[SharePartition, StoredRecords]:
    """The stored records of each share-partition with a write."""
    stored: dict[SharePartition, StoredRecords] = {}
    for operation in history.of("read-share-states", outcome=Outcome.OK):
        for write in operation.result.writes:
            stored.setdefault(SharePartition(*write[:3]), StoredRecords()).add(write)
    return stored


class EveryRecordIsFinished:
    """At the end, the share coordinator has a final state of each record, or the last delivery's lock has expired."""

    def check(self, history: History) -> Iterator[Anomaly]:
        records, groups, states = SharedRecords(history), group_settings(history), stored_records(history)
        for (topic, index), final in final_reads(history).items():
            for group, settings in groups.items():
                partition = SharePartition(group, topic, index)
                stored = states.get(partition, StoredRecords())
                has_unknown = records.unknown_count(partition) > 0
                for offset in final.records:
                    if offset in stored.finals:
                        continue
                    deliveries = records.of(partition, offset)
                    if offset >= stored.start_offset:
                        yield self._anomaly(f"{partition}: {offset} was never finished", deliveries, offset)
                        continue
                    known = max((each.count for each in deliveries), default=0)
                    reached = max(known, stored.count(offset)) + has_unknown
                    if reached < settings.delivery_count_limit:
                        what = f"{partition}: {offset} was passed after delivery {known}, and never finished"
                        yield self._anomaly(what, deliveries, offset)

    def _anomaly(self, what: str, deliveries: Sequence[Delivery], offset: int) -> Anomaly:
        proof = (operation for each in deliveries for operation in _operations(each, offset))
        return Anomaly(type(self).__name__, what, tuple(proof))


class FinalStatesHaveReasons:
    """A record is stored as acknowledged only if a member accepted it, and as archived only if a member rejected it, or
    after its last delivery.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        records, groups = SharedRecords(history), group_settings(history)
        for partition, stored in stored_records(history).items():
            limit = groups[partition.group].delivery_count_limit
            for offset, (state, count) in stored.finals.items():
                kind = AcknowledgeType.ACCEPT if state == ACKNOWLEDGED else AcknowledgeType.REJECT
                deliveries = records.of(partition, offset)
                is_spent = state in _GIVEN_UP and count >= limit
                if not is_spent and not any(each.may_be_stored_as(kind) for each in deliveries):
                    what = f"{partition}: {offset} was stored as {state} at delivery {count}, without {kind.name}"
                    proof = (operation for each in deliveries for operation in _operations(each, offset))
                    yield Anomaly(type(self).__name__, what, tuple(proof))


class FinalStatesStay:
    """A record whose final state is stored is not stored as available again."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, stored in stored_records(history).items():
            for offset in stored.reopened:
                yield Anomaly(type(self).__name__, f"{partition}: {offset} was available after its final state")


class StoredCountsAreOfDeliveries:
    """A stored delivery count is not above the group's limit, and not higher than the number of deliveries."""

    def check(self, history: History) -> Iterator[Anomaly]:
        records, groups = SharedRecords(history), group_settings(history)
        for partition, stored in stored_records(history).items():
            unknown, limit = records.unknown_count(partition), groups[partition.group].delivery_count_limit
            for offset, count in stored.counts():
                deliveries = records.of(partition, offset)
                if count > min(limit, len(deliveries) + unknown):
                    what = f"{partition}: delivery {count} of {offset} was stored, after {len(deliveries)} deliveries"
                    proof = (operation for each in deliveries for operation in _operations(each, offset))
                    yield Anomaly(type(self).__name__, what, tuple(proof))


def _operations(delivery: Delivery, offset: int) -> Iterator[Operation]:
    yield excerpt(delivery, offset)
    yield from (each.operation for each in delivery.acknowledgements)
