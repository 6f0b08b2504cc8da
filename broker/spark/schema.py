"""The columns of the data source: those of Spark's Kafka connector and some more, and those that a query asks for."""

from collections.abc import Iterable
from typing import Final

# The names and Spark's names of their types, in the connector's order; those of producers are not the connector's.
COLUMN_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "producerId": "bigint",
    "producerEpoch": "int",
    "sequence": "int",
}
# By them, idempotent producers number the records of a partition.
PRODUCER_COLUMNS: Final = ("producerId", "producerEpoch", "sequence")


class IllegalSchema(ValueError):
    """A schema that asks for a column that records do not have, or for another type of it."""


def source_schema(*, has_headers: bool, has_producers: bool) -> str:
    """The schema of a query that gives none, as Spark's DDL."""
    left_out = (*(() if has_headers else ("headers",)), *(() if has_producers else PRODUCER_COLUMNS))
    return ", ".join(f"{name} {kind}" for name, kind in COLUMN_TYPES.items() if name not in left_out)


def columns_of(fields: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The columns that a schema's fields ask for, given by name and Spark's simple name of the type.

    Only these are decoded and sent to Spark, which does not tell a Python data source the columns that a query uses.
    Raises IllegalSchema.
    """
    columns = []
    for name, kind in fields:
        if name not in COLUMN_TYPES:
            raise IllegalSchema(
                f"Kafka source has a fixed schema: it has no column {name!r}. "
                f"A schema may choose from {', '.join(COLUMN_TYPES)}"
            )
        if kind != COLUMN_TYPES[name]:
            raise IllegalSchema(
                f"Kafka source has a fixed schema: {name} is of type {COLUMN_TYPES[name]}, not {kind}. "
                "Cast the column after reading it"
            )
        columns.append(name)
    if not columns:
        raise IllegalSchema(f"A schema chooses at least one of the columns {', '.join(COLUMN_TYPES)}")
    return tuple(columns)
