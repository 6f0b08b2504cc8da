"""`load` into Delta Lake and Iceberg: each run is committed to the table once, whenever the job is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession

from broker.spark.jobs.files import JobFiles
from broker.spark.jobs.load import Granularity, LoadOptions, TableFormat, ValueFormat, load, loaded
from broker.spark.jobs.load.delta import DeltaTable
from broker.spark.jobs.load.iceberg import IcebergTable
from broker.spark.jobs.load.table import RunTable
from broker.spark.jobs.results import JobFailed
from tests.support.job_topics import DAY_MS, HOUR_MS, JobTopics

FORMATS = [TableFormat.DELTA, TableFormat.ICEBERG]


@attrs.frozen
class Lake:
    """The destination of one test: a directory, and a table of one format."""

    spark: SparkSession
    directory: Path
    format: TableFormat

    def options(self, *topics: str, **others: Any) -> LoadOptions:
        return LoadOptions(topics, str(self.directory), table_format=self.format, table_name=self.name, **others)

    @property
    def name(self) -> str | None:
        return f"lake.events.{self.directory.parent.name}" if self.format is TableFormat.ICEBERG else None

    @property
    def offsets(self) -> list[tuple[str, int, int]]:
        rows = loaded(self.spark, str(self.directory)).select("topic", "partition", "offset").collect()
        return sorted((row.topic, row.partition, row.offset) for row in rows)

    @property
    def quarantine(self) -> DataFrame:
        if self.name is None:
            return self.spark.read.format("delta").load(str(self.directory / "_quarantine"))
        return self.spark.table(f"{self.name}_quarantine")

    @property
    def manifests(self) -> list[dict[str, Any]]:
        paths = sorted((self.directory / "_manifests").glob("0*.json"))
        return [json.loads(path.read_text()) for path in paths]

    @property
    def plans(self) -> list[Path]:
        return sorted((self.directory / "_manifests").glob("0*.plan"))

    def files(self) -> int:
        if self.name is None:
            return len(loaded(self.spark, str(self.directory)).inputFiles())
        return self.spark.table(f"{self.name}.files").count()

    def table(self, spark: SparkSession, options: LoadOptions, application: str) -> RunTable:
        if self.name is None:
            return DeltaTable(spark, JobFiles(spark, str(self.directory)), "", options, application)
        return IcebergTable(spark, self.name, options, application)

    @property
    def unfinished(self) -> list[Path]:
        """The plans of runs without a manifest."""
        return [plan for plan in self.plans if not plan.with_suffix(".json").exists()]

    def leave_plan(self, run: int) -> None:
        """Restore the state after a kill between a run's manifest and the removal of its plan."""
        path = self.directory / "_manifests" / f"{run:012}.json"
        manifest = json.loads(path.read_text())
        plan = {key: manifest[key] for key in ("run", "kind", "started_ms", "ranges")}
        path.with_suffix(".plan").write_text(json.dumps(plan))

    def forget_manifest(self, run: int) -> None:
        """Restore the state after a kill between a run's commit and its manifest."""
        self.leave_plan(run)
        path = self.directory / "_manifests" / f"{run:012}.json"
        path.unlink()
        for checksum in path.parent.glob(f".{run:012}.*.crc"):
            checksum.unlink()


@pytest.fixture(params=FORMATS, ids=lambda each: each.value)
def lake(request: pytest.FixtureRequest, spark: SparkSession, needs: Callable[[str], None], tmp_path: Path) -> Lake:
    needs(request.param.value)
    return Lake(spark, tmp_path / "out", request.param)


def numbered(count: int, *, partition: int = 0, step_ms: int = 1) -> list[dict[str, Any]]:
    return [
        {"value": b"%d" % number, "key": b"k", "partition": partition, "timestamp_ms": DAY_MS + number * step_ms}
        for number in range(count)
    ]


