"""`load`: topics to Parquet, each record once, despite failures of the job."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from broker.spark.jobs.files import JobFiles, StoredFile
from broker.spark.jobs.load import Granularity, LoadOptions, TableFormat, ValueFormat, load, loaded
from broker.spark.jobs.load.layout import read_files
from broker.spark.jobs.load.manifest import Manifest, ManifestLog, Plan
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange
from tests.support.job_topics import DAY_MS, HOUR_MS, JobTopics
from tests.support.spark_session import BRIEF_JVM

QUARANTINE = "_quarantine"


def offsets(spark: SparkSession, destination: Path | str) -> list[tuple[str, int, int]]:
    rows = loaded(spark, str(destination)).select("topic", "partition", "offset").collect()
    return sorted((row.topic, row.partition, row.offset) for row in rows)


def numbered(count: int, *, partition: int = 0, first: int = 0, step_ms: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "value": b"%d" % number,
            "key": b"k%d" % (number % 3),
            "partition": partition,
            "timestamp_ms": DAY_MS + number * step_ms,
        }
        for number in range(first, first + count)
    ]


def manifests(destination: Path) -> Sequence[dict[str, Any]]:
    paths = sorted((destination / "_manifests").glob("0*.json"))
    return [json.loads(path.read_text()) for path in paths]


def test_load_writes_each_record_once_and_a_rerun_only_new_ones(
    spark: SparkSession, topics: JobTopics, tmp_path: Path
) -> None:
    topic = topics.create("purchases", 2)
    topics.write(topic, [*numbered(100), *numbered(50, partition=1, first=100)])
    options = LoadOptions((topic,), str(tmp_path / "out"), records_per_run=90)
    progress = []
    first = load(spark, options, topics.options, report=progress.append)
    assert (first.runs, first.records, first.quarantined) == (2, 150, 0)
    assert [each.records_left for each in progress] == [60, 0]
    frame = loaded(spark, options.destination)
    assert dict(frame.dtypes)["date"] == "date"
    found = {(row.partition, row.offset): row for row in frame.collect()}
    assert {bytes(row.value) for row in found.values()} == {b"%d" % number for number in range(150)}
    assert bytes(found[1, 0].key) == b"k1"
    assert found[0, 7].timestamp.timestamp() * 1000 == DAY_MS + 7

    rerun = load(spark, options, topics.options)
    assert (rerun.runs, rerun.files) == (0, 0)
    topics.write(topic, numbered(10, first=150))
    assert load(spark, options, topics.options).records == 10
    assert offsets(spark, tmp_path / "out") == [
        *[(topic, 0, offset) for offset in range(110)],
        *[(topic, 1, offset) for offset in range(50)],
    ]
    last = manifests(tmp_path / "out")[-1]
    assert [(each["partition"], each["start"], each["end"]) for each in last["ranges"]] == [(0, 100, 110)]
    assert {each["offset"] for each in last["positions"]} == {110, 50}


def test_directories_are_days_or_hours_of_event_time_in_utc(
    spark: SparkSession, topics: JobTopics, tmp_path: Path
) -> None:
    topic = topics.create("events.007")
    topics.write(topic, numbered(30, step_ms=HOUR_MS))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        by_hour = LoadOptions((topic,), str(tmp_path / "out"), granularity=Granularity.HOUR, has_headers=True)
        load(spark, by_hour, topics.options)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    directories = {path.parent.relative_to(tmp_path / "out").as_posix() for path in tmp_path.rglob("*.parquet")}
    assert len(directories) == 30
    assert "topic=events.007/date=2026-01-02/hour=0" in directories
    assert "topic=events.007/date=2026-01-03/hour=5" in directories
    row = loaded(spark, by_hour.destination).where("hour = 5 and offset = 29").head()
    assert row is not None
    assert (row.topic, str(row.date)) == (topic, "2026-01-03")


def test_json_that_does_not_fit_goes_to_quarantine(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = topics.create("payments")
    values = [b'{"id": 1, "at": "2026-03-04T05:06:07Z"}', b"no json", b'{"id": "one"}', None, b'{"id": 4}', b"null"]
    topics.write(topic, [{"value": value, "timestamp_ms": DAY_MS} for value in values])
    options = LoadOptions(
        (topic,),
        str(tmp_path / "out"),
        value_format=ValueFormat.JSON,
        value_schema="id bigint, at string",
        event_time="value.at",
    )
    done = load(spark, options, topics.options)
    assert (done.records, done.quarantined) == (3, 3)
    rows = {row.offset: row for row in loaded(spark, options.destination).collect()}
    assert {offset: row.value and row.value.id for offset, row in rows.items()} == {0: 1, 3: None, 4: 4}
    assert {offset: str(row.date) for offset, row in rows.items()} == {
        0: "2026-03-04",
        3: "2026-01-02",
        4: "2026-01-02",
    }
    misfits = spark.read.parquet(str(tmp_path / "out" / QUARANTINE)).collect()
    assert {row.offset: bytes(row.value) for row in misfits} == {1: b"no json", 2: b'{"id": "one"}', 5: b"null"}
    with pytest.raises(JobFailed, match="differs from the schema"):
        load(spark, attrs.evolve(options, value_schema="id string"), topics.options)


def test_schema_of_json_is_inferred_once(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = topics.create("clicks")
    topics.write(topic, [{"value": b'{"id": %d}' % number} for number in range(5)])
    options = LoadOptions((topic,), str(tmp_path / "out"), value_format=ValueFormat.JSON)
    assert load(spark, options, topics.options).records == 5
    topics.write(topic, [{"value": b'{"id": 5}'}, {"value": b'{"id": "later"}'}])
    done = load(spark, options, topics.options)
    assert (done.records, done.quarantined) == (1, 1)
    assert sorted(row.value.id for row in loaded(spark, options.destination).collect()) == list(range(6))


def test_small_files_are_joined_and_no_record_is_lost(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = topics.create("many")
    topics.write(topic, numbered(60))
    options = LoadOptions((topic,), str(tmp_path / "out"), records_per_run=10, compact_from=4)
    done = load(spark, options, topics.options)
    assert (done.runs, done.compactions) == (6, 1)
    files = list((tmp_path / "out").glob("topic=many/**/*.parquet"))
    assert len(files) == 3
    assert offsets(spark, options.destination) == [(topic, 0, offset) for offset in range(60)]
    # A query without knowledge of manifests reads the same rows.
    assert spark.read.parquet(options.destination).count() == 60


def test_column_that_only_some_files_have_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """For example, where only later loads keep headers or producers: merging files by the first schema
    would lose them.
    """
    columns = {"topic=t/a.parquet": {"offset": [1]}, "topic=t/b.parquet": {"offset": [2], "sequence": [7]}}
    for name, values in columns.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(values), tmp_path / name)
    rows = read_files(spark, JobFiles(spark, str(tmp_path)), [StoredFile(name, 1) for name in columns]).collect()
    assert {row.offset: row.sequence for row in rows} == {1: None, 2: 7}


def test_run_that_is_committed_but_not_moved_is_finished_by_the_next_job(
    spark: SparkSession, topics: JobTopics, tmp_path: Path
) -> None:
    topic = topics.create("interrupted")
    topics.write(topic, numbered(20))
    options = LoadOptions((topic,), str(tmp_path / "out"))
    obstacle = tmp_path / "out" / f"topic={topic}"
    obstacle.parent.mkdir()
    obstacle.write_text("a file where a directory belongs")
    with pytest.raises(Exception, match="interrupted"):
        load(spark, options, topics.options)
    assert len(manifests(tmp_path / "out")) == 1
    obstacle.unlink()
    left = tmp_path / "out" / "_staging" / "run-7-of-a-job-that-was-killed"
    left.mkdir()
    assert load(spark, options, topics.options).runs == 0
    assert offsets(spark, options.destination) == [(topic, 0, offset) for offset in range(20)]
    assert not left.exists()


def test_of_two_jobs_with_one_destination_one_fails(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = topics.create("contended")
    topics.write(topic, numbered(5))
    options = LoadOptions((topic,), str(tmp_path / "out"))
    load(spark, options, topics.options)
    log = ManifestLog(JobFiles(spark, options.destination))
    newest = log.newest()
    assert newest is not None
    with pytest.raises(JobFailed, match="another job"):
        log.append(newest)
    assert [path.name for path in (tmp_path / "out" / "_manifests").iterdir() if path.suffix == ".json"] == [
        f"{0:012}.json"
    ]


@pytest.mark.parametrize(
    ("wanted", "package"),
    [
        ({"table_format": TableFormat.DELTA}, r"no Delta Lake.*io\.delta:delta-spark_"),
        (
            {"table_format": TableFormat.ICEBERG, "table_name": "lake.a.b"},
            r"no Iceberg.*org\.apache\.iceberg:iceberg-spark",
        ),
        ({"value_format": ValueFormat.AVRO, "value_schema": '"string"'}, r"org\.apache\.spark:spark-avro_2\.13"),
    ],
    ids=["delta", "iceberg", "avro"],
)
def test_load_says_which_package_the_session_lacks(
    spark: SparkSession, topics: JobTopics, tmp_path: Path, wanted: dict[str, Any], package: str
) -> None:
    with pytest.raises(JobFailed, match=package):
        load(spark, LoadOptions(("any",), str(tmp_path / "out"), **wanted), topics.options)
    assert not (tmp_path / "out").exists()


def test_table_name_is_of_iceberg_alone(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    options = LoadOptions(("any",), str(tmp_path / "out"), table_name="lake.events.orders")
    for table_format, name in (
        (TableFormat.DELTA, "lake.a.b"),
        (TableFormat.ICEBERG, None),
        (TableFormat.PARQUET, "a"),
    ):
        with pytest.raises(JobFailed, match="An Iceberg table needs a name"):
            load(spark, attrs.evolve(options, table_format=table_format, table_name=name), topics.options)


def test_run_that_another_job_has_begun_or_committed_cannot_be_planned(spark: SparkSession, tmp_path: Path) -> None:
    log = ManifestLog(JobFiles(spark, str(tmp_path)))
    plan = Plan(0, "load", 1, (OffsetRange("t", bytes(range(16)), 0, 5, 9),))
    log.append_plan(plan)
    assert log.plan(0) == plan
    assert log.plan(1) is None
    with pytest.raises(JobFailed, match="another job"):
        log.append_plan(plan)
    log.append(Manifest(0, "load", "", 0, 0, plan.ranges, (), 0, 0, (), (), ()))
    log.remove_plan(0)
    with pytest.raises(JobFailed, match="another job"):
        log.append_plan(plan)
    assert log.plan(0) is None


def test_topic_that_was_created_again_or_is_missing_is_refused(
    spark: SparkSession, topics: JobTopics, tmp_path: Path
) -> None:
    topic = topics.create("again")
    topics.write(topic, numbered(5))
    options = LoadOptions((topic,), str(tmp_path / "out"))
    load(spark, options, topics.options)
    topics.write(topic, numbered(5))
    topics.cut(topic, 0, 7)
    with pytest.raises(JobFailed, match="Records 5 to 6 of again-0 are gone"):
        load(spark, options, topics.options)
    assert load(spark, options, {**topics.options, "failOnDataLoss": "false"}).records == 3
    topics.delete(topic)
    with pytest.raises(JobFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        load(spark, options, topics.options)
    topics.create(topic)
    with pytest.raises(JobFailed, match="created again"):
        load(spark, options, topics.options)


def test_load_that_is_killed_is_resumed_without_a_duplicate_or_a_gap(
    spark: SparkSession, topics: JobTopics, tmp_path: Path
) -> None:
    topic = topics.create("killed", 2)
    topics.write(topic, [*numbered(3_000), *numbered(3_000, partition=1)])
    destination = tmp_path / "out"
    command = [sys.executable, "-m", "broker.cli", "spark", "load", topic, "--to", str(destination)]
    arguments = ["-b", topics.bootstrap, "--records-per-run", "200", "--master", "local[1]", "--compact-from", "4"]
    with (tmp_path / "job.log").open("wb") as log:
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": BRIEF_JVM}
        job = subprocess.Popen([*command, *arguments], stderr=log, stdout=log, start_new_session=True, env=environment)
    try:
        deadline = time.monotonic() + 300
        while len(list((destination / "_manifests").glob("0*.json"))) < 3:
            assert job.poll() is None, (tmp_path / "job.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        # The driver and its JVM.
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert len(manifests(destination)) < 30
    told = (tmp_path / "job.log").read_text()
    assert told.startswith("Spark runs in Java")
    assert "log level" not in told, "the log is configured before Spark warns of its own"
    assert "loopback" not in told
    done = load(spark, LoadOptions((topic,), str(destination), compact_from=4), topics.options)
    assert 0 < done.records < 6_000
    assert offsets(spark, destination) == [(topic, partition, at) for partition in (0, 1) for at in range(3_000)]
