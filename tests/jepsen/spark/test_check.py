"""The checkers over a stored history with Spark give the same verdict as the local ones."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jepsen.checkers import Checker, Verdict, judge
from jepsen.history import History
from jepsen.journal import BadJournal, read_history, write_history
from jepsen.spark import PROMISES, check
from jepsen.spark.events import write_parquet
from tests.support.cluster_process import run_command
from tests.support.random_histories import RandomHistory

CHECKERS: Sequence[Checker] = tuple({type(each): each for group in PROMISES.values() for each in group}.values())


def store(history: History, path: Path) -> str:
    with path.open("wb") as file:
        write_history(history, file)
    return str(path)


def outline(verdict: Verdict) -> tuple[dict[str, int], dict[str, Counter[str]], dict[str, int]]:
    return (
        {each.name: each.broken for each in verdict.promises},
        {each.name: Counter(anomaly.what for anomaly in each.anomalies) for each in verdict.promises},
        dict(verdict.counts),
    )


def test_verdict_on_a_valid_history_is_the_local_one(spark: SparkSession, tmp_path: Path) -> None:
    history = RandomHistory(seed=3).history
    verdict = check(spark, [store(history, tmp_path / "history.jsonl")], CHECKERS)
    assert verdict.is_valid
    assert outline(verdict) == outline(judge(history, CHECKERS))


def test_anomalies_in_lines_and_in_parquet_are_those_of_the_local_checkers(spark: SparkSession, tmp_path: Path) -> None:
    history = RandomHistory(seed=21, anomalies=12).history
    path = store(history, tmp_path / "history.jsonl")
    with Path(path).open("rb") as file:
        expected = judge(read_history(file), CHECKERS)
    assert sum(each.broken > 0 for each in expected.promises) >= 5
    write_parquet(history, tmp_path / "history.parquet")
    for stored in (path, str(tmp_path / "history.parquet")):
        verdict = check(spark, [stored], CHECKERS)
        assert outline(verdict) == outline(expected)
    proofs = [anomaly.proof for anomaly in verdict.anomalies()]
    assert all(proofs)
    assert {each.function for proof in proofs for each in proof} <= {each.function for each in history.operations}


def test_several_files_are_one_history_and_a_torn_end_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    history = RandomHistory(seed=4, batches=5).history
    lines = Path(store(history, tmp_path / "whole.jsonl")).read_bytes().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[::2]) + b'{"time": 1, "proc')
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[1::2]))
    verdict = check(spark, [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], PROMISES["registers"])
    assert verdict.is_valid
    assert verdict.counts == judge(history, ()).counts


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"one\ntwo\n", "2 lines that are not operations"),
        (b'{"time":1,"process":"p","id":1,"type":"ok","f":"send","value":1}\n', "never begun"),
    ],
)
def test_file_that_is_no_history_is_refused(spark: SparkSession, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(BadJournal, match=reason):
        check(spark, [str(tmp_path / "history.jsonl")], PROMISES["registers"])


def test_parquet_without_the_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(BadJournal, match="has no column time, process"):
        check(spark, [str(tmp_path / "numbers")], PROMISES["registers"])


def test_command_exits_with_1_where_there_is_an_anomaly(spark: SparkSession, tmp_path: Path) -> None:
    path = store(RandomHistory(seed=21, anomalies=12).history, tmp_path / "history.jsonl")
    answer = run_command("spark", "check", path, "--promises", "queue")
    assert answer.code == 1, answer.errors
    assert "BROKEN" in answer.output
    assert answer.output.rstrip().endswith("ANOMALIES")
