"""The reads of a recorded consumer: records, assignments, positions and commits."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jepsen.history import Outcome
from jepsen.testing.histories.recording.history_file import ClientLog
from jepsen.testing.histories.recording.identities import Identity, RecordView, name_of_record

# Topic, partition, and the offset to read next.
Position: TypeAlias = tuple[str, int, int]
# The offset of a position that the application leaves to the consumer.
UNKNOWN_OFFSET: Final = -1

_text = json.encoder.encode_basestring_ascii


class ReadLog:
    """Records what one consumer reads. `group` is empty if it has none."""

    def __init__(self, log: ClientLog, group: str, identity: Identity | None) -> None:
        self.log = log
        self.group = group
        self._identity = identity
        self._is_member = bool(group)
        self._owned: dict[tuple[str, int], None] = {}
        # The positions after the last records that were received.
        self.positions: dict[tuple[str, int], int] = {}

    def received(self, began_ns: int, topic: str, partition: int, records: Sequence[tuple[int, Any, Any, Any]]) -> None:
        """Record that a read has returned records: (offset, key, value, headers), in their order."""
        parts = []
        for offset, key, value, headers in records:
            name = name_of_record(RecordView(topic, key, value, headers), self._identity)
            parts.append(f"[{offset},{_text(name)}]")
        self.positions[topic, partition] = records[-1][0] + 1
        result = f"[{','.join(parts)}]"
        if self._is_member:
            where = f'"topic":{_text(topic)},"partition":{partition}'
            member = f'"group":{_text(self.group)},"member":{_text(self.log.name)}'
            self.log.record(began_ns, "poll-group", f"{{{member},{where}}}", result)
        else:
            value = f'{{"topic":{_text(topic)},"partition":{partition},"offset":{records[0][0]}}}'
            self.log.record(began_ns, "poll", value, result)

    def received_one(self, began_ns: int, record: Any) -> None:
        """`received` for a record with the attributes that most clients give it."""
        records = [(record.offset, record.key, record.value, record.headers)]
        self.received(began_ns, record.topic, record.partition, records)

    def received_many(self, began_ns: int, records: Iterable[Any]) -> None:
        """`received` for records with attributes, of any partitions."""
        by_partition: dict[tuple[str, int], list[tuple[int, Any, Any, Any]]] = {}
        for each in records:
            row = each.offset, each.key, each.value, each.headers
            by_partition.setdefault((each.topic, each.partition), []).append(row)
        for (topic, partition), rows in by_partition.items():
            self.received(began_ns, topic, partition, rows)

    def assigned(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Record that the group has given partitions to this member."""
        new = list(partitions)
        self._is_member = bool(self.group)
        for each in new:
            self._owned[each] = None
            self.positions.pop(each, None)
        if new and self._is_member:
            self.log.record(self.log.file.now_ns(), "assign", self._ownership(new))

    def given_up(self, partitions: Iterable[tuple[str, int]], *, is_lost: bool = False) -> None:
        """Record that partitions are taken from this member."""
        old = [each for each in partitions if each in self._owned]
        for each in old:
            del self._owned[each]
        if old and self._is_member:
            self.log.record(self.log.file.now_ns(), "lose" if is_lost else "revoke", self._ownership(old))

    def closed(self) -> None:
        """Record that the consumer has given up all that it had."""
        self.given_up(list(self._owned))

    def chosen(self, positions: Iterable[Position]) -> None:
        """Record that the application has assigned partitions itself."""
        self._is_member = False
        self.sought(positions)

    def sought(self, positions: Iterable[Position]) -> None:
        """Record that the application has set positions."""
        for topic, partition, offset in positions:
            self.positions.pop((topic, partition), None)
            value = {"topic": topic, "partition": partition, "offset": max(offset, UNKNOWN_OFFSET)}
            self.log.record(self.log.file.now_ns(), "seek", json.dumps(value))

    def commit(self, offsets: Iterable[Position] | None = None) -> "RecordedCommit":
        """Record that offsets are committed: by default, the positions after all that was received."""
        wanted = [(*each, offset) for each, offset in self.positions.items()] if offsets is None else offsets
        return RecordedCommit(self, sorted(wanted))

    def unrecorded(self, method: str) -> None:
        """Record that a method returns records which are not in the history."""
        self.log.record(self.log.file.now_ns(), "unrecorded", json.dumps({"method": method}))

    def _ownership(self, partitions: Sequence[tuple[str, int]]) -> str:
        value = {"group": self.group, "member": self.log.name, "generation": -1, "partitions": partitions}
        return json.dumps(value)


class RecordedCommit:
    """A commit. As a block, it records the call: an exception leaves the outcome unknown."""

    def __init__(self, reads: ReadLog, offsets: Sequence[Position]) -> None:
        self._log = reads.log
        value = {"group": reads.group, "member": reads.log.name, "generation": -1, "offsets": offsets}
        self._offsets = offsets
        self._value = value
        self._serial = reads.log.invoke("commit", json.dumps(value))

    def __enter__(self) -> "RecordedCommit":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.ended(error)

    def ended(self, error: object = None) -> None:
        """Record the outcome."""
        outcome = Outcome.OK if error is None else Outcome.INFO
        self._log.complete(self._serial, outcome, "commit", "null" if error is None else json.dumps(str(error)[:500]))

    def committed(self, offsets: Sequence[Position], *, is_all: bool) -> None:
        """Record the offsets that a client says it has committed, which may be others than it was given.

        With `is_all`, there were no errors, so nothing else was committed.
        """
        if sorted(offsets) == self._offsets:
            self.ended()
        else:
            outcome = Outcome.FAIL if is_all else Outcome.INFO
            self._log.complete(self._serial, outcome, "commit", json.dumps("other offsets were committed"))
            if offsets:
                value = json.dumps(self._value | {"offsets": sorted(offsets)})
                self._log.record(self._log.file.now_ns(), "commit", value)


def positions_of(offsets: Mapping[Any, Any]) -> list[Position]:
    """The positions in a mapping of partitions to offsets, or to objects with an offset."""
    return [(key.topic, key.partition, getattr(value, "offset", value)) for key, value in offsets.items()]
