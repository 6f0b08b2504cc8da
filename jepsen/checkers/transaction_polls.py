"""Promises about reads within transactions: from one read of a partition to the client's next one, and of a group."""

from collections import defaultdict
from collections.abc import Iterator
from enum import Enum

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.decisions import DecidedTransaction, decided_transactions
from jepsen.checkers.records import TopicPartition, excerpt, final_reads, first_between, known_offsets, name_of
from jepsen.history import History, Operation, Outcome


class Step(Enum):
    """The relation of a read to the client's read of the partition before it."""

    # Both are in one transaction.
    INTERNAL = "internal"
    # The read before is in another transaction, which was committed or did not read from there on.
    EXTERNAL = "external"
    # The client has gone back, because the transaction that had read the records was aborted.
    REPEATED = "repeated"
    # The partition was assigned between the reads. Nothing is promised then.
    REASSIGNED = "reassigned"


@attrs.frozen
class SuccessivePolls:
    """A read that returned records, and the client's read of the partition before it, if there is one.

    `expected` is the offset from which on `after` has to return all records; -1 if there is no such offset.
    """

    step: Step
    before: Operation | None
    after: Operation
    expected: int

    @property
    def partition(self) -> TopicPartition:
        return self.after.value.topic, self.after.value.partition

    @property
    def first(self) -> int:
        """The first offset of `after`."""
        return int(self.after.result[0][0])

    @property
    def client(self) -> str:
        return self.after.client

    def proof(self, offset: int) -> tuple[Operation, ...]:
        before = () if self.before is None else (excerpt(self.before, offset),)
        return *before, excerpt(self.after, self.first)


def successive_polls(history: History) -> Iterator[SuccessivePolls]:
    """All reads within transactions that returned records."""
    last: dict[tuple[str, TopicPartition], Operation] = {}
    for operation in history.of("poll-transaction", outcome=Outcome.OK):
        if operation.result:
            key = operation.client, (operation.value.topic, operation.value.partition)
            yield _successive(last.get(key), operation)
            last[key] = operation


def _successive(before: Operation | None, after: Operation) -> SuccessivePolls:
    position = after.value.position
    if before is None:
        return SuccessivePolls(Step.REASSIGNED if position < 0 else Step.EXTERNAL, before, after, position)
    end = before.result[-1][0] + 1
    if after.value.transaction and after.value.transaction == before.value.transaction:
        return SuccessivePolls(Step.INTERNAL, before, after, end)
    if position < 0:
        return SuccessivePolls(Step.REASSIGNED, before, after, position)
    return SuccessivePolls(Step.REPEATED if position < end else Step.EXTERNAL, before, after, position)


def _skips(promise: str, history: History, step: Step) -> Iterator[Anomaly]:
    polls = [each for each in successive_polls(history) if each.step is step]
    known = known_offsets(history) if polls else {}
    for each in polls:
        skipped = first_between(known[each.partition, each.after.incarnation], each.expected, each.first)
        if skipped is not None:
            what = (
                f"{each.client} gets {each.first} of {name_of(each.partition)} at {each.expected}, but never {skipped}"
            )
            yield Anomaly(promise, what, each.proof(skipped))


def _goes_back(promise: str, history: History, step: Step) -> Iterator[Anomaly]:
    for each in successive_polls(history):
        if each.step is step and each.first < each.expected:
            what = f"{each.client} gets {each.first} of {name_of(each.partition)} at {each.expected}"
            yield Anomaly(promise, what, each.proof(each.first))


class NoInternalPollSkips:
    """Within a transaction, a client skips no record from read to read. ("int-poll-skip")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        return _skips(type(self).__name__, history, Step.INTERNAL)


class NoInternalNonmonotonicPolls:
    """Within a transaction, a client gets no record a second time. ("int-nonmonotonic-poll")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        return _goes_back(type(self).__name__, history, Step.INTERNAL)


class NoExternalPollSkips:
    """From transaction to transaction, a client skips no record, unless the partition was assigned between them.

    ("poll-skip")
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        return _skips(type(self).__name__, history, Step.EXTERNAL)


class NoExternalNonmonotonicPolls:
    """From transaction to transaction, a client gets no record a second time, unless the partition was assigned between
    them. ("nonmonotonic-poll")
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        return _goes_back(type(self).__name__, history, Step.EXTERNAL)


class AbortedPollsAreRepeated:
    """After an abort, a client that goes back to where the transaction began gets the same records again."""

    def check(self, history: History) -> Iterator[Anomaly]:
        yield from _skips(type(self).__name__, history, Step.REPEATED)
        yield from _goes_back(type(self).__name__, history, Step.REPEATED)


class RecordsAreConsumedOnce:
    """Exactly one committed transaction of a group consumes a record: none is consumed by two, and none is left out.

    (KIP-447)
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        consumed = _consumed(history)
        finals = final_reads(history) if consumed else {}
        for (group, partition), by_offset in consumed.items():
            certain = {
                offset: [poll for decided, poll in readers if decided.is_committed]
                for offset, readers in by_offset.items()
            }
            for offset, polls in certain.items():
                if len(polls) > 1:
                    names = " and ".join(poll.value.transaction for poll in polls)
                    what = f"{names} of {group} have consumed {offset} of {name_of(partition)}"
                    yield Anomaly(type(self).__name__, what, tuple(excerpt(poll, offset) for poll in polls))
            end = max((offset for offset, polls in certain.items() if polls), default=0)
            final = finals.get(partition)
            for offset in final.records if final is not None else ():
                if offset < end and offset not in by_offset and final is not None:
                    what = f"{group} has consumed {end} of {name_of(partition)}, but not {offset}"
                    yield Anomaly(type(self).__name__, what, (excerpt(certain[end][0], end), final.around(offset)))


# The transactions that may have consumed a record, with their reads, by offset.
_Readers = dict[int, list[tuple[DecidedTransaction, Operation]]]


def _consumed(history: History) -> dict[tuple[str, TopicPartition], _Readers]:
    """The records that transactions of groups have consumed, without transactions that were certainly aborted."""
    decided = {each.value.name: each for each in decided_transactions(history)}
    consumed: dict[tuple[str, TopicPartition], _Readers] = defaultdict(lambda: defaultdict(list))
    for operation in history.of("poll-transaction", outcome=Outcome.OK):
        poll = operation.value
        transaction = decided.get(poll.transaction)
        if poll.group and transaction is not None and not transaction.is_aborted:
            readers = consumed[poll.group, (poll.topic, poll.partition)]
            for offset, _ in operation.result:
                readers[offset].append((transaction, operation))
    return consumed
