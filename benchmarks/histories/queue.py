"""The operations on records in a large history: two producers and a consumer for each partition.

The producers send batches alternately. Six batches of one to three records form a cycle of 12 records. So the record at
an offset can be computed from the offset, and each window of time can be generated independently.
"""

from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.histories.columns import FAIL, INFO, OK, PENDING, Integers, OperationColumns, joined, repeated, text
from benchmarks.histories.plants import Plants

PARTITIONS_PER_TOPIC: Final = 4
RECORDS_PER_CYCLE: Final = 12
OPERATIONS_PER_CYCLE: Final = 8
# Besides the cycles: an empty poll, a refused send, and a send without a response.
OPERATIONS_PER_WINDOW: Final = 3

_BATCHES: Final = 6
_POLLS: Final = 2
_RECORDS_PER_POLL: Final = RECORDS_PER_CYCLE // _POLLS
_RECORDS_PER_SESSION: Final = RECORDS_PER_CYCLE // 2
# For each batch of a cycle: its number of records, the index of the first one, and its sequence in its session.
_SIZES: Final = np.array([1, 2, 3, 1, 2, 3])
_STARTS: Final = np.array([0, 1, 3, 6, 7, 9])
_SEQUENCES: Final = np.array([0, 0, 1, 2, 4, 3])
# The batch of each record of a cycle.
_BATCH_OF: Final = np.repeat(np.arange(_BATCHES), _SIZES)
_SEQUENCE_OF: Final = _SEQUENCES[_BATCH_OF] + np.arange(RECORDS_PER_CYCLE) - _STARTS[_BATCH_OF]
# The record of a cycle that is lost or duplicated (the second of a batch), and the one at which a poll has an anomaly.
_PLACE_IN_LOG: Final = 4
_PLACE_IN_POLL: Final = 8
# The share of sends with an unknown outcome, and the share of those that never complete.
_INFO_SHARE: Final = 0.02
_PENDING_SHARE: Final = 0.125
# Time advances in steps, one for each batch of a partition. A window has some steps more than batches.
_SPARE_STEPS: Final = 10
_POLL_DELAY_STEPS: Final = 3


def topic_of(partition: int) -> tuple[str, int]:
    """The topic and the index of the partition with this number."""
    return f"t{partition // PARTITIONS_PER_TOPIC}", partition % PARTITIONS_PER_TOPIC


def processes_of(partition: int) -> list[str]:
    """The clients that use only the partition with this number."""
    return [f"p{partition}{role}" for role in ("a", "b", "consumer", "refused", "lost", "last")]


@attrs.frozen
class Log:
    """The records of some cycles of the partitions from `first` to below `end`."""

    first: int
    end: int
    cycles: range

    @property
    def partitions(self) -> range:
        return range(self.first, self.end)

    def grid(self, items: int) -> tuple[Integers, Integers, Integers]:
        """The partition (relative to `first`), the cycle and the item for all items of all cycles, in order."""
        axes = np.arange(len(self.partitions)), np.asarray(self.cycles), np.arange(items)
        partition, cycle, item = np.meshgrid(*axes, indexing="ij")
        return partition.ravel(), cycle.ravel(), item.ravel()

    def index(self, partition: int, cycle: int, item: int, items: int) -> int:
        """The index of an item in the grid."""
        return ((partition - self.first) * len(self.cycles) + cycle - self.cycles.start) * items + item

    def values(self) -> pa.Array:
        partition, cycle, record = self.grid(RECORDS_PER_CYCLE)
        sessions = pa.array([f"{self.session(each, role)}/" for each in self.partitions for role in "ab"])
        prefixes = sessions.take(pa.array(partition * 2 + _BATCH_OF[record] % 2))
        return text(prefixes, cycle * _RECORDS_PER_SESSION + _SEQUENCE_OF[record])

    def records(self, values: pa.Array) -> pa.Array:
        """Each record in the form of a read's result."""
        _, cycle, record = self.grid(RECORDS_PER_CYCLE)
        return text("[", cycle * RECORDS_PER_CYCLE + record, ', "', values, '"]')

    def session(self, partition: int, role: str) -> str:
        topic, index = topic_of(partition)
        return f"p{partition}{role}/{topic}-{index}"


