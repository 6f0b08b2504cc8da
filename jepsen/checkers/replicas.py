"""Promises about the logs of a partition's replicas at the end of a run."""

from collections import defaultdict
from collections.abc import Iterator

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, name_of
from jepsen.history import History, Operation, Outcome


class ReplicasAreIdentical:
    """All replicas of a partition have all records below its high watermark, with the same bytes.

    The high watermark is the highest that any replica knows. Replicas may start at different offsets if retention or
    DeleteRecords has deleted records on one replica before another.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        replicas: dict[TopicPartition, list[Operation]] = defaultdict(list)
        for operation in history.of("read-replica", outcome=Outcome.OK):
            replicas[operation.value.topic, operation.value.partition].append(operation)
        for partition, operations in replicas.items():
            committed = max(each.result.high_watermark for each in operations)
            first, *others = operations
            for other in others:
                difference = _difference(first, other, committed)
                if difference is not None:
                    offset, what = difference
                    proof = (_around(first, offset), _around(other, offset))
                    yield Anomaly(type(self).__name__, f"{name_of(partition)} below {committed}: {what}", proof)


def _difference(first: Operation, other: Operation, committed: int) -> tuple[int, str] | None:
    """The first offset at which two replicas differ, and a description of the difference."""
    start = max(each.result.batches[0][0] if each.result.batches else 0 for each in (first, other))
    ours, theirs = (
        [batch for batch in each.result.batches if start <= batch[0] < committed] for each in (first, other)
    )
    for mine, its in zip(ours, theirs, strict=False):
        if mine != its:
            return mine[0], f"{first.value.node} has {_described(mine)}, {other.value.node} {_described(its)}"
    for operation, batches in ((first, ours), (other, theirs)):
        end = batches[-1][1] if batches else start
        if end < committed:
            return end, f"{operation.value.node} ends at {end}"
    return None


def _described(batch: tuple[int, int, str]) -> str:
    return f"offsets {batch[0]} to {batch[1] - 1} as {batch[2]}"


def _around(operation: Operation, offset: int) -> Operation:
    """The operation with only the batches around an offset."""
    batches = operation.result.batches
    at = next((index for index, batch in enumerate(batches) if batch[1] > offset), len(batches))
    return attrs.evolve(operation, result=attrs.evolve(operation.result, batches=batches[max(0, at - 1) : at + 2]))
