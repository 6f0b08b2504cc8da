"""Plans for reassignments: replicas stay where possible, the others are spread evenly, and files are checked."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.commands.reassignment_plans import encode_plan, make_plan, read_plan
from broker.cli.grammar import WrongSettings
from broker.client.admin import PartitionDescription, TopicDescription
from broker.client.types import TopicPartition

BROKERS = st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True)


def topic(*replicas: list[int]) -> TopicDescription:
    partitions = [
        PartitionDescription(partition, each[0], 0, tuple(each), tuple(each), ())
        for partition, each in enumerate(replicas)
    ]
    return TopicDescription("t", bytes(16), False, tuple(partitions))


@given(st.lists(BROKERS, min_size=1, max_size=12), BROKERS, st.data())
def test_a_plan_puts_as_many_replicas_as_wanted_on_the_brokers(
    before: list[list[int]], brokers: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(brokers)))
    plan = make_plan([topic(*before)], brokers, count)
    after = [plan.get(TopicPartition("t", partition), replicas) for partition, replicas in enumerate(before)]
    for old, new in zip(before, after, strict=True):
        assert len(new) == len(set(new)) == count
        assert set(new) <= set(brokers)
        kept = [broker for broker in old if broker in brokers]
        assert len(set(new) & set(old)) == min(len(kept), count)


def test_leaders_are_spread_evenly() -> None:
    plan = make_plan([topic(*[[1, 2, 3]] * 6)], [1, 2, 3], None)
    after = [plan.get(TopicPartition("t", partition), [1, 2, 3]) for partition in range(6)]
    assert sorted(replicas[0] for replicas in after) == [1, 1, 2, 2, 3, 3]


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
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(WrongSettings, match=r"is not a reassignment plan: .*; `kraft reassign plan` prints one"):
        read_plan(str(tmp_path / "plan.json"))