@attrs.frozen
class QueueWindow:
    """The operations of the clients of all partitions in one window of time."""

    log: Log
    number: int
    start_ns: int
    step_ns: float
    plants: Plants
    rng: np.random.Generator

    def operations(self) -> list[OperationColumns]:
        values = self.log.values()
        return [self._sends(values), self._polls(values), self._empty_polls(), self._refused(), self._lost()]

    def _sends(self, values: pa.Array) -> OperationColumns:
        partition, cycle, batch = self.log.grid(_BATCHES)
        sequence = cycle * _RECORDS_PER_SESSION + _SEQUENCES[batch]
        starts = np.append(np.arange(len(values)).reshape(-1, RECORDS_PER_CYCLE)[:, _STARTS].ravel(), len(values))
        told = joined(values, starts, '", "')
        session = pa.array(partition * 2 + batch % 2)
        heads = pa.array([_sending(each, role) for each in self.log.partitions for role in "ab"])
        outcome = self._outcomes(len(partition))
        offsets = text(cycle * RECORDS_PER_CYCLE + _STARTS[batch])
        return OperationColumns(
            pa.array([f"p{each}{role}" for each in self.log.partitions for role in "ab"]).take(session),
            cycle * (_BATCHES // 2) + batch // 2,
            repeated("send", len(partition)),
            *self._times(partition, (cycle - self.log.cycles.start) * _BATCHES + batch),
            outcome,
            text(heads.take(session), sequence, ', "values": ["', told, '"], "goes_on": false}'),
            pc.if_else(pa.array(outcome == OK), offsets, '"timed out"'),
        )

    def _outcomes(self, count: int) -> Integers:
        chance = self.rng.random(count)
        outcome = np.where(chance < _INFO_SHARE, INFO, OK)
        outcome[chance < _INFO_SHARE * _PENDING_SHARE] = PENDING
        for partition, (_, cycle) in self._planted():
            outcome[self.log.index(partition, cycle, int(_BATCH_OF[_PLACE_IN_LOG]), _BATCHES)] = OK
        return outcome

    def _polls(self, values: pa.Array) -> OperationColumns:
        partition, cycle, poll = self.log.grid(_POLLS)
        results, outcome = self._polled(values)
        heads = pa.array([_head(each) + ', "offset": ' for each in self.log.partitions])
        consumers = pa.array([f"p{each}consumer" for each in self.log.partitions])
        steps = (cycle - self.log.cycles.start) * _BATCHES + (poll + 1) * (_BATCHES // _POLLS) + _POLL_DELAY_STEPS
        return OperationColumns(
            consumers.take(pa.array(partition)),
            cycle * _POLLS + poll + self.number,
            repeated("poll", len(partition)),
            *self._times(partition, steps),
            outcome,
            text(heads.take(pa.array(partition)), cycle * RECORDS_PER_CYCLE + poll * _RECORDS_PER_POLL, "}"),
            results,
        )

    def _polled(self, values: pa.Array) -> tuple[pa.Array, Integers]:
        """The results and outcomes of the polls, including planted anomalies."""
        records = self.log.records(values)
        count = len(records) // _RECORDS_PER_POLL
        order, sizes = np.arange(len(records)), np.full(count, _RECORDS_PER_POLL)
        outcome, added, left_out = np.full(count, OK), list[str](), list[int]()
        for partition, (kind, cycle) in self._planted():
            at = self.log.index(partition, cycle, _PLACE_IN_POLL, RECORDS_PER_CYCLE)
            offset = cycle * RECORDS_PER_CYCLE + _PLACE_IN_POLL
            match kind:
                case "reordered poll":
                    order[at], order[at + 1] = at + 1, at
                case "skipped record":
                    left_out.append(at)
                    sizes[at // _RECORDS_PER_POLL] -= 1
                case "forged record" | "refused record":
                    order[at] = len(records) + len(added)
                    role, sequence = ("refused", self.number) if kind == "refused record" else ("nobody", 0)
                    added.append(f'[{offset}, "{self.log.session(partition, role)}/{sequence}"]')
                case "corrupt batch":
                    outcome[at // _RECORDS_PER_POLL] = FAIL
        told = pa.concat_arrays([records, pa.array(added, pa.string())]).take(pa.array(np.delete(order, left_out)))
        results = text("[", joined(told, np.append(0, np.cumsum(sizes)), ", "), "]")
        return pc.if_else(pa.array(outcome == OK), results, '"wrong checksum"'), outcome

    def _planted(self) -> list[tuple[int, tuple[str, int]]]:
        return [each for each in self.plants.partitions.items() if each[1][1] in self.log.cycles]

    def _empty_polls(self) -> OperationColumns:
        end, serial = self.log.cycles.stop * RECORDS_PER_CYCLE, self.log.cycles.stop * _POLLS + self.number
        values = [f'{_head(each)}, "offset": {end}}}' for each in self.log.partitions]
        return self._one_each("consumer", "poll", serial, OK, values, "[]")

    def _refused(self) -> OperationColumns:
        return self._one_each(
            "refused", "send", self.number, FAIL, self._sendings_of_one("refused"), '"MESSAGE_TOO_LARGE"'
        )

    def _lost(self) -> OperationColumns:
        return self._one_each("lost", "send", self.number, PENDING, self._sendings_of_one("lost"), "null")

    def _sendings_of_one(self, role: str) -> list[str]:
        sessions = ((each, self.log.session(each, role)) for each in self.log.partitions)
        ends = f'{self.number}, "values": ["%s/{self.number}"], "goes_on": false}}'
        return [_sending(each, role) + ends % session for each, session in sessions]

    def _one_each(
        self, role: str, function: str, serial: int, outcome: int, values: list[str], result: str
    ) -> OperationColumns:
        count = len(values)
        steps = np.full(count, len(self.log.cycles) * _BATCHES + _POLL_DELAY_STEPS + 2)
        return OperationColumns(
            pa.array([f"p{each}{role}" for each in self.log.partitions]),
            np.full(count, serial),
            repeated(function, count),
            *self._times(np.arange(count), steps),
            np.full(count, outcome),
            pa.array(values),
            repeated(result, count),
        )

    def _times(self, partition: Integers, step: Integers) -> tuple[Integers, Integers]:
        """The begin and end times of operations: around their step, between the previous and the next one."""
        phases = np.random.default_rng(1).random(len(self.log.partitions))
        middle = self.start_ns + (step + 1 + phases[partition]) * self.step_ns
        before, after = (self.rng.uniform(0.05, 0.95, len(step)) * self.step_ns for _ in range(2))
        return (middle - before).astype(np.int64), (middle + after).astype(np.int64)


def steps_of(cycles: int) -> int:
    """The number of steps of a window with this many cycles."""
    return cycles * _BATCHES + _SPARE_STEPS


def final_reads(log: Log, at_ns: int, plants: Plants) -> OperationColumns:
    """A final read of each partition of `log`, all at the same time."""
    values = log.values()
    records = log.records(values)
    size = len(log.cycles) * RECORDS_PER_CYCLE
    order = np.arange(len(records)).reshape(len(log.partitions), size)
    rows, added = list(order), list[str]()
    for partition, (kind, cycle) in plants.partitions.items():
        row = partition - log.first
        place = cycle * RECORDS_PER_CYCLE + _PLACE_IN_LOG
        if partition in log.partitions and kind == "lost record":
            rows[row] = np.delete(rows[row], place)
        elif partition in log.partitions and kind == "duplicate record":
            rows[row] = np.append(rows[row], len(records) + len(added))
            added.append(f'[{size}, "{values[row * size + place]}"]')
    told = pa.concat_arrays([records, pa.array(added, pa.string())]).take(pa.array(np.concatenate(rows)))
    starts = np.append(0, np.cumsum([len(row) for row in rows]))
    count = len(log.partitions)
    return OperationColumns(
        pa.array([f"p{each}last" for each in log.partitions]),
        np.zeros(count, np.int64),
        repeated("final-read", count),
        np.full(count, at_ns),
        np.full(count, at_ns + 1_000_000),
        np.full(count, OK),
        pa.array(['["{}", {}]'.format(*topic_of(each)) for each in log.partitions]),
        text("[", joined(told, starts, ", "), "]"),
    )


def topic_creations(partitions: int) -> OperationColumns:
    """The creation of the topics that these partitions need, before all other operations."""
    names = [f"t{number}" for number in range(-(-partitions // PARTITIONS_PER_TOPIC))]
    count = len(names)
    wanted = f'"partitions": {PARTITIONS_PER_TOPIC}, "is_flushed": true, "configs": [], "replication_factor": 3'
    return OperationColumns(
        repeated("admin", count),
        np.arange(count),
        repeated("create-topic", count),
        np.arange(count),
        np.arange(count) + 1,
        np.full(count, OK),
        pa.array([f'{{"name": "{name}", {wanted}}}' for name in names]),
        pa.array([f'"id-{name}"' for name in names]),
    )


def _head(partition: int) -> str:
    topic, index = topic_of(partition)
    return f'{{"topic": "{topic}", "partition": {index}'


def _sending(partition: int, role: str) -> str:
    return f'{_head(partition)}, "session": "p{partition}{role}", "sequence": '
