"""The promise of an application that reads one topic and writes another: one output for each input."""

from collections.abc import Iterator

import attrs

from jepsen.checkers.applications.once import NamedRecords, named_records, places_text, times
from jepsen.checkers.applications.views import CommitEvidence, commit_evidence, is_complete, last_scans
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.committed_offsets import completion_time
from jepsen.checkers.records import TopicPartition
from jepsen.history import History


@attrs.frozen
class Copies:
    """The records of one name in both topics. `passed` are those inputs that the group has committed past, with the
    evidence; `is_read` says whether the output was read to its end after that.
    """

    name: str
    inputs: NamedRecords
    outputs: NamedRecords
    passed: tuple[CommitEvidence, ...]
    is_read: bool

    @property
    def inputs_max(self) -> int:
        """The number of inputs that there may be."""
        return len(self.inputs.places) + max(len(self.inputs.placeless) - len(self.inputs.unexplained), 0)

    @property
    def is_missing(self) -> bool:
        """True if an input has certainly no output."""
        return self.is_read and len(self.outputs.places) < len(self.passed)


@attrs.frozen
class ExactlyOnce:
    """Each record of the topic `source` has one record of the same name in the topic `target`."""

    source: str
    target: str
    group: str | None = None

    @property
    def name(self) -> str:
        return f"exactly once from {self.source} to {self.target}"

    def check(self, history: History) -> Iterator[Anomaly]:
        for copies in _copies(self, history):
            inputs, outputs = copies.inputs, copies.outputs
            proof = (*inputs.proof(), *(each.operation for each in copies.passed), *outputs.proof())
            if copies.inputs_max and len(outputs.places) > copies.inputs_max:
                what = (
                    f"{copies.name} is in {self.source} {times(copies.inputs_max)}, and has {len(outputs.places)} "
                    f"outputs: {places_text(outputs.places)}"
                )
                yield Anomaly(self.name, what, proof)
            elif copies.is_missing:
                where = places_text(inputs.places)
                what = f"{copies.name} is at {where}, which was committed, and has {_count(outputs)} in {self.target}"
                yield Anomaly(self.name, what, proof)


@attrs.frozen
class OutputIsDecided:
    """Each input has its output, or is known to have none."""

    promise: ExactlyOnce

    @property
    def name(self) -> str:
        return f"decided: {self.promise.name}"

    def check(self, history: History) -> Iterator[Anomaly]:
        for copies in _copies(self.promise, history):
            proof = (*copies.inputs.proof(), *copies.outputs.proof())
            if not copies.inputs_max:
                what = f"{copies.name} is in {self.promise.target}, and not in {self.promise.source}"
                yield Anomaly(self.name, what, proof)
            elif len(copies.outputs.places) < len(copies.inputs.places) and not copies.is_missing:
                yield Anomaly(self.name, f"{copies.name} has no output yet, as far as the history tells", proof)
            elif not copies.is_read:
                what = f"{copies.name}: {self.promise.target} was not read to its end after the commits"
                yield Anomaly(self.name, what, proof)


def _copies(promise: ExactlyOnce, history: History) -> Iterator[Copies]:
    records = named_records(history, (promise.source, promise.target))
    evidence = _commits(promise, history)
    scans = {each: scan for each, scan in last_scans(history).items() if each[0] == promise.target}
    read_at = min((scan.invoked_at if is_complete(scan) else -1.0 for scan in scans.values()), default=-1.0)
    for name in dict.fromkeys(name for _, name in records):
        inputs = records.get((promise.source, name), NamedRecords())
        outputs = records.get((promise.target, name), NamedRecords())
        if not inputs.places and not outputs.places:
            continue
        known = [(evidence.get(partition), offset) for partition, offset in inputs.places]
        passed = tuple(each for each, offset in known if each is not None and offset < each.offset)
        is_read = read_at >= 0 and all(completion_time(each.operation) < read_at for each in passed)
        yield Copies(name, inputs, outputs, passed, is_read)


def _commits(promise: ExactlyOnce, history: History) -> dict[TopicPartition, CommitEvidence]:
    """The commits of the application: those of the given group, or of the only one that has committed the input."""
    found = {key: each for key, each in commit_evidence(history).items() if key[1][0] == promise.source}
    groups = {group for group, _ in found}
    if promise.group is None and len(groups) > 1:
        return {}
    return {partition: each for (group, partition), each in found.items() if promise.group in (None, group)}


def _count(records: NamedRecords) -> str:
    return f"{len(records.places)} outputs" if records.places else "no output"
