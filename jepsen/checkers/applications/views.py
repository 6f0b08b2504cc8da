"""Views of an application's history: its partitions, and what its groups did with them."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping

import attrs

from jepsen.checkers.committed_offsets import completion_time
from jepsen.checkers.records import TopicPartition, acknowledged
from jepsen.history import History, Operation, Outcome


@attrs.frozen
class CommitEvidence:
    """An operation which shows that a group had committed `offset`."""

    offset: int
    operation: Operation

    def before(self, other: "CommitEvidence | None") -> bool:
        """True if it shows more than the other: a higher offset, or the same one earlier."""
        return other is None or (-self.offset, completion_time(self.operation)) < (
            -other.offset,
            completion_time(other.operation),
        )


def commit_evidence(history: History) -> dict[tuple[str, TopicPartition], CommitEvidence]:
    """The highest offset that each group is known to have committed, by group and partition."""
    found: dict[tuple[str, TopicPartition], CommitEvidence] = {}
    for operation in history.of("commit", "fetch-committed", outcome=Outcome.OK):
        offsets = operation.value.offsets if operation.function == "commit" else operation.result
        for topic, index, offset in offsets:
            key, evidence = (operation.value.group, (topic, index)), CommitEvidence(offset, operation)
            if evidence.before(found.get(key)):
                found[key] = evidence
    return found


def sends_with_offset(history: History) -> Iterator[tuple[TopicPartition, int, Operation]]:
    """The acknowledged sends whose offset is known."""
    for partition, operation in acknowledged(history):
        if operation.result is not None:
            yield partition, operation.result, operation


@attrs.define(eq=False)
class GroupView:
    """A group's reads of one partition. `received` has the first read of each offset, `processed` all operations."""

    received: dict[int, Operation] = attrs.field(factory=dict)
    processed: dict[int, list[Operation]] = attrs.field(factory=lambda: defaultdict(list))
    processes: bool = False

    def first(self) -> int:
        """The first offset that a member received: nothing is promised about earlier records."""
        return min(self.received)

    def is_processed(self, offset: int) -> bool:
        return any(each.outcome is Outcome.OK for each in self.processed.get(offset, ()))


def group_views(history: History) -> Mapping[tuple[str, TopicPartition], GroupView]:
    """The reads of groups that received records, by group and partition.

    `processes` is true if the application records what it processes of the topic.
    """
    views: dict[tuple[str, TopicPartition], GroupView] = {}
    for operation in history.of("poll-group", outcome=Outcome.OK):
        poll = operation.value
        view = views.setdefault((poll.group, (poll.topic, poll.partition)), GroupView())
        for offset, _ in operation.result:
            view.received.setdefault(offset, operation)
    topics: set[tuple[str, str]] = set()
    for operation in history.of("process"):
        work = operation.value
        topics.add((work.group, work.topic))
        known = views.get((work.group, (work.topic, work.partition)))
        if known is not None:
            known.processed[work.offset].append(operation)
    for (group, (topic, _)), view in views.items():
        view.processes = (group, topic) in topics
    return {key: view for key, view in views.items() if view.received}


def last_scans(history: History) -> dict[TopicPartition, Operation]:
    """The last part of the last read of each partition to its end."""
    found: dict[TopicPartition, Operation] = {}
    for operation in history.of("scan", outcome=Outcome.OK):
        key = operation.value.topic, operation.value.partition
        before = found.get(key)
        if before is None or scan_rank(operation) >= scan_rank(before):
            found[key] = operation
    return found


class PartitionReads:
    """The complete and incomplete reads of one partition from its begin, whose parts are found by their offsets."""

    def __init__(self) -> None:
        self._by_begin: dict[float, list[Operation]] = {}

    def add(self, scan: Operation) -> None:
        """Add a part. Those of a read are added in their order."""
        self._by_begin.setdefault(scan.invoked_at, []).append(scan)

    def deciding(self, send: Operation, offset: int) -> Iterator[Operation]:
        """The parts that decide whether an acknowledged record is there: of reads that began after it was told.

        A part has its offset, or is the last one before it, if the partition ends there.
        """
        for began_at, parts in self._by_begin.items():
            if began_at > completion_time(send):
                at = bisect_right(parts, offset, key=lambda part: int(part.value.start)) - 1
                part = parts[max(at, 0)]
                if offset >= part.value.log_end or part.value.start <= offset < part.value.stop:
                    yield part


def partition_reads(history: History) -> Mapping[TopicPartition, PartitionReads]:
    """The reads of each partition to its end."""
    found: dict[TopicPartition, PartitionReads] = defaultdict(PartitionReads)
    for operation in sorted(history.of("scan", outcome=Outcome.OK), key=scan_rank):
        found[operation.value.topic, operation.value.partition].add(operation)
    return found


def scan_rank(operation: Operation) -> tuple[float, int]:
    """Orders parts of reads: later reads are greater, and later parts of a read."""
    return operation.invoked_at, operation.value.stop


def is_complete(scan: Operation | None) -> bool:
    """True if the last part of a read is at the end of its partition."""
    return scan is not None and bool(scan.value.stop >= scan.value.log_end)
