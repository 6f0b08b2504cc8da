"""`replay`: files back to a topic, in order per key, at a given rate."""

import time
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.spark.jobs.load import LoadOptions, ValueFormat, load
from broker.spark.jobs.replay import ReplayOptions, replay
from broker.spark.jobs.results import JobFailed
from tests.support.job_topics import DAY_MS, JobTopics


def test_records_of_a_key_come_back_in_their_order(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    source, target = topics.create("recorded", 2), topics.create("replayed", 3)
    records = [
        {"value": b"%d" % number, "key": None if number % 7 == 0 else b"k%d" % (number % 7), "timestamp_ms": DAY_MS}
        for number in range(700)
    ]
    topics.write(source, records)
    load(spark, LoadOptions((source,), str(tmp_path / "out"), records_per_run=300), topics.options)
    done = replay(spark, ReplayOptions(str(tmp_path / "out"), target, where="offset >= 0"), topics.options)
    assert done.records == 700
    by_key = defaultdict(list)
    for record in topics.read(target, 700):
        by_key[record.key].append(int(record.value or b""))
    expected = defaultdict(list)
    for record in records:
        expected[record["key"]].append(int(record["value"]))  # type: ignore[call-overload]
    assert sorted(by_key.pop(None)) == expected.pop(None)
    assert by_key == expected


def test_objects_become_json_again_and_the_rate_is_kept(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    source, target = topics.create("objects"), topics.create("objects.again")
    topics.write(source, [{"value": b'{"id":%d}' % number, "key": b"k"} for number in range(40)])
    options = LoadOptions((source,), str(tmp_path / "out"), value_format=ValueFormat.JSON)
    load(spark, options, topics.options)
    began = time.monotonic()
    replay(spark, ReplayOptions(str(tmp_path / "out"), target, rate=40.0), topics.options)
    # The only key is in one of two tasks, each of which gets half of the rate.
    assert time.monotonic() - began >= 1.5
    assert [record.value for record in topics.read(target, 40)] == [b'{"id":%d}' % number for number in range(40)]


def test_files_without_a_value_are_refused(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(JobFailed, match="has no column value; it has id"):
        replay(spark, ReplayOptions(str(tmp_path / "numbers"), "t"), topics.options)
