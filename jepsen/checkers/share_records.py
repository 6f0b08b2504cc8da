"""Views of what share groups did with each record, for several checkers.

Clients do not always know which leader answered. A leader that was deposed and does not know it yet delivers records as
before, in Kafka too: the share coordinator only refuses to store what becomes of them. So a delivery counts as
`proven` against what other leaders did if its leader epoch shows that, or if the share coordinator later stored an
acknowledgement of it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.share_values import UNKNOWN_EPOCH, ShareGroupSettings
from metadata.protocol import AcknowledgeType

FINAL_TYPES: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class SharePartition(NamedTuple):
    """One partition, as one group sees it."""

    group: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group} of {self.topic}-{self.partition}"


@attrs.define(eq=False)
class Acknowledgement:
    """An acknowledgement of one record.

    With `may_be_late`, it may have come after the end of the lock of a record at its last delivery. The leader then has
    archived the record and passed it, perhaps before that was stored. It answers without an error, as in Kafka, and
    stores nothing.
    """

    operation: Operation
    kind: AcknowledgeType
    may_be_late: bool

    @property
    def is_stored(self) -> bool:
        return self.operation.outcome is Outcome.OK and not self.may_be_late

    @property
    def may_be_stored(self) -> bool:
        return self.operation.outcome is not Outcome.FAIL

    @property
    def leader_epoch(self) -> int:
        return int(self.operation.result) if self.is_stored else UNKNOWN_EPOCH


@attrs.define(eq=False)
class Delivery:
    """A delivery of one record, and what its member said about it afterwards, in order.

    `session_until` is the last time at which the member's session is known to have existed. After the lock of the
    `is_last` delivery, the record is archived.
    """

    operation: Operation
    value: str
    count: int
    session_until: float
    is_last: bool
    acknowledgements: list[Acknowledgement] = attrs.field(factory=list)

    @property
    def leader_epoch(self) -> int:
        return int(self.operation.result.leader_epoch)

    @property
    def is_stored(self) -> bool:
        """True if an acknowledgement was stored: the member held the record until then."""
        return any(each.is_stored for each in self.acknowledgements)

    def may_be_stored_as(self, *kinds: AcknowledgeType) -> bool:
        """True if an acknowledgement of one of these types may have been stored."""
        return any(each.kind in kinds and each.may_be_stored for each in self.acknowledgements)

    @property
    def held_from(self) -> float:
        """The member certainly holds the record from this time on, until `held_until`."""
        return completed(self.operation)

    @property
    def held_until(self) -> float:
        """Renewals may have prolonged the lock, but do not count here."""
        first = min((each.operation.invoked_at for each in self.acknowledgements), default=inf)
        return float(min(first, self.lock_end, self.session_until))

    @property
    def lock_end(self) -> float:
        """The lock did not end before this time."""
        return float(self.operation.invoked_at + self.operation.result.lock_ms / 1000)

    def add(self, operation: Operation, kind: AcknowledgeType) -> None:
        """Add an acknowledgement."""
        may_be_late = self.is_last and completed(operation) > self.lock_end
        self.acknowledgements.append(Acknowledgement(operation, kind, may_be_late))


def excerpt(delivery: Delivery, offset: int) -> Operation:
    """The operation of a delivery, with the one record only."""
    operation = delivery.operation
    records = tuple(record for record in operation.result.records if record[0] == offset)
    return attrs.evolve(operation, result=attrs.evolve(operation.result, records=records))


def completed(operation: Operation) -> float:
    """The time at which the client knew the outcome; infinity if it never did."""
    return inf if operation.completed_at is None else operation.completed_at


def group_settings(history: History) -> Mapping[str, ShareGroupSettings]:
    return {operation.value.group: operation.value for operation in history.of("share-group")}


class SharedRecords:
    """The deliveries of each record by share-partition and offset, in the order of their completion."""

    def __init__(self, history: History) -> None:
        self._groups = group_settings(history)
        self._records: dict[tuple[SharePartition, int], list[Delivery]] = defaultdict(list)
        self._unknown: dict[SharePartition, list[Operation]] = defaultdict(list)
        sessions = _session_ends(history)
        for operation in sorted(history.of("acquire", outcome=Outcome.OK), key=completed):
            partition = share_partition(operation)
            for offset, value, count in operation.result.records:
                is_last = count >= self._groups[partition.group].delivery_count_limit
                delivery = Delivery(operation, value, count, sessions[operation.value.session], is_last)
                self._records[partition, offset].append(delivery)
        for operation in history.of("acquire", outcome=Outcome.INFO):
            self._unknown[share_partition(operation)].append(operation)
        for operation in history.of("acknowledge"):
            self._add_acknowledgement(operation)

    def _add_acknowledgement(self, operation: Operation) -> None:
        for first, last, kind in operation.value.batches:
            for offset in range(first, last + 1):
                deliveries = self._records.get((share_partition(operation), offset), ())
                of_session = (
                    each
                    for each in deliveries
                    if each.operation.value.session == operation.value.session
                    and completed(each.operation) <= operation.invoked_at
                )
                *_, latest = [None, *of_session]
                if latest is not None:
                    latest.add(operation, AcknowledgeType(kind))

    def __iter__(self) -> Iterator[tuple[SharePartition, int, Sequence[Delivery]]]:
        for (partition, offset), deliveries in self._records.items():
            yield partition, offset, deliveries

    def of(self, partition: SharePartition, offset: int) -> Sequence[Delivery]:
        return self._records.get((partition, offset), ())

    def unknown_count(self, partition: SharePartition) -> float:
        """The number of requests that may have been deliveries of any record."""
        return self.unknown_before(partition, inf)

    def unknown_before(self, partition: SharePartition, time: float) -> float:
        """The number of those requests that were sent before this time; infinity if a client library sends them."""
        if self._groups[partition.group].has_libraries:
            return inf
        return sum(operation.invoked_at < time for operation in self._unknown[partition])


def share_partition(operation: Operation) -> SharePartition:
    value = operation.value
    return SharePartition(value.group, value.topic, value.partition)


def is_later_leader(delivery: Delivery, epoch: int) -> bool:
    """True if the delivery's leader knew all that was stored in the leader epoch `epoch` before the delivery began."""
    if delivery.leader_epoch == UNKNOWN_EPOCH or epoch == UNKNOWN_EPOCH:
        return delivery.is_stored
    return delivery.leader_epoch >= epoch


def _session_ends(history: History) -> Mapping[str, float]:
    """The time at which each session last served a request, or shortly before."""
    ends: dict[str, float] = defaultdict(float)
    for operation in history.of("acquire", "acknowledge", outcome=Outcome.OK):
        session = operation.value.session
        ends[session] = max(ends[session], operation.invoked_at)
    return ends