def test_each_run_is_a_commit_and_a_rerun_adds_none(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.orders", 2)
    topics.write(topic, [*numbered(100), *numbered(50, partition=1)])
    options = lake.options(topic, records_per_run=90, has_headers=True)
    progress = []
    first = load(lake.spark, options, topics.options, report=progress.append)
    assert (first.runs, first.records, first.quarantined) == (2, 150, 0)
    assert [each.records_left for each in progress] == [60, 0]
    assert first.files == progress[0].manifest.files + progress[1].manifest.files == lake.files()
    assert first.bytes > 0

    lake.leave_plan(1)
    rerun = load(lake.spark, options, topics.options)
    assert (rerun.runs, rerun.files) == (0, 0)
    assert lake.plans == []
    topics.write(topic, numbered(10))
    assert load(lake.spark, options, topics.options).records == 10
    assert lake.offsets == [(topic, 0, offset) for offset in range(110)] + [(topic, 1, offset) for offset in range(50)]
    assert [each["records"] for each in lake.manifests] == [90, 60, 10]
    assert len({each["tables"][0]["version"] for each in lake.manifests}) == 3
    assert lake.plans == []


def test_table_is_partitioned_by_topic_day_and_hour(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"007.{lake.format.value}")
    topics.write(topic, numbered(30, step_ms=HOUR_MS))
    load(lake.spark, lake.options(topic, granularity=Granularity.HOUR), topics.options)
    frame = loaded(lake.spark, str(lake.directory))
    row = frame.where("hour = 5 and offset = 29").head()
    assert row is not None
    assert (row.topic, str(row.date), bytes(row.value)) == (topic, "2026-01-03", b"29")
    if lake.name is None:
        detail = lake.spark.sql(f"DESCRIBE DETAIL delta.`{lake.directory}`").head()
        assert detail is not None
        assert detail.partitionColumns == ["topic", "date", "hour"]
    else:
        assert lake.spark.table(f"{lake.name}.partitions").count() == 30


def test_load_killed_between_commit_and_manifest_finds_its_run_in_the_table(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.found")
    topics.write(topic, numbered(30))
    options = lake.options(topic, records_per_run=10)
    load(lake.spark, options, topics.options)
    before = lake.manifests
    lake.forget_manifest(2)
    topics.write(topic, numbered(10))
    # The records of that run are deleted meanwhile. The table has them, so no job reads them again.
    topics.cut(topic, 0, 30)
    done = load(lake.spark, options, topics.options)
    assert (done.runs, done.records) == (2, 20)
    assert lake.offsets == [(topic, 0, offset) for offset in range(40)]
    assert lake.manifests[2]["tables"] == before[2]["tables"]
    assert lake.plans == []


def test_load_killed_before_the_commit_loads_the_ranges_of_its_plan(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.planned")
    topics.write(topic, numbered(20))
    options = lake.options(topic, records_per_run=10)
    load(lake.spark, options, topics.options)
    topics.write(topic, numbered(20))
    plan = {key: lake.manifests[1][key] for key in ("kind", "started_ms")} | {"run": 2}
    plan["ranges"] = [lake.manifests[1]["ranges"][0] | {"start": 20, "end": 27}]
    path = lake.directory / "_manifests" / f"{2:012}.plan"
    path.write_text(json.dumps(plan))
    topics.cut(topic, 0, 22)
    with pytest.raises(JobFailed, match=r"Records 20 to 21 of .* are gone"):
        load(lake.spark, options, topics.options)
    assert path.exists()
    done = load(lake.spark, options, {**topics.options, "failOnDataLoss": "false"})
    assert (done.runs, done.records) == (3, 18)
    assert [each["records"] for each in lake.manifests] == [10, 10, 5, 10, 3]
    assert lake.offsets == [(topic, 0, offset) for offset in (*range(20), *range(22, 40))]


def test_rows_that_do_not_fit_are_in_quarantine_once(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.payments")
    values = [b'{"id": 1}', b"no json", None, b'{"id": "one"}']
    topics.write(topic, [{"value": value, "timestamp_ms": DAY_MS} for value in values])
    options = lake.options(topic, value_format=ValueFormat.JSON, value_schema="id bigint", records_per_run=4)
    done = load(lake.spark, options, topics.options)
    assert (done.records, done.quarantined) == (2, 2)
    # Killed after the records, and after the quarantine; then before the quarantine of the next run.
    lake.forget_manifest(0)
    again = load(lake.spark, options, topics.options)
    assert (again.runs, again.records, again.quarantined) == (1, 2, 2)
    topics.write(topic, [{"value": b'{"id": 5}', "timestamp_ms": DAY_MS}, {"value": b"{}", "timestamp_ms": DAY_MS}])
    assert load(lake.spark, options, topics.options).records == 2
    rows = {row.offset: row.value and row.value.id for row in loaded(lake.spark, str(lake.directory)).collect()}
    assert rows == {0: 1, 2: None, 4: 5, 5: None}
    assert sorted((row.offset, bytes(row.value)) for row in lake.quarantine.collect()) == [
        (1, b"no json"),
        (3, b'{"id": "one"}'),
    ]


def test_load_killed_before_the_quarantine_writes_that_alone(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.halfway")
    topics.write(topic, [{"value": b'{"id": 1}', "timestamp_ms": DAY_MS}] * 2)
    options = lake.options(topic, value_format=ValueFormat.JSON, value_schema="id bigint")
    load(lake.spark, options, topics.options)
    topics.write(topic, [{"value": b"no json", "timestamp_ms": DAY_MS}])
    # The run is in the table with its two records; the malformed row was not written yet.
    lake.forget_manifest(0)
    plan = json.loads(lake.plans[0].read_text())
    plan["ranges"][0]["end"] = 3
    lake.plans[0].write_text(json.dumps(plan))
    done = load(lake.spark, options, topics.options)
    assert (done.runs, done.records, done.quarantined) == (1, 2, 1)
    assert lake.offsets == [(topic, 0, 0), (topic, 0, 1)]
    assert [row.offset for row in lake.quarantine.collect()] == [2]


def test_two_jobs_that_finish_the_same_run_add_its_rows_once(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.contended")
    topics.write(topic, numbered(5))
    options = lake.options(topic)
    load(lake.spark, options, topics.options)
    found: list[Any] = []

    def append() -> None:
        # As in another job.
        session = lake.spark.newSession()
        frame = loaded(session, str(lake.directory)).where("offset = 0")
        try:
            found.append(lake.table(session, options, "of both").append(frame, 7))
        except JobFailed as failure:
            found.append(failure)

    threads = [threading.Thread(target=append) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    commit = lake.table(lake.spark, options, "of both").commit_of(7)
    assert commit is not None
    assert commit.records == 1
    assert found.count(commit) == 1, found
    append()
    assert found[2] is None
    assert lake.offsets.count((topic, 0, 0)) == 2


def test_small_files_are_joined_by_the_table(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.many")
    topics.write(topic, numbered(40))
    options = lake.options(topic, records_per_run=10, compact_from=4)
    done = load(lake.spark, options, topics.options)
    assert (done.runs, done.compactions) == (4, 1)
    assert lake.files() == 1
    # Killed during a compaction, which the next job finishes.
    lake.forget_manifest(4)
    topics.write(topic, numbered(20))
    done = load(lake.spark, options, topics.options)
    assert (done.runs, done.compactions) == (2, 1)
    assert lake.files() == 3
    assert [each["kind"] for each in lake.manifests] == [*["load"] * 4, "compaction", "load", "load"]
    assert lake.offsets == [(topic, 0, offset) for offset in range(60)]


def test_a_destination_keeps_the_format_of_its_first_run(lake: Lake, topics: JobTopics) -> None:
    topic = topics.create(f"{lake.format.value}.first")
    topics.write(topic, numbered(3))
    load(lake.spark, lake.options(topic), topics.options)
    with pytest.raises(JobFailed, match=f"was loaded with --table {lake.format.value}"):
        load(lake.spark, LoadOptions((topic,), str(lake.directory)), topics.options)
    text = attrs.evolve(lake.options(topic), value_format=ValueFormat.JSON, value_schema="id bigint")
    with pytest.raises(JobFailed, match="--format binary, not with"):
        load(lake.spark, text, topics.options)
    files = LoadOptions((topic,), str(lake.directory.with_name("files")))
    load(lake.spark, files, topics.options)
    into_table = attrs.evolve(lake.options(topic), destination=files.destination)
    with pytest.raises(JobFailed, match="has Parquet files of earlier runs"):
        load(lake.spark, into_table, topics.options)


def test_load_that_is_killed_is_resumed_without_a_duplicate_or_a_gap(
    lake: Lake, topics: JobTopics, table_configs: Mapping[str, str], tmp_path: Path
) -> None:
    topic = topics.create(f"{lake.format.value}.killed", 2)
    topics.write(topic, [*numbered(500), *numbered(500, partition=1)])
    command = [sys.executable, "-m", "broker.cli", "spark", "load", topic, "--to", str(lake.directory)]
    command += ["-b", topics.bootstrap, "--records-per-run", "50", "--master", "local[1]", "--compact-from", "4"]
    command += ["--table", lake.format.value, *(["--table-name", lake.name] if lake.name else [])]
    for key, value in table_configs.items():
        command += ["--conf", f"{key}={value}"]
    kills = 0
    while not kills:
        seen = len(lake.manifests)
        with (tmp_path / "job.log").open("ab") as log:
            job = subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True)
        try:
            # During a run that the next job has to finish, at whatever point.
            deadline = time.monotonic() + 300
            while len(lake.manifests) < seen + 2 or not lake.unfinished:
                assert job.poll() is None, (tmp_path / "job.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            # The driver and its JVM.
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        kills += len(lake.unfinished)
    assert len(lake.manifests) < 20
    done = load(lake.spark, lake.options(topic, compact_from=4), topics.options)
    assert 0 < done.records < 1_000
    assert lake.offsets == [(topic, partition, offset) for partition in (0, 1) for offset in range(500)]
    assert lake.plans == []
