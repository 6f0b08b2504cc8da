"""The columns of a query that the sink writes, and the messages with which it refuses a schema."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from broker.spark.sink.columns import IllegalColumns, SinkColumns

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_all_columns_of_a_record_are_written_and_others_are_not() -> None:
    columns = SinkColumns.of(
        schema(
            extra=LongType(),
            timestamp=TimestampType(),
            partition=IntegerType(),
            headers=HEADERS,
            value=StringType(),
            key=BinaryType(),
            topic=StringType(),
        ),
        None,
    )
    assert columns.topic is None
    assert set(columns.names) == {"topic", "key", "value", "headers", "partition", "timestamp"}


def test_topic_option_is_preferred_to_the_column() -> None:
    columns = SinkColumns.of(schema(topic=IntegerType(), value=BinaryType()), "orders")
    assert columns == SinkColumns("orders", ("value",))


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            {"value": StringType()},
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.",
        ),
        ({"topic": StringType(), "key": StringType()}, "Required attribute 'value' not found"),
        (
            {"topic": IntegerType(), "value": StringType()},
            "topic attribute unsupported type int. topic must be a(n) string",
        ),
        (
            {"topic": StringType(), "value": LongType()},
            "value attribute unsupported type bigint. value must be a(n) string or binary",
        ),
        (
            {"topic": StringType(), "value": StringType(), "key": DoubleType()},
            "key attribute unsupported type double. key must be a(n) string or binary",
        ),
        (
            {"topic": StringType(), "value": StringType(), "headers": ArrayType(StringType())},
            "headers attribute unsupported type array<string>. "
            "headers must be a(n) array<struct<key:string,value:binary>>",
        ),
        (
            {"topic": StringType(), "value": StringType(), "partition": LongType()},
            "partition attribute unsupported type bigint. partition must be a(n) int",
        ),
        (
            {"topic": StringType(), "value": StringType(), "timestamp": LongType()},
            "timestamp attribute unsupported type bigint. timestamp must be a(n) double or timestamp",
        ),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused_as_the_connector_refuses_it(
    types: dict[str, Any], message: str
) -> None:
    with pytest.raises(IllegalColumns) as refused:
        SinkColumns.of(schema(**types), None)
    assert str(refused.value) == message


def test_a_row_without_a_topic_is_refused() -> None:
    columns = SinkColumns(None, ("topic", "value"))
    rows = pa.record_batch({"topic": ["orders", None], "value": [b"1", b"2"]})
    with pytest.raises(ValueError, match="null topic present in the data"):
        columns.select(rows)


def test_seconds_become_milliseconds_and_no_number_becomes_now() -> None:
    columns = SinkColumns("orders", ("value", "timestamp"))
    seconds = [1.5, 2.0009, None, float("nan"), float("inf")]
    rows = pa.record_batch({"value": [b""] * 5, "timestamp": pa.array(seconds, pa.float64()), "other": [0] * 5})
    assert columns.select(rows).to_pydict()["timestamp"] == [1500, 2000, None, None, None]
    assert columns.select(rows).schema.names == ["value", "timestamp"]
