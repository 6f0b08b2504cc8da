"""A query reads the same rows with its predicates pushed down as without, whatever its records and predicates are."""

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from broker.client import TopicPartition
from broker.spark.batch_source import FilteringKraftReader, batch_reader
from broker.spark.options import ReadOptions
from broker.spark.predicates import narrow, push
from broker.spark.ranges import OffsetRange
from broker.wire.records import Record, encode_batch
from tests.support.requests import produce
from tests.support.topics_for_consumers import node_with_topic
from tests.support.wire_client import connected

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
INT64_MAX: Final = 2**63 - 1
NO_TIMESTAMP: Final = -1


class Row(NamedTuple):
    """The columns of a record that predicates are pushed for; times are those of Spark's column."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # microseconds since 1970
    key: bytes | None = None


Comparison = Callable[[Any, Any], bool]
COMPARISONS: Final[dict[type[Any], Comparison]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def holds(each: Any, row: Row) -> bool:
    """Evaluates a filter as SQL does: a comparison with null is not true, nor is its negation."""
    if isinstance(each, Not):
        is_null = is_null_comparison(each.child, row)
        return not is_null and not holds(each.child, row)
    value = getattr(row, each.attribute[0])
    match each:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case In():
            return value is not None and any(value == comparable(wanted) for wanted in each.value if wanted is not None)
        case StringStartsWith():
            return bool(value.startswith(each.value))
    wanted = comparable(each.value)
    return value is not None and wanted is not None and COMPARISONS[type(each)](value, wanted)


def is_null_comparison(each: Any, row: Row) -> bool:
    if isinstance(each, IsNull | IsNotNull):
        return False
    values = each.value if isinstance(each, In) else (each.value,)
    return getattr(row, each.attribute[0]) is None or None in values


def comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return value


timestamps_ms = st.one_of(
    st.sampled_from([NO_TIMESTAMP, 0, 1, -2, -1_000, 999, 1_000, 253_402_300_799_999]),
    st.integers(-5_000, 5_000),
)
partitions_of_records = st.lists(st.tuples(st.integers(1, 3), timestamps_ms), max_size=12)
zones = st.sampled_from([UTC, timezone(timedelta(hours=-11)), timezone(timedelta(hours=14))])
times = st.one_of(
    st.builds(
        lambda us, zone: (EPOCH + timedelta(microseconds=us)).astimezone(zone),
        st.integers(-6_000_000, 6_000_000),
        zones,
    ),
    st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), EPOCH, None]),
    st.sampled_from([datetime.max.replace(tzinfo=timezone(timedelta(hours=-11)))]),
)
offsets_wanted = st.one_of(
    st.integers(-3, 30), st.sampled_from([-INT64_MAX - 1, INT64_MAX, INT64_MAX - 1, 2**31, 2**70, None])
)
numbers = st.sampled_from([0, 1, 2, -1, 2**31 - 1, None])
names = st.sampled_from(["a", "ab", "b", "", "A", None])


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    one = st.builds(lambda kind, value: kind((column,), value), st.sampled_from([*COMPARISONS]), values)
    some = st.builds(lambda wanted: In((column,), tuple(wanted)), st.lists(values, min_size=1, max_size=3))
    return st.one_of(one, some, st.just(IsNotNull((column,))), st.just(IsNull((column,))))


plain_filters = st.one_of(
    comparisons("topic", names),
    comparisons("partition", numbers),
    comparisons("offset", offsets_wanted),
    comparisons("timestamp", times),
    comparisons("key", st.sampled_from([b"k", b"", None])).filter(lambda each: not isinstance(each, In)),
    st.builds(lambda prefix: StringStartsWith(("topic",), prefix), st.sampled_from(["", "a", "ab", "z"])),
)
filters = st.lists(st.one_of(plain_filters, st.builds(Not, plain_filters)), max_size=4)


@given(
    logs=st.lists(partitions_of_records, min_size=1, max_size=4),
    pushed=filters,
    has_lateness=st.booleans(),
    data=st.data(),
)
def test_pushed_predicates_read_the_same_rows(
    logs: list[list[tuple[int, int]]], pushed: list[Filter], has_lateness: bool, data: st.DataObject
) -> None:
    rows: list[Row] = []
    ranges = []
    for number, log in enumerate(logs):
        topic, partition = ("a", "ab")[number % 2], number // 2
        offset = 0
        for step, timestamp_ms in log:
            offset += step
            rows.append(Row(topic, partition, offset, timestamp_ms * 1_000, (None, b"k", b"")[offset % 3]))
        start, end = sorted(data.draw(st.tuples(st.integers(0, offset + 1), st.integers(0, offset + 1))))
        ranges.append(OffsetRange(topic, b"i" * 16, partition, start, end))

    def at_times(wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        assert all(0 <= time <= INT64_MAX for time in wanted.values()), "a broker takes these times only"
        return {
            partition: next((row.offset for row in rows_of(rows, partition) if row.timestamp >= time * 1_000), None)
            for partition, time in wanted.items()
        }

    bounds, left = push(pushed)
    narrowed = narrow(ranges, bounds, at_times, latest_ms(rows) if has_lateness else None)
    assert all(0 <= each.start < each.end <= INT64_MAX for each in narrowed)
    unpushed = [row for row in within(rows, ranges) if all(holds(each, row) for each in pushed)]
    assert [row for row in within(rows, narrowed) if all(holds(each, row) for each in left)] == unpushed


def rows_of(rows: Iterable[Row], partition: TopicPartition) -> list[Row]:
    return [row for row in rows if (row.topic, row.partition) == partition]


def within(rows: Iterable[Row], ranges: Iterable[OffsetRange]) -> list[Row]:
    whole = {each.topic_partition: each for each in ranges}
    return [
        row
        for row in rows
        if (each := whole.get(TopicPartition(row.topic, row.partition))) and each.start <= row.offset < each.end
    ]


def latest_ms(rows: list[Row]) -> int:
    """The most by which a record is older than a record before it in its partition."""
    lateness = 0
    for partition in {TopicPartition(row.topic, row.partition) for row in rows}:
        newest = None
        for row in rows_of(rows, partition):
            newest = row.timestamp if newest is None else max(newest, row.timestamp)
            lateness = max(lateness, newest - row.timestamp)
    return -(-lateness // 1_000)


PUSHED_TO_A_NODE: Final[list[list[Filter]]] = [
    [GreaterThanOrEqual(("timestamp",), EPOCH - timedelta(days=1))],
    [GreaterThan(("timestamp",), EPOCH - timedelta(milliseconds=2))],
    [GreaterThan(("timestamp",), EPOCH)],
    [GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(microseconds=7_001))],
    [LessThan(("timestamp",), EPOCH)],
    [EqualTo(("timestamp",), EPOCH - timedelta(milliseconds=1))],
    [LessThan(("timestamp",), datetime.max.replace(tzinfo=UTC)), GreaterThan(("offset",), 2)],
    [EqualTo(("partition",), 0), LessThanOrEqual(("offset",), INT64_MAX)],
]


async def test_pushed_predicates_read_the_same_rows_of_a_node(tmp_path: Path) -> None:
    """Records before 1970, without a timestamp, and out of order."""

    def read(address: str, pushed: list[Filter], *, is_pushed: bool) -> list[Row]:
        options = {
            "kafka.bootstrap.servers": address,
            "subscribe": "topic",
            "pushDownPredicate": str(is_pushed),
            "maxTimestampLateness": "2d",
        }
        reader = batch_reader(ReadOptions.of(options, is_streaming=False), Row._fields)
        if is_pushed:
            assert isinstance(reader, FilteringKraftReader)
            reader.pushFilters(pushed)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        rows = [
            Row(**{**row, "timestamp": comparable(row["timestamp"])}) for each in batches for row in each.to_pylist()
        ]
        return [row for row in rows if all(holds(each, row) for each in pushed)]

    async with node_with_topic(tmp_path, partitions=1) as node:
        async with connected(node.port) as client:
            for timestamp_ms in (NO_TIMESTAMP, -86_400_000, 5, 0, 7, 8, -1, 6):
                await produce(client, encode_batch([Record(timestamp=timestamp_ms, value=b"v")], base_offset=0))
        address = f"127.0.0.1:{node.port}"
        for pushed in PUSHED_TO_A_NODE:
            expected = await trio.to_thread.run_sync(partial(read, address, pushed, is_pushed=False))
            assert expected, "the predicate chooses some rows"
            assert await trio.to_thread.run_sync(partial(read, address, pushed, is_pushed=True)) == expected


async def test_times_choose_records_of_batches_whose_header_has_no_max_timestamp(tmp_path: Path) -> None:
    """Some clients leave it unset (-1). Brokers compute it from the records."""

    def read(address: str, more: Mapping[str, str], pushed: list[Filter]) -> list[int]:
        options = {"kafka.bootstrap.servers": address, "subscribe": "topic", "pushDownPredicate": "true", **more}
        reader = batch_reader(ReadOptions.of(options, is_streaming=False), ("offset",))
        assert isinstance(reader, FilteringKraftReader)
        reader.pushFilters(pushed)
        found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        return [row["offset"] for row in found]

    async with node_with_topic(tmp_path, partitions=1) as node:
        async with connected(node.port) as client:
            for first in range(0, 10, 2):
                records = [Record(timestamp=1_000 + each, value=b"v") for each in (first, first + 1)]
                await produce(client, encode_batch(records, base_offset=0, max_timestamp=NO_TIMESTAMP))
        address = f"127.0.0.1:{node.port}"
        times = {"startingTimestamp": "1003", "endingTimestamp": "1008"}
        assert await trio.to_thread.run_sync(read, address, times, []) == [3, 4, 5, 6, 7]
        since = [GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(milliseconds=1_005))]
        assert await trio.to_thread.run_sync(read, address, {}, since) == [5, 6, 7, 8, 9]
