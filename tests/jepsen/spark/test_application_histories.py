"""Promises of applications have the same verdict with Spark as in memory, on the same files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jepsen.journal import BadJournal, write_history
from jepsen.testing.histories import ExactlyOnce, HistoryVerdict, Promise, check, check_with_spark
from tests.jepsen.testing.histories.test_promises import BROKEN, KEPT, UNKNOWN, Story, unrecorded_batch, written
from tests.support.application_histories import ApplicationHistory
from tests.support.cluster_process import run_command


def outline(verdict: HistoryVerdict) -> dict[str, object]:
    return {
        each.promise.value: (
            each.status,
            each.broken,
            sorted(one.sentence for one in each.findings),
            sorted(one.sentence for one in each.doubts),
        )
        for each in verdict.promises
    }


def store(app: ApplicationHistory, path: Path) -> Path:
    path.mkdir()
    with (path / "history-1.jsonl").open("wb") as file:
        write_history(app.history, file)
    return path


# An unrecorded method leaves all promises of a history undecided.
STORIES: list[Story] = [
    each for each in dict.fromkeys(each[1] for each in (*KEPT, *BROKEN, *UNKNOWN)) if each is not unrecorded_batch
]
COPIES = {each[1] for each in (*KEPT, *BROKEN, *UNKNOWN) if isinstance(each[0], ExactlyOnce)}


def all_stories() -> ApplicationHistory:
    """One history of all stories, each with topics, groups and clients of its own."""
    whole = ApplicationHistory()
    for number, story in enumerate(STORIES):
        story(ApplicationHistory(f"-{number}", whole))
    return whole


def test_verdict_is_that_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    directory = store(all_stories(), tmp_path / "history")
    numbers = [number for number, story in enumerate(STORIES) if story in COPIES]
    promises = [*Promise, *(ExactlyOnce(f"orders-{number}", f"invoices-{number}") for number in numbers)]
    expected = check(directory, promises)
    assert sum(each.broken for each in expected.promises) >= len(BROKEN)
    assert len({each.status for each in expected.promises if isinstance(each.promise, ExactlyOnce)}) == 3
    assert outline(check_with_spark(spark, directory, promises)) == outline(expected)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("no json\n" * 2, "2 lines that are not operations"),
        (
            '{"time":1,"process":"p","id":0,"type":"invoke","f":"poll","value":{"topic":"t","partition":0,"offset":0}}\n'
            '{"time":2,"process":"p","id":0,"type":"ok","f":"poll","value":[["0","a"]]}\n',
            r"p poll: the result is \(\('0', 'a'\),\)",
        ),
    ],
)
def test_files_that_are_no_history_are_refused(spark: SparkSession, tmp_path: Path, lines: str, reason: str) -> None:
    (tmp_path / "history-1.jsonl").write_text(lines)
    with pytest.raises(BadJournal, match=reason):
        check_with_spark(spark, tmp_path, ["nothing lost"])


def test_command_tells_broken_and_undecided_promises(spark: SparkSession, tmp_path: Path) -> None:
    [story] = [story for _, story, sentence in BROKEN if "and nothing is there" in sentence]
    app = written(story)
    app.unrecorded()
    broken = store(app, tmp_path / "broken")
    answer = run_command("spark", "check", str(broken), "--promise", "nothing lost", "--promise", "offsets never back")
    assert answer.code == 1, answer.errors
    assert "BROKEN, 1 time: nothing lost" in answer.output
    assert (
        "UNKNOWN: offsets never back: the history has no commit or poll-group or poll that succeeded" in answer.output
    )
    assert "UNKNOWN: offsets never back: producer@1 called produce_batch" in answer.output
    assert answer.output.rstrip().endswith("2 promises: ANOMALIES")
    refused = run_command("spark", "check", str(broken), "--promise", "nothing is lost")
    assert refused.code == 1
    assert "'nothing is lost' is no promise" in refused.errors
    assert run_command("spark", "check", str(broken)).code == 2
