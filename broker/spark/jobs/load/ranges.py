"""Chooses the records of the next run."""

from collections.abc import Iterable, Sequence

import attrs

from broker.spark.jobs.load.manifest import Position
from broker.spark.jobs.results import JobFailed
from broker.spark.ranges import OffsetRange


def next_ranges(
    available: Sequence[OffsetRange], positions: Iterable[Position], *, records_max: int, fails_on_data_loss: bool
) -> list[OffsetRange]:
    """The available records from the positions on; a partition without a position begins at its first record.

    Where there are more than `records_max` records, each partition gives its share, at least one record.

    Raises JobFailed if a topic was created again, and, with `fails_on_data_loss`, if records that were not read yet
    are gone.
    """
    known = {(each.topic, each.partition): each for each in positions}
    backlogs = [_backlog(each, known.get((each.topic, each.partition)), fails_on_data_loss) for each in available]
    backlogs = [each for each in backlogs if each.size]
    total = sum(each.size for each in backlogs)
    if total <= records_max:
        return backlogs
    return [attrs.evolve(each, end=each.start + max(1, each.size * records_max // total)) for each in backlogs]


def replan_ranges(
    planned: Sequence[OffsetRange], available: Sequence[OffsetRange], *, fails_on_data_loss: bool
) -> list[OffsetRange]:
    """The ranges of a plan that a killed job has left, without the records that are gone since.

    Raises JobFailed as `next_ranges` does.
    """
    known = {(each.topic, each.partition): each for each in available}
    return [_left(each, known.get((each.topic, each.partition)), fails_on_data_loss) for each in planned]


def advance(positions: Iterable[Position], ranges: Iterable[OffsetRange]) -> tuple[Position, ...]:
    """The positions after the ranges were read, sorted by topic and partition."""
    read = [Position(each.topic, each.topic_id, each.partition, each.end) for each in ranges]
    found = {(each.topic, each.partition): each for each in (*positions, *read)}
    return tuple(found[key] for key in sorted(found))


def _left(planned: OffsetRange, available: OffsetRange | None, fails_on_data_loss: bool) -> OffsetRange:
    if available is None:
        raise JobFailed(f"{planned.topic}-{planned.partition} is gone: the topic was deleted since the last run")
    position = Position(planned.topic, planned.topic_id, planned.partition, planned.start)
    start = _backlog(available, position, fails_on_data_loss).start
    if planned.end > available.end:
        raise JobFailed(
            f"{planned.topic}-{planned.partition} ends at {available.end}, and a run up to {planned.end} was begun: "
            "its log was truncated"
        )
    return attrs.evolve(planned, start=start, end=max(start, planned.end))


def _backlog(available: OffsetRange, position: Position | None, fails_on_data_loss: bool) -> OffsetRange:
    if position is None:
        return available
    name = f"{available.topic}-{available.partition}"
    if position.topic_id != available.topic_id:
        raise JobFailed(
            f"Topic {available.topic!r} was deleted and created again since the last run: its offsets begin again. "
            "Load it into another destination."
        )
    if position.offset > available.end:
        raise JobFailed(f"{name} ends at {available.end}, and {position.offset} was read: its log was truncated")
    if position.offset < available.start and fails_on_data_loss:
        raise JobFailed(
            f"Records {position.offset} to {available.start - 1} of {name} are gone: retention or DeleteRecords was "
            "faster than this job. With failOnDataLoss=false it goes on after them."
        )
    return attrs.evolve(available, start=max(position.offset, available.start))
