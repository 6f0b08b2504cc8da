"""Promises about the offsets that clients request, and about the leader epochs of records."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.records import TopicPartition, final_reads
from jepsen.history import History, Operation, Outcome


class EpochsGrowWithOffsets:
    """Every record has one leader epoch for all readers, and the leader epochs of a partition never decrease."""

    def check(self, history: History) -> Iterator[Anomaly]:
        runs: dict[TopicPartition, list[tuple[int, int, int, Operation]]] = defaultdict(list)
        for operation in history.of("see-epochs", outcome=Outcome.OK):
            runs[operation.value] += [(first, last, epoch, operation) for first, last, epoch in operation.result]
        for partition, its_runs in runs.items():
            its_runs.sort(key=lambda run: run[:3])
            # The range of offsets with the highest epoch, among all ranges that begin earlier.
            highest: tuple[int, int, int, Operation] | None = None
            for run in its_runs:
                first, last, epoch, operation = run
                if highest is not None and (epoch < highest[2] or (epoch > highest[2] and first <= highest[1])):
                    what = f"{partition}: {highest[0]} to {highest[1]} of epoch {highest[2]}, {first} of {epoch}"
                    yield Anomaly(type(self).__name__, what, (highest[3], operation))
                if highest is None or epoch > highest[2] or (epoch == highest[2] and last > highest[1]):
                    highest = run


class EndsNeverGoBack:
    """The end offset of a partition never decreases from one request to the next, within a leader epoch and later ones
    (KIP-207). A deposed leader that does not know it may return less, with its old epoch.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        asked: dict[TopicPartition, list[Operation]] = defaultdict(list)
        for operation in history.of("list-end", outcome=Outcome.OK):
            asked[operation.value].append(operation)
        for partition, operations in asked.items():
            answered = sorted(operations, key=lambda each: each.completed_at or 0.0)
            at = 0
            highest: dict[int, Operation] = {}
            for operation in sorted(operations, key=lambda each: each.invoked_at):
                while (answered[at].completed_at or 0.0) < operation.invoked_at:
                    offset, epoch = answered[at].result
                    if epoch not in highest or offset > highest[epoch].result[0]:
                        highest[epoch] = answered[at]
                    at += 1
                offset, epoch = operation.result
                for before in highest.values():
                    if before.result[1] <= epoch and before.result[0] > offset:
                        what = f"{partition} ended at {before.result[0]}, then at {offset}"
                        yield Anomaly(type(self).__name__, what, (before, operation))
                        break


class TimesFindTheFirst:
    """The offset returned for a timestamp is that of the first record with this timestamp or a later one."""

    def check(self, history: History) -> Iterator[Anomaly]:
        times = {partition: _times(final.records) for partition, final in final_reads(history).items()}
        for operation in history.of("find-time", outcome=Outcome.OK):
            topic, partition, wanted = operation.value
            there, found = times.get((topic, partition)), operation.result
            if there is None or found < 0:
                continue
            at = bisect_left(there, wanted, key=lambda record: record[1])
            first = there[at][0] if at < len(there) else None
            if first != found:
                what = f"({topic!r}, {partition}) at {wanted}: {found}, where {first} is the first"
                yield Anomaly(type(self).__name__, what, (operation,))


def time_of(value: str) -> int:
    """The time of creation in a value of `jepsen.processes.clients.producing`:
    "<session>/<partition>@<ms>/<sequence>".
    """
    return int(value.rpartition("/")[0].rpartition("@")[2])


def _times(records: dict[int, str]) -> list[tuple[int, int]]:
    """Offsets and times of the records that are newer than all before them. Only these can be the first for
    any time.
    """
    latest, times = -1, []
    for offset, value in sorted(records.items()):
        if time_of(value) > latest:
            latest = time_of(value)
            times.append((offset, latest))
    return times


OFFSET_CHECKERS: Final[tuple[Checker, ...]] = (EpochsGrowWithOffsets(), EndsNeverGoBack(), TimesFindTheFirst())
