"""`kraft spark`: the jobs as commands, in the session of the tests."""

import json
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.cluster_process import run_command
from tests.support.job_topics import JobTopics

HERE = Path(__file__).resolve().parents[4]


def test_topic_is_loaded_measured_and_replayed(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    source, target = topics.create("commanded"), topics.create("commanded.again")
    topics.write(source, [{"value": b'{"id":%d}' % number, "key": b"k"} for number in range(20)])
    files, page = str(tmp_path / "files"), tmp_path / "page.html"
    schema = tmp_path / "schema"
    schema.write_text("id bigint")
    load = [
        "spark",
        "load",
        source,
        "--to",
        files,
        "--producer",
        "--format",
        "json",
        "--schema",
        f"@{schema}",
        "-b",
        topics.bootstrap,
    ]
    answer = run_command(*load)
    assert answer.code == 0, answer.errors
    assert answer.output.startswith("20 records in 1 run, 0 in quarantine")
    assert "run 0: 20 records" in answer.errors
    assert run_command(*load).output == "nothing new\n"
    assert json.loads(run_command(*load, "--json").output)["runs"] == 0
    following = run_command(*load, "--follow", "--every", "1ms", "--for", "1ms")
    assert (following.code, following.output) == (0, "nothing new\n")

    answer = run_command("spark", "stats", "--files", files, "--page", str(page), "--json")
    assert answer.code == 0, answer.errors
    measures = json.loads(answer.output)[0]["measures"]
    assert (measures["records"], measures["sequences"]["producers"]) == (20, 1)
    assert page.read_text().startswith("<!doctype html>")
    lossy = topics.create("commanded.lossy", 2)
    topics.write_numbered(lossy, 1, 7, 4, 2)
    answer = run_command("spark", "stats", source, lossy, "-b", topics.bootstrap)
    first, second = (line.split() for line in answer.output.splitlines()[1:])
    assert (first[:3], first[-3:]) == ([source, "1", "20"], ["1", "0", "0"])
    assert (second[:3], second[-3:]) == ([lossy, "1", "2"], ["1", "4", "0"])
    line = f"{lossy}-1: missing sequence numbers: 4, gaps: 1, duplicate records: 0"
    assert answer.errors.splitlines()[-1] == line

    answer = run_command("spark", "replay", files, "--to", target, "--where", "offset < 7", "-b", topics.bootstrap)
    assert answer.output.startswith("7 records"), answer.errors
    assert [record.value for record in topics.read(target, 7)] == [b'{"id":%d}' % number for number in range(7)]


def test_a_failed_job_prints_one_sentence(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    missing = run_command("spark", "load", "no.such.topic", "--to", str(tmp_path / "files"), "-b", topics.bootstrap)
    assert missing.code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.errors.splitlines()[-1]
    absent = run_command("spark", "stats", "--files", str(tmp_path / "absent"))
    assert absent.code == 1
    assert absent.errors.splitlines()[-1].startswith("kraft: [PATH_NOT_FOUND]")
    assert run_command("spark", "stats").code == 2
    wrong = [
        "spark",
        "load",
        topics.create("empty"),
        "--to",
        str(tmp_path),
        "--format",
        "json",
        "--schema",
        "id no-type",
    ]
    assert "is not a schema" in run_command(*wrong, "-b", topics.bootstrap).errors


def test_script_for_spark_submit_runs_the_same_commands() -> None:
    script = run_command("spark", "script").output.strip()
    ran = subprocess.run(
        [sys.executable, script, "load", "--help"], capture_output=True, text=True, check=False, cwd=HERE
    )
    assert ran.returncode == 0, ran.stderr
    assert "Load topics into Parquet files" in ran.stdout
