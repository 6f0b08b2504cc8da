"""Judges a stored history with Spark.

Operations are projected to keys, shuffled, and judged key by key, in a stream: a worker holds the operations of one key
at a time. So a history has to fit the disks of the cluster, and each of its keys the memory of one worker.
"""

import json
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession

from jepsen.checkers import Anomaly, Checker, Promise, Verdict
from jepsen.checkers.verdict import ANOMALIES_MAX, meaning_of
from jepsen.collection import no_collection
from jepsen.history import History, Operation
from jepsen.journal import BadJournal, events_of, operations_of
from jepsen.spark.events import join_operations, read_events
from jepsen.spark.projections import Projection, contexts_of, project, topic_of
from jepsen.spark.promises import by_projection

# The parts of operations that belong to a key, some at a time: `part` is a pickled list of them.
_PARTS: Final = "projection string, key string, part binary"
# Operations that are projected at a time.
_BATCH: Final = 10_000

Contexts: TypeAlias = Mapping[str, Sequence[Operation]]
# A promise, how often it is broken, and one of its anomalies as JSON.
Finding: TypeAlias = tuple[str, int, str | None]


def check(spark: SparkSession, paths: Sequence[str], checkers: Sequence[Checker]) -> Verdict:
    """The verdict of `jepsen.checkers.judge` on the history in these files (see `jepsen.spark.events`).

    Proofs show what belongs to the key: of a batch of records, for example, the record that is there twice. Where a
    promise is broken very often, other anomalies may be kept than `judge` keeps. Raises BadJournal.
    """
    of_projection = by_projection(checkers)
    operations = join_operations(read_events(spark, paths)).persist(StorageLevel.DISK_ONLY)
    try:
        counts = _counts(operations)
        contexts = _contexts(operations) if Projection.PARTITION in of_projection else {}
        findings = _findings(spark, operations, of_projection, contexts)
    finally:
        operations.unpersist()
    return Verdict(tuple(_promise(each, findings) for each in checkers), counts)


def _counts(operations: DataFrame) -> dict[str, int]:
    rows = operations.groupBy("f", "outcome").count().collect()
    for row in rows:
        if row.f is None:
            raise BadJournal(f"{row['count']} operations are completed that were never begun")
    return {f"{row.f} {row.outcome}": row["count"] for row in sorted(rows, key=lambda row: (row.f, row.outcome))}


def _contexts(operations: DataFrame) -> Contexts:
    few = operations.where("f in ('create-topic', 'assign')").select("begun", "completed")
    found: dict[str, list[Operation]] = defaultdict(list)
    for topic, context in few.rdd.mapPartitions(_told_contexts).distinct().collect():
        found[topic].append(pickle.loads(context))
    return dict(found)


def _told_contexts(rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
    told: set[tuple[str, str]] = set()
    for operation in _operations(rows):
        for topic, context in contexts_of(operation):
            # Members are assigned the partitions of a topic again and again.
            what = context.value.group if context.function == "assign" else f"creation at {context.invoked_at}"
            if (topic, what) not in told:
                told.add((topic, what))
                yield topic, pickle.dumps(context)


def _findings(
    spark: SparkSession,
    operations: DataFrame,
    of_projection: Mapping[Projection, tuple[Checker, ...]],
    contexts: Contexts,
) -> Mapping[str, tuple[int, list[Anomaly]]]:
    """How often each promise is broken, and some of the anomalies."""
    parts = operations.select("begun", "completed").rdd.mapPartitions(_projecting(tuple(of_projection)))
    # A key is in one partition, and its parts follow each other there.
    keyed = spark.createDataFrame(parts, _PARTS, verifySchema=False).repartition("projection", "key")
    judged = keyed.sortWithinPartitions("projection", "key").rdd.mapPartitions(_judging(of_projection, contexts))
    found: dict[str, tuple[int, list[Anomaly]]] = {}
    for promise, broken, anomaly in judged.collect():
        before, kept = found.get(promise, (0, []))
        if anomaly is not None and len(kept) < ANOMALIES_MAX:
            kept.append(_anomaly(promise, json.loads(anomaly)))
        found[promise] = before + broken, kept
    return found


def _projecting(projections: Sequence[Projection]) -> Callable[[Iterable[Row]], Iterable[tuple[str, str, bytes]]]:
    def projected(rows: Iterable[Row]) -> Iterator[tuple[str, str, bytes]]:
        left = iter(rows)
        while batch := list(islice(left, _BATCH)):
            parts: dict[tuple[str, str], list[Operation]] = defaultdict(list)
            with no_collection():
                for operation in _operations(batch):
                    for projection in projections:
                        for key, part in project(projection, operation):
                            parts[projection.value, key].append(part)
            for (name, key), of_key in parts.items():
                yield name, key, pickle.dumps(of_key, pickle.HIGHEST_PROTOCOL)

    return projected


def _judging(
    of_projection: Mapping[Projection, tuple[Checker, ...]], contexts: Contexts
) -> Callable[[Iterable[Row]], Iterable[Finding]]:
    def judged(rows: Iterable[Row]) -> Iterator[Finding]:
        broken: Counter[str] = Counter()
        for (name, key), of_key in groupby(rows, key=itemgetter(0, 1)):
            projection = Projection(name)
            parts = [operation for _, _, part in of_key for operation in pickle.loads(part)]
            known = contexts.get(topic_of(key), ()) if projection is Projection.PARTITION else ()
            with no_collection():
                for promise, anomaly in _anomalies([*known, *parts], of_projection[projection]):
                    broken[promise] += 1
                    yield promise, 1, _told(anomaly) if broken[promise] <= ANOMALIES_MAX else None

    return judged


def _anomalies(parts: list[Operation], checkers: Iterable[Checker]) -> Iterator[tuple[str, Anomaly]]:
    history = History(lambda: 0.0)
    # As `operations_of` sorts a whole history.
    history.operations = sorted(parts, key=lambda each: (each.invoked_at, each.client, each.serial))
    for checker in checkers:
        yield from ((type(checker).__name__, anomaly) for anomaly in checker.check(history))


def _operations(rows: Iterable[Row]) -> list[Operation]:
    return operations_of(json.loads(line) for row in rows for line in row if line is not None)


def _told(anomaly: Anomaly) -> str:
    proof = [events_of(operation) for operation in anomaly.proof]
    return json.dumps({"what": anomaly.what, "proof": proof})


def _anomaly(promise: str, content: dict[str, Any]) -> Anomaly:
    return Anomaly(promise, content["what"], tuple(operations_of(events)[0] for events in content["proof"]))


def _promise(checker: Checker, findings: Mapping[str, tuple[int, list[Anomaly]]]) -> Promise:
    name = type(checker).__name__
    broken, kept = findings.get(name, (0, []))
    return Promise(name, meaning_of(checker), broken, tuple(kept))
