"""Promises that records are stored, reach the groups that consume them, and are processed."""

from collections import defaultdict
from collections.abc import Iterator

from jepsen.checkers.applications.views import commit_evidence, group_views, partition_reads, sends_with_offset
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, excerpt, name_of
from jepsen.history import History, Operation


class AcknowledgedRecordsAreStored:
    """An acknowledged record is at its offset when its partition is read later."""

    def check(self, history: History) -> Iterator[Anomaly]:
        reads = partition_reads(history)
        records: dict[int, dict[int, str]] = {}
        for partition, offset, operation in sends_with_offset(history):
            for scan in reads[partition].deciding(operation, offset) if partition in reads else ():
                if id(scan) not in records:
                    records[id(scan)] = dict(scan.result)
                if what := _missing(operation, offset, scan, records[id(scan)]):
                    sentence = f"{operation.value.values[0]} was acknowledged at {offset} of {name_of(partition)},"
                    yield Anomaly(type(self).__name__, f"{sentence} {what}", (operation, excerpt(scan, offset)))
                    break


class RecordsReachGroups:
    """A group that has committed past an acknowledged record has received it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        committed = commit_evidence(history)
        sends: dict[TopicPartition, list[tuple[int, Operation]]] = defaultdict(list)
        for partition, offset, operation in sends_with_offset(history):
            sends[partition].append((offset, operation))
        for (group, partition), view in group_views(history).items():
            evidence, first = committed.get((group, partition)), view.first()
            for offset, operation in sends[partition] if evidence is not None else ():
                if evidence is not None and first <= offset < evidence.offset and offset not in view.received:
                    what = (
                        f"{group} has committed {evidence.offset} of {name_of(partition)}, and no member of it has "
                        f"received {operation.value.values[0]} at {offset}"
                    )
                    yield Anomaly(type(self).__name__, what, (operation, evidence.operation))


class ReceivedRecordsAreProcessed:
    """A group that has committed past a record has begun to process it, if it records what it processes."""

    def check(self, history: History) -> Iterator[Anomaly]:
        committed = commit_evidence(history)
        for (group, partition), view in group_views(history).items():
            evidence = committed.get((group, partition))
            if evidence is None or not view.processes:
                continue
            for offset, poll in sorted(view.received.items()):
                if offset < evidence.offset and not view.processed.get(offset):
                    name = dict(poll.result)[offset]
                    what = (
                        f"{group} has committed {evidence.offset} of {name_of(partition)}, and has not processed "
                        f"{name} at {offset}"
                    )
                    yield Anomaly(type(self).__name__, what, (excerpt(poll, offset), evidence.operation))


def _missing(send: Operation, offset: int, scan: Operation, records: dict[int, str]) -> str:
    """How a read contradicts an acknowledgement; empty if it does not."""
    if offset >= scan.value.log_end:
        return f"and the partition ends at {scan.value.log_end}"
    found = records.get(offset)
    if found == send.value.values[0]:
        return ""
    return "and nothing is there" if found is None else f"where there is {found}"
