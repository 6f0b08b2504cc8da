"""Promises to transactional producers, and to consumers that read committed records only."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from jepsen.checkers.bank import BalancesAddUp
from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.cycles import NoCyclesOfTransactions
from jepsen.checkers.decisions import decided_transactions
from jepsen.checkers.losses import AcknowledgedRecordsAreRead
from jepsen.checkers.order import AcknowledgedOffsetsGrow, NothingTwice
from jepsen.checkers.reads import (
    NothingFromNowhere,
    NothingIsCorrupt,
    OffsetsNeverChange,
    PollsGoForward,
    PollsSkipNothing,
)
from jepsen.checkers.records import TopicPartition, excerpt, final_reads, name_of, records_read
from jepsen.checkers.transaction_polls import (
    AbortedPollsAreRepeated,
    NoExternalNonmonotonicPolls,
    NoExternalPollSkips,
    NoInternalNonmonotonicPolls,
    NoInternalPollSkips,
    RecordsAreConsumedOnce,
)
from jepsen.history import History, Operation, Outcome
from jepsen.values import input_of, transformed


class NothingAbortedIsRead:
    """No consumer that reads committed records gets a record of an aborted transaction. ("aborted read", G1a)"""

    def check(self, history: History) -> Iterator[Anomaly]:
        aborted = {
            value: each for each in decided_transactions(history) if each.is_aborted for value in each.value.values
        }
        for partition, records, operation in records_read(history) if aborted else ():
            for offset, value in records:
                if value in aborted:
                    transaction = aborted[value]
                    what = f"offset {offset} of {name_of(partition)} holds {value}, whose transaction was aborted"
                    yield Anomaly(type(self).__name__, what, (*transaction.proof, excerpt(operation, offset)))


class NothingPrecommittedIsRead:
    """No record is read before the application asks to commit its transaction, so no transaction polls what it has sent
    itself. ("precommitted read")
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        asked = {value: each for each in decided_transactions(history) for value in each.value.values}
        for partition, records, operation in records_read(history) if asked else ():
            for offset, value in records:
                transaction = asked.get(value)
                decision = None if transaction is None else transaction.decision
                is_early = (
                    decision is not None
                    and operation.completed_at is not None
                    and operation.completed_at < decision.invoked_at
                )
                if transaction is not None and is_early:
                    what = f"offset {offset} of {name_of(partition)} holds {value} before its transaction is committed"
                    yield Anomaly(type(self).__name__, what, (*transaction.proof, excerpt(operation, offset)))


class TransactionsAreAtomic:
    """After recovery, either all records of a transaction are read, or none of them is. ("torn transaction")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        seen = {partition: frozenset(final.values) for partition, final in finals.items()}
        for transaction in decided_transactions(history):
            observed = [
                (value, value in seen[topic, index])
                for topic, index, values in transaction.value.records
                if (topic, index) in seen
                for value in values
            ]
            there, missing = (
                [value for value, is_seen in observed if is_seen],
                [value for value, is_ in observed if not is_],
            )
            if there and missing:
                what = f"{transaction.value.name} wrote {there[0]}, and {missing[0]} is missing"
                yield Anomaly(type(self).__name__, what, transaction.proof)


class CommittedTransactionsAreRead:
    """After recovery, all records of a transaction whose commit was acknowledged are read."""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        seen = {partition: frozenset(final.values) for partition, final in finals.items()}
        for transaction in decided_transactions(history):
            for topic, index, values in transaction.value.records if transaction.is_committed else ():
                missing = [value for value in values if value not in seen.get((topic, index), values)]
                if missing:
                    what = f"{missing[0]} of {name_of((topic, index))} was committed, but is missing at the end"
                    yield Anomaly(type(self).__name__, what, transaction.proof)


class OffsetsAreAtomicWithOutput:
    """A group's committed offset passes a record if and only if the output for the record is there, once.

    ("committed offsets atomic with output")
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        outputs = Counter(input_of(value) for final in finals.values() for value in final.values)
        for operation in history.of("final-offsets", outcome=Outcome.OK):
            committed: Mapping[TopicPartition, int] = {
                (topic, index): offset for topic, index, offset in operation.result
            }
            for partition, offset in committed.items():
                final = finals.get(partition)
                for at, value in final.operation.result if final is not None else ():
                    output = input_of(transformed("", operation.value.group, value))
                    expected, found = int(at < offset), outputs[output]
                    if found != expected and final is not None:
                        what = (
                            f"{operation.value.group} is at {offset} of {name_of(partition)} and has written "
                            f"{found} outputs for {value} at {at}"
                        )
                        yield Anomaly(type(self).__name__, what, (operation, final.around(at)))


class StableOffsetsAreCommitted:
    """A leader's last stable offset is not after its high watermark, and no record is read from there on."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("see-stable", outcome=Outcome.OK):
            stable, high_watermark, last_read = operation.result
            if not last_read < stable <= high_watermark:
                what = (
                    f"{name_of(operation.value)} is stable up to {stable}, committed up to {high_watermark}, and was "
                    f"read up to {last_read}"
                )
                yield Anomaly(type(self).__name__, what, (operation,))


class ConsumersGoForward:
    """A consumer with assigned partitions gets records of a partition in order, from poll to poll, and skips none.

    A poll from offset zero is a new start. ("poll-skip", "nonmonotonic-poll")
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        last: dict[tuple[str, TopicPartition], Operation] = {}
        known: dict[TopicPartition, set[int]] = defaultdict(set)
        for partition, records, _ in records_read(history):
            known[partition].update(offset for offset, _ in records)
        for operation in history.of("poll", outcome=Outcome.OK):
            partition = operation.value.topic, operation.value.partition
            key = operation.client, partition
            before = last.pop(key, None)
            if operation.value.offset == 0:
                before = None
            if operation.result:
                last[key] = operation
            elif before is not None:
                last[key] = before
            if before is None or not operation.result:
                continue
            end, first = before.result[-1][0] + 1, operation.result[0][0]
            skipped = [offset for offset in range(end, first) if offset in known[partition]]
            if first < end or skipped:
                what = f"{operation.client} gets {first} of {name_of(partition)} after {end - 1}"
                proof = excerpt(before, end), excerpt(operation, first)
                yield Anomaly(type(self).__name__, what, proof)


TRANSACTION_CHECKERS: Final[tuple[Checker, ...]] = (
    NothingAbortedIsRead(),
    NothingPrecommittedIsRead(),
    TransactionsAreAtomic(),
    CommittedTransactionsAreRead(),
    OffsetsAreAtomicWithOutput(),
    StableOffsetsAreCommitted(),
    ConsumersGoForward(),
    NoInternalPollSkips(),
    NoInternalNonmonotonicPolls(),
    NoExternalPollSkips(),
    NoExternalNonmonotonicPolls(),
    AbortedPollsAreRepeated(),
    RecordsAreConsumedOnce(),
    NoCyclesOfTransactions(),
    BalancesAddUp(),
    NothingFromNowhere(),
    NothingTwice(),
    AcknowledgedOffsetsGrow(),
    AcknowledgedRecordsAreRead(),
    OffsetsNeverChange(),
    PollsSkipNothing(),
    PollsGoForward(),
    NothingIsCorrupt(),
)
