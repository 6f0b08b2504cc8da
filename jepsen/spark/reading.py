"""Converts events to parts of operations by key, in one pass over the files of a history."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from jepsen.collection import no_collection
from jepsen.history import Operation, Outcome
from jepsen.shapes import check_shape
from jepsen.spark.events import COLUMNS
from jepsen.spark.packing import CONTEXT, COUNT, EVENTS, Packing, batch_of, rows_of
from jepsen.spark.pairing import Pairing, portions, unfinished_of
from jepsen.spark.projections import CONTEXTUAL, Projection, contexts_of, projectors, stronger_context

MapBatches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# The key that counts completion events without an invocation.
UNBEGUN: Final = "unbegun"
# The number of keys that unpaired events are hashed to.
_EVENT_KEYS: Final = 1_024


def reading(projections: Sequence[Projection]) -> MapBatches:
    """Build the function that reads events. Unpaired events become rows of EVENTS."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, pairing = _PartsWriter(projections), Pairing()
        for events in portions(batches):
            with no_collection():
                yield writer.parts(pairing.operations(events))
            if pairing.is_full:
                yield writer.events(pairing.take_waiting())
        yield writer.events(pairing.take_waiting())
        yield writer.summary()

    return read


def completing(projections: Sequence[Projection]) -> MapBatches:
    """Build the function that reads rows of EVENTS, sorted by key. An event without a counterpart here has
    none at all.
    """

    def complete(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, packing = _PartsWriter(projections), Packing()
        for _, rows in groupby(rows_of(batches), key=itemgetter(1)):
            pairing = Pairing()
            columns = zip(*(event for _, _, packed in rows for event in packing.unpack(packed)), strict=True)
            events = pa.table([*columns], COLUMNS)
            with no_collection():
                operations = pairing.operations(events)
                left = pairing.take_waiting()
                begun = left.filter(pc.equal(left["type"], "invoke"))
                yield writer.parts([*operations, *unfinished_of(begun)])
            writer.counts[UNBEGUN] += len(left) - len(begun)
        yield writer.summary()

    return complete


class _PartsWriter:
    """Converts operations to rows: parts by key, counts, and contexts."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self.counts: Counter[str] = Counter()
        self._projections = projections
        self._packing = Packing()
        self._contexts: dict[tuple[str, str], Operation] = {}

    def parts(self, operations: Iterable[Operation]) -> pa.RecordBatch:
        of_function: dict[str, list[Operation]] = defaultdict(list)
        for operation in operations:
            of_function[operation.function].append(operation)
        parts: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        for function, some in of_function.items():
            for operation in some:
                check_shape(operation)
            self._count(function, some)
            for projection, projector in projectors(function, self._projections):
                kind = projection.value
                for operation in some:
                    for key, part in projector(operation):
                        parts[kind, key].append(part)
        return batch_of((kind, key, self._packing.pack_operations(its)) for (kind, key), its in parts.items())

    def _count(self, function: str, operations: Sequence[Operation]) -> None:
        outcomes = [operation.outcome for operation in operations]
        for outcome in Outcome:
            self.counts[f"{function} {outcome.value}"] += outcomes.count(outcome)
        for operation in operations if function in CONTEXTUAL else ():
            for topic, context in contexts_of(operation):
                self._keep(topic, context)

    def events(self, events: pa.Table) -> pa.RecordBatch:
        """Pack unpaired events into rows."""
        keys: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for event in zip(*(column.to_pylist() for column in events.columns), strict=True):
            keys[str(crc32(event[1].encode()) % _EVENT_KEYS)].append(event)
        return batch_of((EVENTS, key, self._packing.pack(its)) for key, its in keys.items())

    def summary(self) -> pa.RecordBatch:
        """The counts and contexts of all operations, as rows."""
        counts = ((COUNT, key, self._packing.pack(count)) for key, count in self.counts.items() if count)
        contexts = (
            (CONTEXT, topic, self._packing.pack_operations([context])) for (topic, _), context in self._contexts.items()
        )
        return batch_of((*counts, *contexts))

    def _keep(self, topic: str, context: Operation) -> None:
        name = topic, context_name(context)
        self._contexts[name] = stronger_context(self._contexts.get(name), context)


def context_name(context: Operation) -> str:
    """A name that identifies a fact, so that the repeated assignments of a topic are kept once."""
    value = context.value
    match context.function:
        case "assign":
            return str(value.group)
        case "process":
            return f"process {value.group}"
        case "commit":
            topic, partition, _ = value.offsets[0]
            return f"commit {value.group} {partition}/{topic}"
        case "scan":
            return f"scan {value.partition}/{value.topic}"
    return f"{context.function} {context.value} at {context.invoked_at}"
