"""The columns of records in Arrow: those of Spark's Kafka connector, and of the records' producers."""

from collections.abc import Sequence
from typing import Any, Final

from broker.client.arrow.libraries import pa

# A list's child is called "element" in Spark.
HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE, nullable=False))
TIMESTAMP_TYPE: Final = pa.timestamp("us", "UTC")

COLUMNS: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    # Null where a record has no idempotent producer.
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "sequence": pa.int32(),
}
PRODUCER_COLUMNS: Final = ("producerId", "producerEpoch", "sequence")
DEFAULT_COLUMNS: Final = tuple(name for name in COLUMNS if name not in ("headers", *PRODUCER_COLUMNS))


def schema_of(columns: Sequence[str] = DEFAULT_COLUMNS) -> Any:
    """The pyarrow schema of these columns, in this order. Raises ValueError for no columns, and for unknown names."""
    if not columns:
        raise ValueError(f"Ask for at least one of the columns {', '.join(COLUMNS)}")
    for name in columns:
        if name not in COLUMNS:
            raise ValueError(f"No column {name!r} in records; there are {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, COLUMNS[name]) for name in columns])


def table_of(batches: Sequence[Any], schema: Any) -> Any:
    """The RecordBatches as one pyarrow Table; an empty one if there are none."""
    return pa.Table.from_batches(batches, schema)
