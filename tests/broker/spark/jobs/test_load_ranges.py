"""The records that the next run of a load reads, and the files that contain the records after some runs."""

import attrs
import pytest

from broker.spark.jobs.files import StoredFile
from broker.spark.jobs.load.manifest import Manifest, Position, live_files
from broker.spark.jobs.load.ranges import advance, next_ranges, replan_ranges
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange

ID = bytes(range(16))
ALL = 1 << 62


def available(*ends: tuple[int, int], topic_id: bytes = ID) -> list[OffsetRange]:
    return [OffsetRange("t", topic_id, partition, start, end) for partition, (start, end) in enumerate(ends)]


def positions(*offsets: int) -> list[Position]:
    return [Position("t", ID, partition, offset) for partition, offset in enumerate(offsets)]


def spans(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in ranges]


def test_first_run_reads_everything_and_the_next_one_new_records() -> None:
    first = next_ranges(available((5, 9), (0, 0)), [], records_max=ALL, fails_on_data_loss=True)
    assert spans(first) == [(0, 5, 9)]
    after = advance([], first)
    assert next_ranges(available((5, 9), (0, 0)), after, records_max=ALL, fails_on_data_loss=True) == []
    second = next_ranges(available((7, 12), (0, 1)), after, records_max=ALL, fails_on_data_loss=True)
    assert spans(second) == [(0, 9, 12), (1, 0, 1)]
    assert [each.offset for each in advance(after, second)] == [12, 1]


def test_partitions_share_a_limit_in_proportion_and_each_goes_on() -> None:
    ranges = next_ranges(available((0, 900), (0, 100), (0, 1)), [], records_max=100, fails_on_data_loss=True)
    assert spans(ranges) == [(0, 0, 89), (1, 0, 9), (2, 0, 1)]


def test_records_that_are_gone_fail_the_run_unless_that_is_allowed() -> None:
    with pytest.raises(JobFailed, match="Records 3 to 4 of t-0 are gone"):
        next_ranges(available((5, 9)), positions(3), records_max=ALL, fails_on_data_loss=True)
    assert spans(next_ranges(available((5, 9)), positions(3), records_max=ALL, fails_on_data_loss=False)) == [(0, 5, 9)]


def test_topic_that_was_created_again_and_log_that_was_truncated_are_refused() -> None:
    with pytest.raises(JobFailed, match="created again"):
        next_ranges(available((0, 9), topic_id=bytes(16)), positions(3), records_max=ALL, fails_on_data_loss=True)
    with pytest.raises(JobFailed, match="truncated"):
        next_ranges(available((0, 2)), positions(3), records_max=ALL, fails_on_data_loss=True)


def test_ranges_of_a_plan_are_read_again_without_the_records_that_are_gone() -> None:
    planned = available((3, 9), (0, 4))
    found = replan_ranges(planned, available((0, 20), (0, 4), (0, 7)), fails_on_data_loss=True)
    assert spans(found) == [(0, 3, 9), (1, 0, 4)]
    with pytest.raises(JobFailed, match="Records 3 to 4 of t-0 are gone"):
        replan_ranges(planned, available((5, 20), (0, 4)), fails_on_data_loss=True)
    found = replan_ranges(planned, available((5, 20), (6, 8)), fails_on_data_loss=False)
    assert spans(found) == [(0, 5, 9), (1, 6, 6)]


def test_plan_is_refused_when_its_topic_is_not_the_same_any_more() -> None:
    planned = available((3, 9), (0, 4))
    with pytest.raises(JobFailed, match="created again"):
        replan_ranges(planned, available((0, 9), (0, 4), topic_id=bytes(16)), fails_on_data_loss=False)
    with pytest.raises(JobFailed, match="truncated"):
        replan_ranges(planned, available((0, 8), (0, 4)), fails_on_data_loss=False)
    with pytest.raises(JobFailed, match="t-1 is gone"):
        replan_ranges(planned, available((0, 9)), fails_on_data_loss=False)


def test_live_files_are_those_that_no_compaction_has_replaced() -> None:
    empty = Manifest(0, "load", "s", 0, 0, (), (), 0, 0, (), (), ())
    runs = [
        attrs.evolve(empty, added=(StoredFile("b", 1), StoredFile("a", 2))),
        attrs.evolve(empty, added=(StoredFile("c", 3),), quarantine=(StoredFile("_quarantine/d", 4),)),
        attrs.evolve(empty, kind="compaction", added=(StoredFile("e", 5),), removed=("a", "c")),
    ]
    assert [file.path for file in live_files(runs)] == ["b", "e"]
    assert runs[1].size == 7
