"""The columns that the sink writes, checked against the query's schema before it starts."""

from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TEXT_OR_BYTES: Final = ("string", "binary")
# The types that Spark's connector takes, in the order of its checks and as its messages write them.
_TYPES: Final = {
    "topic": ("string",),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": (_HEADERS,),
    "partition": ("int",),
    "timestamp": ("double", "timestamp"),
}
_MS_PER_S: Final = 1_000


class IllegalColumns(ValueError):
    """The query's columns cannot be written as records."""


@attrs.frozen
class SinkColumns:
    """Which columns of a query become parts of records. The others are not written.

    `topic` is the topic of all rows. If it is None, each row names its own in the column `topic`.
    """

    topic: str | None
    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> "SinkColumns":
        """Reads a schema. Raises IllegalColumns, with the messages of Spark's connector."""
        types = {field.name: field.dataType.simpleString() for field in reversed(schema.fields)}
        if topic is not None:
            types.pop("topic", None)
        elif "topic" not in types:
            raise IllegalColumns(
                "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
            )
        for name, accepted in _TYPES.items():
            if name == "value" and name not in types:
                raise IllegalColumns("Required attribute 'value' not found")
            if name in types and types[name] not in accepted:
                raise IllegalColumns(
                    f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(accepted)}"
                )
        return cls(topic, tuple(name for name in _TYPES if name in types))

    def select(self, rows: Any) -> Any:
        """The part of a pyarrow RecordBatch that a producer writes. Raises ValueError for a row without a topic."""
        columns = {name: rows.column(name) for name in self.names}
        if "topic" in columns and columns["topic"].null_count:
            raise ValueError("null topic present in the data. Use the topic option for setting a default topic.")
        if "timestamp" in columns and pa.types.is_floating(columns["timestamp"].type):
            columns["timestamp"] = _milliseconds(columns["timestamp"])
        return pa.record_batch(columns)


def _milliseconds(seconds: Any) -> Any:
    """Seconds since 1970 as milliseconds; what is not a finite number becomes null, as Spark's cast makes it."""
    finite = pc.if_else(pc.is_finite(seconds), seconds, pa.scalar(None, pa.float64()))
    return pc.cast(pc.floor(pc.multiply(finite, _MS_PER_S)), pa.int64())
