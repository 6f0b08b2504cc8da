"""The start and the end of a query: a time, times by partition, or offsets, in this order of precedence."""

from enum import Enum
from typing import TypeAlias

import attrs

from broker.client import TopicPartition
from broker.spark.offsets import EARLIEST, LATEST, Offsets, named, names_of, offsets_from_json, timestamps_from_json
from broker.spark.options.option_map import IllegalOption, OptionMap, read_whole_number


class NoMatchStrategy(Enum):
    """The handling of a starting time that is later than every record of a partition."""

    ERROR = "error"
    LATEST = "latest"


@attrs.frozen
class Earliest:
    """The start of each partition's log."""


@attrs.frozen
class Latest:
    """The end of each partition: under read_committed, its last stable offset."""


@attrs.frozen
class SpecificOffsets:
    """An offset for each partition, or LATEST or EARLIEST."""

    offsets: Offsets = attrs.field(hash=False)


@attrs.frozen
class SpecificTimestamps:
    """A time in milliseconds since 1970 for each partition."""

    timestamps_ms: dict[TopicPartition, int] = attrs.field(hash=False)
    strategy: NoMatchStrategy = NoMatchStrategy.ERROR


@attrs.frozen
class Timestamp:
    """A time in milliseconds since 1970 for all partitions."""

    timestamp_ms: int
    strategy: NoMatchStrategy = NoMatchStrategy.ERROR


OffsetLimit: TypeAlias = Earliest | Latest | SpecificOffsets | SpecificTimestamps | Timestamp


def read_starting(options: OptionMap, *, is_streaming: bool) -> OffsetLimit:
    """Read the start. Raises IllegalOption; a batch query cannot start at the latest offsets."""
    limit = _read_limit(options, "starting", Latest() if is_streaming else Earliest())
    if is_streaming:
        return limit
    if isinstance(limit, Latest):
        raise IllegalOption("starting offset can't be latest for batch queries on Kafka")
    if isinstance(limit, SpecificOffsets):
        for partition, offset in limit.offsets.items():
            if offset == LATEST:
                raise IllegalOption(
                    f"startingOffsets for {named(partition)} can't be latest for batch queries on Kafka"
                )
    return limit


def read_ending(options: OptionMap, *, is_streaming: bool) -> OffsetLimit:
    """Read the end. Raises IllegalOption for a streaming query, and for a batch query that ends at the earliest
    offsets.
    """
    if is_streaming:
        _refuse_ending(options)
        return Latest()
    limit = _read_limit(options, "ending", Latest())
    if isinstance(limit, Earliest):
        raise IllegalOption("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(limit, SpecificOffsets):
        for partition, offset in limit.offsets.items():
            if offset == EARLIEST:
                raise IllegalOption(
                    f"ending offset for {named(partition)} can't be earliest for batch queries on Kafka"
                )
    return limit


def check_start_before_end(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Raises IllegalOption if starts and ends name different partitions, or if a start is after its end."""
    match starting, ending:
        case SpecificOffsets(starts), SpecificOffsets(ends):
            _check_pairs(starts, ends, "offset")
        case SpecificTimestamps(starts), SpecificTimestamps(ends):
            _check_pairs(starts, ends, "timestamp")


def _check_pairs(starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], what: str) -> None:
    if starts.keys() != ends.keys():
        raise IllegalOption(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {names_of(starts)}, topic-partitions for end offset: {names_of(ends)}."
        )
    for partition, start in starts.items():
        end = ends[partition]
        if start > end >= 0:
            raise IllegalOption(
                f"The specified start {what} {start} is greater than the end {what} {end} "
                f"for topic {partition.topic} partition {partition.partition}."
            )


def _refuse_ending(options: OptionMap) -> None:
    if "endingOffsets" in options:
        raise IllegalOption("ending offset not valid in streaming queries")
    if "endingOffsetsByTimestamp" in options or "endingTimestamp" in options:
        raise IllegalOption("ending timestamp not valid in streaming queries")


def _read_limit(options: OptionMap, end: str, default: OffsetLimit) -> OffsetLimit:
    """`end` is "starting" or "ending". A time for all comes first, then times by partition, then offsets."""
    strategy = _read_strategy(options)
    if (timestamp := options.text(f"{end}Timestamp")) is not None:
        return Timestamp(_read_timestamp(timestamp.strip()), strategy)
    if (timestamps := options.text(f"{end}OffsetsByTimestamp")) is not None:
        return SpecificTimestamps(timestamps_from_json(timestamps.strip()), strategy)
    offsets = (options.text(f"{end}Offsets") or "").strip()
    match offsets.lower():
        case "latest":
            return Latest()
        case "earliest":
            return Earliest()
        case "" if f"{end}Offsets" not in options:
            return default
    return SpecificOffsets(offsets_from_json(offsets))


def _read_timestamp(text: str) -> int:
    try:
        timestamp = read_whole_number("timestamp", text)
    except IllegalOption:
        timestamp = -1
    if timestamp < 0:
        raise IllegalOption(f"Expected a single long value, got {text}")
    return timestamp


def _read_strategy(options: OptionMap) -> NoMatchStrategy:
    name = "startingOffsetsByTimestampStrategy"
    value = options.text(name)
    try:
        return NoMatchStrategy.ERROR if value is None else NoMatchStrategy(value.lower())
    except ValueError:
        raise IllegalOption(f"{name} must be error or latest, not {value!r}") from None
