"""Doubts: what a history lacks for a promise to be decided."""

from collections import defaultdict
from collections.abc import Iterator

from jepsen.checkers.applications.views import group_views, is_complete, last_scans, sends_with_offset
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.committed_offsets import completion_time
from jepsen.checkers.records import TopicPartition, name_of
from jepsen.history import History, Operation, Outcome


class NothingIsUnrecorded:
    """No client was used in a way that the recorder does not see."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("unrecorded"):
            what = f"{operation.client} called {operation.value.method}, whose records are not in the history"
            yield Anomaly(type(self).__name__, what, (operation,))


class PartitionsAreReadToTheEnd:
    """Each partition is read to its end after its last acknowledged send."""

    def check(self, history: History) -> Iterator[Anomaly]:
        scans = last_scans(history)
        last: dict[TopicPartition, Operation] = {}
        for partition, _, operation in sends_with_offset(history):
            if partition not in last or completion_time(operation) > completion_time(last[partition]):
                last[partition] = operation
        for partition, operation in last.items():
            scan = scans.get(partition)
            if scan is None or not is_complete(scan) or scan.invoked_at < completion_time(operation):
                what = f"{name_of(partition)} was not read to its end after the last acknowledged send"
                yield Anomaly(type(self).__name__, what, (operation,))


class ProcessingEnds:
    """Each processing of a record that begins has a known end."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for (group, partition), view in group_views(history).items():
            open_ones: dict[int, list[Operation]] = defaultdict(list)
            for offset, operations in sorted(view.processed.items()):
                open_ones[offset] = [each for each in operations if each.outcome is Outcome.INFO]
            for offset, operations in open_ones.items():
                if operations:
                    what = f"whether {group} has processed offset {offset} of {name_of(partition)} is not known"
                    yield Anomaly(type(self).__name__, what, tuple(operations))
