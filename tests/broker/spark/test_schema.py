"""The columns of Spark's Kafka connector, and the choice of some of them."""

import pytest

from broker.client.arrow import schema_of
from broker.spark.schema import COLUMN_TYPES, IllegalSchema, columns_of, source_schema


def test_schema_is_that_of_the_stock_connector() -> None:
    plain = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    headers = "headers array<struct<key:string,value:binary>>"
    producers = "producerId bigint, producerEpoch int, sequence int"
    assert source_schema(has_headers=False, has_producers=False) == plain
    assert source_schema(has_headers=True, has_producers=False) == f"{plain}, {headers}"
    assert source_schema(has_headers=True, has_producers=True) == f"{plain}, {headers}, {producers}"


def test_every_column_can_be_decoded() -> None:
    assert schema_of(list(COLUMN_TYPES)).names == list(COLUMN_TYPES)


def test_a_schema_chooses_columns_in_its_own_order() -> None:
    assert columns_of([("offset", "bigint"), ("value", "binary")]) == ("offset", "value")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([("payload", "binary")], "it has no column 'payload'"),
        ([("value", "string")], "value is of type binary, not string. Cast the column after reading it"),
        ([], "at least one"),
    ],
)
def test_other_columns_and_types_are_refused(fields: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(IllegalSchema, match=reason):
        columns_of(fields)
