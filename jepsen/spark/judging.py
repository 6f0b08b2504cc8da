"""The checkers' findings in the operations of each key."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

import pyarrow as pa

from jepsen.checkers import Anomaly, Checker
from jepsen.checkers.verdict import ANOMALIES_MAX, checker_name
from jepsen.collection import no_collection
from jepsen.history import History, Operation
from jepsen.journal import events_of
from jepsen.spark.packing import Packing, rows_of
from jepsen.spark.projections import Projection, context_of_key
from jepsen.spark.reading import MapBatches

# A promise, the number of times it is broken, and one of its anomalies as JSON.
FINDINGS: Final = "promise string, broken bigint, anomaly string"

_SCHEMA: Final = pa.schema([("promise", pa.string()), ("broken", pa.int64()), ("anomaly", pa.string())])


def judging(of_projection: Mapping[Projection, tuple[Checker, ...]], contexts: Mapping[str, bytes]) -> MapBatches:
    """Build the function that judges rows of parts, sorted by kind and key. `contexts` are packed
    operations by the name of the context.
    """

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packing, broken = Packing(), Counter[str]()
        for (kind, key), rows in groupby(rows_of(batches), key=itemgetter(0, 1)):
            projection = Projection(kind)
            with no_collection():
                parts = [operation for _, _, packed in rows for operation in packing.unpack_operations(packed)]
                context = context_of_key(projection, key)
                if context is not None and context in contexts:
                    parts += packing.unpack_operations(contexts[context])
                told = list(_first_anomalies(_anomalies(parts, of_projection[projection]), broken))
            if told:
                yield pa.RecordBatch.from_pylist(told, _SCHEMA)
        counts = [{"promise": promise, "broken": count} for promise, count in broken.items()]
        yield pa.RecordBatch.from_pylist(counts, _SCHEMA)

    return judge


def _anomalies(parts: list[Operation], checkers: Iterable[Checker]) -> Iterator[tuple[str, Anomaly]]:
    history = History(lambda: 0.0)
    # The same order as `operations_of` gives a whole history.
    history.operations = sorted(parts, key=attrgetter("invoked_at", "client", "serial"))
    for checker in checkers:
        yield from ((checker_name(checker), anomaly) for anomaly in checker.check(history))


def _first_anomalies(found: Iterable[tuple[str, Anomaly]], broken: Counter[str]) -> Iterator[dict[str, str | int]]:
    """Count the anomalies, and yield the first ones of each promise."""
    for promise, anomaly in found:
        broken[promise] += 1
        if broken[promise] <= ANOMALIES_MAX:
            proof = [events_of(operation) for operation in anomaly.proof]
            yield {"promise": promise, "broken": 0, "anomaly": json.dumps({"what": anomaly.what, "proof": proof})}
