"""Doubts about acknowledged records: whether they are stored, and whether they will reach their groups."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from jepsen.checkers.applications.views import (
    CommitEvidence,
    GroupView,
    PartitionReads,
    commit_evidence,
    group_views,
    partition_reads,
    sends_with_offset,
)
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, name_of, reads
from jepsen.history import History, Operation


class RecordsAreReached:
    """Each acknowledged record is in a read, and has reached the groups that consume its partition."""

    def check(self, history: History) -> Iterator[Anomaly]:
        sends: dict[TopicPartition, list[tuple[int, Operation]]] = defaultdict(list)
        for partition, offset, operation in sends_with_offset(history):
            sends[partition].append((offset, operation))
        read: dict[TopicPartition, set[int]] = defaultdict(set)
        for partition, operation in reads(history):
            read[partition].update(offset for offset, _ in operation.result)
        scans = partition_reads(history)
        for partition, its_sends in sends.items():
            unread = [
                (offset, send)
                for offset, send in its_sends
                if offset not in read[partition] and not _is_decided(offset, send, scans.get(partition))
            ]
            yield from _doubt(unread, partition, "in no recorded read")
        committed = commit_evidence(history)
        for (group, partition), view in group_views(history).items():
            evidence = committed.get((group, partition))
            yield from _doubt(_unreceived(view, sends[partition], evidence), partition, f"not received by {group} yet")
            yield from _doubt(_unprocessed(view, evidence), partition, f"not processed by {group} yet")


def _unreceived(
    view: GroupView, sends: Sequence[tuple[int, Operation]], evidence: CommitEvidence | None
) -> list[tuple[int, Operation]]:
    since = max(view.first(), 0 if evidence is None else evidence.offset)
    return [each for each in sends if each[0] >= since and each[0] not in view.received]


def _unprocessed(view: GroupView, evidence: CommitEvidence | None) -> list[tuple[int, Operation]]:
    end = 0 if evidence is None else evidence.offset
    received = view.received.items() if view.processes else ()
    return sorted((offset, poll) for offset, poll in received if offset >= end and not view.processed.get(offset))


def _is_decided(offset: int, send: Operation, scans: PartitionReads | None) -> bool:
    """True if a read decides about the record, as the checker of stored records says."""
    return scans is not None and any(scans.deciding(send, offset))


def _doubt(records: Sequence[tuple[int, Operation]], partition: TopicPartition, state: str) -> Iterator[Anomaly]:
    if records:
        offset, operation = records[0]
        many = f"{len(records)} records" if len(records) > 1 else "a record"
        what = f"{many} of {name_of(partition)}, from offset {offset} on: {state}"
        yield Anomaly(RecordsAreReached.__name__, what, (operation,))
