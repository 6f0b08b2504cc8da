"""Plans for reassignments: files in the form of Kafka's tool."""

from pathlib import Path

import pytest

from broker.cli.commands.reassignment_plans import encode_plan, read_plan
from broker.cli.grammar import WrongSettings
from broker.client.types import TopicPartition


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = {TopicPartition("t", 0): [1, 2], TopicPartition("ü", 3): [4]}
    (tmp_path / "plan.json").write_text(encode_plan(plan))
    assert read_plan(str(tmp_path / "plan.json")) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "partitions": []}',
        '{"version": 1}',
        '{"version": 1, "partitions": [1]}',
        '{"version": 1, "partitions": [{"topic": 1, "partition": 0, "replicas": [1]}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [true]}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [4294967296]}]}',
        '{"version": 1, "partitions": [{"topic": "\\ud800", "partition": 0, "replicas": [1]}]}',
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
        ' {"topic": "t", "partition": 0, "replicas": [2]}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(WrongSettings, match=r"is not a reassignment plan: .*; `kraft reassign plan` prints one"):
        read_plan(str(tmp_path / "plan.json"))


def test_plan_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match=r"absent.json cannot be read: No such file or directory$"):
        read_plan(str(tmp_path / "absent.json"))
