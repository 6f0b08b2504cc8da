"""Arrow batches as Spark takes them: it compares types exactly, nested nullability included."""

from typing import Any, Final

import pyarrow as pa

# Spark's type has nullable elements and keys, as the schema of its own connector does.
_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def as_spark_types(batch: Any) -> Any:
    """The batch with its headers, if it has some, in Spark's type. Nothing is copied."""
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return batch
    return batch.set_column(index, pa.field("headers", _HEADERS_TYPE), batch.column(index).cast(_HEADERS_TYPE))
