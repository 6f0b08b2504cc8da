"""Turns predicates on partition, topic, offset and timestamp into bounds of the offsets to read."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from broker.client import TopicPartition
from broker.spark.ranges import OffsetRange

_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@attrs.frozen
class Bounds:
    """The conjunction of the predicates that were pushed down.

    Offsets are from `offset_start` up to `offset_end`; so are times, in microseconds since 1970.
    """

    topics: frozenset[str] | None = None
    topic_prefixes: tuple[str, ...] = ()
    partitions: frozenset[int] | None = None
    offset_start: int = 0
    offset_end: int = _MAX
    time_start_us: int | None = None
    time_end_us: int | None = None

    def includes(self, topic: str, partition: int) -> bool:
        """True if the partition may have records that are wanted."""
        return (
            (self.topics is None or topic in self.topics)
            and all(topic.startswith(prefix) for prefix in self.topic_prefixes)
            and (self.partitions is None or partition in self.partitions)
        )


def push(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds that the filters amount to, and the filters that Spark has still to apply to the rows.

    A filter on timestamps is among them always: records are not in the order of their timestamps.
    """
    bounds = Bounds()
    left = []
    for each in filters:
        pushed = _pushed(bounds, each)
        if pushed is None:
            left.append(each)
            continue
        bounds = pushed
        if each.attribute == ("timestamp",) and not isinstance(each, IsNotNull):  # type: ignore[attr-defined]
            left.append(each)
    return bounds, left


def narrow(
    ranges: Iterable[OffsetRange],
    bounds: Bounds,
    at_times: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]],
    max_lateness_ms: int | None,
) -> list[OffsetRange]:
    """The parts of the ranges that are within the bounds. `at_times` finds the first offsets at or after times.

    Before the first record at or after a time there is none that is wanted. After the first one past the end there may
    be some that are late, so ranges end there only where `max_lateness_ms` says how late they can be.
    """
    chosen = [
        attrs.evolve(each, start=max(each.start, bounds.offset_start), end=min(each.end, bounds.offset_end))
        for each in ranges
        if bounds.includes(each.topic, each.partition)
    ]
    chosen = [each for each in chosen if each.size > 0]
    # Brokers look no negative times up. Records that are older than 1970, or have no timestamp (-1), may be anywhere.
    if bounds.time_start_us is not None and bounds.time_start_us > 0:
        starts = at_times(dict.fromkeys((each.topic_partition for each in chosen), _ms_up(bounds.time_start_us)))
        chosen = [attrs.evolve(each, start=_later(each, starts[each.topic_partition])) for each in chosen]
    if bounds.time_end_us is not None and max_lateness_ms is not None:
        end_ms = min(max(_ms_up(bounds.time_end_us), 0) + max_lateness_ms, _MAX)
        ends = at_times(dict.fromkeys((each.topic_partition for each in chosen), end_ms))
        chosen = [attrs.evolve(each, end=_earlier(each, ends[each.topic_partition])) for each in chosen]
    return [each for each in chosen if each.size > 0]


def _later(whole: OffsetRange, offset: int | None) -> int:
    """Returns the offset, or the range's end if no record is at or after the time."""
    return whole.end if offset is None else max(whole.start, offset)


def _earlier(whole: OffsetRange, offset: int | None) -> int:
    return whole.end if offset is None else min(whole.end, offset)


def _ms_up(time_us: int) -> int:
    """Rounds microseconds up to milliseconds, the unit of timestamps."""
    return -(-time_us // 1000)


def _pushed(bounds: Bounds, each: Filter) -> Bounds | None:
    """The bounds with one more filter; None where it cannot be pushed."""
    match each:
        case IsNotNull((name,)) if name in _NEVER_NULL:
            return bounds
        case EqualTo((name,), value):
            return _pushed_values(bounds, name, (value,))
        case In((name,), values):
            return _pushed_values(bounds, name, values)
        case StringStartsWith(("topic",), prefix):
            return attrs.evolve(bounds, topic_prefixes=(*bounds.topic_prefixes, prefix))
        case GreaterThanOrEqual((name,), value):
            return _from(bounds, name, value, 0)
        case GreaterThan((name,), value):
            return _from(bounds, name, value, 1)
        case LessThan((name,), value):
            return _until(bounds, name, value, 0)
        case LessThanOrEqual((name,), value):
            return _until(bounds, name, value, 1)
    return None


def _pushed_values(bounds: Bounds, name: str, values: tuple[Any, ...]) -> Bounds | None:
    wanted = frozenset(values)
    match name:
        case "topic":
            return attrs.evolve(bounds, topics=wanted if bounds.topics is None else wanted & bounds.topics)
        case "partition":
            partitions = wanted if bounds.partitions is None else wanted & bounds.partitions
            return attrs.evolve(bounds, partitions=partitions)
        case "offset" | "timestamp" if len(wanted) == 1:
            (value,) = wanted
            start = _from(bounds, name, value, 0)
            return None if start is None else _until(start, name, value, 1)
    return None


def _from(bounds: Bounds, name: str, value: Any, after: int) -> Bounds | None:
    match name, _number(value):
        case "offset", int(offset):
            return attrs.evolve(bounds, offset_start=max(bounds.offset_start, offset + after))
        case "timestamp", int(time_us):
            start, before = time_us + after, bounds.time_start_us
            return attrs.evolve(bounds, time_start_us=start if before is None else max(start, before))
    return None


def _until(bounds: Bounds, name: str, value: Any, after: int) -> Bounds | None:
    match name, _number(value):
        case "offset", int(offset):
            return attrs.evolve(bounds, offset_end=min(bounds.offset_end, offset + after))
        case "timestamp", int(time_us):
            end, before = time_us + after, bounds.time_end_us
            return attrs.evolve(bounds, time_end_us=end if before is None else min(end, before))
    return None


def _number(value: Any) -> int | None:
    """An offset, or the microseconds of a time since 1970; None for a value that Spark has to compare itself.

    A time without a zone is in the process's zone, as in Spark.
    """
    if not isinstance(value, datetime):
        return value if isinstance(value, int) else None
    try:
        since = value.astimezone(UTC) - _EPOCH
    except (OverflowError, ValueError):
        return None  # in the first or the last year that Python knows, and in another zone
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
