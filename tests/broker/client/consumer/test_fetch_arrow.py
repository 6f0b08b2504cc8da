"""Records of a running node as Arrow tables."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio

from broker.client import Consumer
from broker.client.arrow import schema_of
from broker.client.types import TopicPartition
from broker.wire.records import Compression
from tests.support.requests import produce
from tests.support.topics_for_consumers import (
    ONE,
    WITHIN_S,
    ZERO,
    consuming,
    fetch_exactly,
    fill_node,
    node_with_topic,
    numbered,
    values,
)
from tests.support.wire_client import connected


async def fetch_rows(consumer: Consumer, count: int, most: int = 1_000, **settings: Any) -> list[dict[str, Any]]:
    """Fetch `count` rows, with as many polls as necessary."""
    rows: list[dict[str, Any]] = []
    with trio.fail_after(WITHIN_S):
        while len(rows) < count:
            table = await consumer.fetch_arrow(min(most, count - len(rows)), **settings)
            assert table.num_rows <= most
            rows += table.to_pylist()
    return rows


def numbers(rows: list[dict[str, Any]], partition: TopicPartition = ZERO) -> list[int]:
    return [int(row["value"]) for row in rows if row["partition"] == partition.partition]


async def test_tables_have_every_record_in_order_and_at_most_max_records(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        for index in (0, 1):
            await fill_node(node.port, 300, index=index)
        async with consuming(node.port, [ZERO, ONE]) as consumer:
            rows = await fetch_rows(consumer, 600, most=70)
            assert numbers(rows, ZERO) == numbers(rows, ONE) == list(range(300))
            assert {row["topic"] for row in rows} == {"topic"}
            assert [row["offset"] for row in rows if row["partition"] == 1] == list(range(300))
            assert await consumer.position(ZERO) == 300
            assert await consumer.lag() == {ZERO: 0, ONE: 0}


@pytest.mark.parametrize("compression", list(Compression))
async def test_tables_and_records_take_turns_without_a_loss(tmp_path: Path, compression: Compression) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        for first in range(0, 200, 50):
            await produce(client, numbered(first, 50, compression=compression))
        async with consuming(node.port) as consumer:
            found: list[int] = []
            for _ in range(5):
                found += values(await fetch_exactly(consumer, 7))
                found += numbers(await fetch_rows(consumer, 33))
                assert await consumer.position(ZERO) == len(found)
            assert found == list(range(200))


async def test_only_the_columns_asked_for_are_in_the_table(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 3)
        async with consuming(node.port) as consumer:
            assert await fetch_rows(consumer, 3, columns=["offset", "headers"]) == [
                {"offset": offset, "headers": None} for offset in range(3)
            ]
            with pytest.raises(ValueError, match="No column 'vlaue'"):
                await consumer.fetch_arrow(columns=["vlaue"])


async def test_a_table_without_rows_is_returned_when_the_time_is_over(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer:
        table = await consumer.fetch_arrow(timeout_s=0.05)
        assert (table.num_rows, table.schema) == (0, schema_of())
        assert isinstance(table, pa.Table)


async def test_reading_goes_on_from_where_the_consumer_has_moved(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 250)
        async with consuming(node.port) as consumer:
            assert len(await fetch_rows(consumer, 20)) == 20
            consumer.seek(ZERO, 247)
            assert numbers(await fetch_rows(consumer, 3)) == [247, 248, 249]
            consumer.seek(ZERO, 110)
            assert numbers(await fetch_rows(consumer, 2)) == [110, 111]
