"""Judges a stored history with Spark.

Each task pairs the events that it reads into operations, and splits the operations into parts by key. The parts are
shuffled and judged key by key. A worker holds either a portion of the events or the operations of one key. So a history
has to fit the disks of the cluster, and each of its keys the memory of one worker.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from jepsen.checkers import Anomaly, Checker, Promise, Verdict
from jepsen.checkers.verdict import ANOMALIES_MAX, checker_name, promise_text
from jepsen.history import Operation
from jepsen.journal import BadJournal, operations_of
from jepsen.spark.arrow import limited_batches, map_batches
from jepsen.spark.events import read_events
from jepsen.spark.judging import FINDINGS, judging
from jepsen.spark.packing import CONTEXT, COUNT, EVENTS, ROWS, Packing
from jepsen.spark.projections import Projection, stronger_context
from jepsen.spark.promises import by_projection
from jepsen.spark.reading import UNBEGUN, completing, context_name, reading

Findings: TypeAlias = Mapping[str, tuple[int, list[Anomaly]]]


def check(spark: SparkSession, paths: Sequence[str], checkers: Sequence[Checker]) -> Verdict:
    """Judge the history in these files (see `jepsen.spark.events`), with the verdict of `jepsen.checkers.judge`.

    A proof shows only what belongs to the key: of a batch of records, for example, the duplicated record. If a promise
    is broken very often, the anomalies kept may differ from those that `judge` keeps. Raises BadJournal.
    """
    of_projection = by_projection(checkers)
    read = map_batches(read_events(spark, paths), reading(tuple(of_projection)), ROWS)
    with limited_batches(spark), _on_disk(read):
        left = read.where(f"kind = '{EVENTS}'").repartition("key").sortWithinPartitions("key")
        completed = map_batches(left, completing(tuple(of_projection)), ROWS)
        with _on_disk(completed):
            rows = read.unionByName(completed)
            counts, contexts = _summaries(rows)
            findings = _findings(rows, of_projection, contexts)
    return Verdict(tuple(_promise(each, findings) for each in checkers), counts)


@contextmanager
def _on_disk(frame: DataFrame) -> Iterator[None]:
    """Compute the rows once, and keep them on the workers' disks within the block."""
    frame.persist(StorageLevel.DISK_ONLY)
    try:
        yield
    finally:
        frame.unpersist()


def _summaries(rows: DataFrame) -> tuple[Mapping[str, int], Mapping[str, bytes]]:
    """The number of operations by function and outcome, and the packed contexts by name."""
    counts: Counter[str] = Counter()
    contexts: dict[str, dict[str, Operation]] = defaultdict(dict)
    packing = Packing()
    for row in rows.where(f"kind in ('{COUNT}', '{CONTEXT}')").collect():
        if row.kind == COUNT:
            counts[row.key] += packing.unpack(row.content)
        else:
            for each in packing.unpack_operations(row.content):
                name = context_name(each)
                contexts[row.key][name] = stronger_context(contexts[row.key].get(name), each)
    if counts[UNBEGUN]:
        raise BadJournal(f"{counts[UNBEGUN]} operations are completed that were never begun")
    packed = {name: packing.pack_operations(facts.values()) for name, facts in contexts.items()}
    return dict(sorted(counts.items())), packed


def _findings(
    rows: DataFrame, of_projection: Mapping[Projection, tuple[Checker, ...]], contexts: Mapping[str, bytes]
) -> Findings:
    """The number of anomalies of each promise, and some of them."""
    parts = rows.where(f"kind not in ('{COUNT}', '{CONTEXT}', '{EVENTS}')")
    # All rows of a key are in one partition, next to each other.
    keyed = parts.repartition("kind", "key").sortWithinPartitions("kind", "key")
    found: dict[str, tuple[int, list[Anomaly]]] = defaultdict(lambda: (0, []))
    for row in map_batches(keyed, judging(of_projection, contexts), FINDINGS).collect():
        broken, kept = found[row.promise]
        if row.anomaly is not None and len(kept) < ANOMALIES_MAX:
            kept.append(_anomaly(row.promise, json.loads(row.anomaly)))
        found[row.promise] = broken + row.broken, kept
    return found


def _anomaly(promise: str, content: Mapping[str, Any]) -> Anomaly:
    return Anomaly(promise, content["what"], tuple(operations_of(events)[0] for events in content["proof"]))


def _promise(checker: Checker, findings: Findings) -> Promise:
    name = checker_name(checker)
    broken, kept = findings.get(name, (0, []))
    return Promise(name, promise_text(checker), broken, tuple(kept))
