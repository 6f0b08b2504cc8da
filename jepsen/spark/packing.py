"""The rows that workers exchange, with packed parts of operations.

Operations are packed as tuples, because pickling objects takes ten times as long.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa
import zstandard

from jepsen.history import Operation, Outcome
from jepsen.journal import VALUES

# `kind` is a projection or one of the kinds below. A key may have any number of rows.
ROWS: Final = "kind string, key string, content binary"
# Numbers of operations. `key` is the function and the outcome.
COUNT: Final = "count"
# Facts that several keys need, with the name of the context as the key.
CONTEXT: Final = "context"
# Events of incomplete operations. All events of a process have the same key.
EVENTS: Final = "events"

PackedRow: TypeAlias = tuple[str, str, bytes]

_SCHEMA: Final = pa.schema([("kind", pa.string()), ("key", pa.string()), ("content", pa.binary())])
_FIELDS: Final[Mapping[str, Callable[[Any], tuple[Any, ...]]]] = {
    # `attrgetter` of several names returns a tuple, that of one name does not.
    function: attrgetter(*names) if len(names) > 1 else attrs.astuple
    for function, names in ((each, [field.name for field in attrs.fields(cls)]) for each, cls in VALUES.items())
}
_OUTCOMES: Final = {each.value: each for each in Outcome}
# The fastest level. The result is half the size of LZ4's.
_LEVEL: Final = 1


class Packing:
    """Packs and unpacks rows. Creating an instance is slower than using it, so a task creates only one."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def pack(self, content: object) -> bytes:
        return self._compressor.compress(pickle.dumps(content, pickle.HIGHEST_PROTOCOL))

    def unpack(self, packed: bytes) -> Any:
        return pickle.loads(self._decompressor.decompress(packed))

    def pack_operations(self, operations: Iterable[Operation]) -> bytes:
        return self.pack([_flat(operation) for operation in operations])

    def unpack_operations(self, packed: bytes) -> list[Operation]:
        return [_operation(*flat) for flat in self.unpack(packed)]


def batch_of(rows: Iterable[PackedRow]) -> pa.RecordBatch:
    columns = tuple(zip(*rows, strict=True)) or ((), (), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(*each) for each in zip(columns, _SCHEMA.types, strict=True)], schema=_SCHEMA
    )


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedRow]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _flat(operation: Operation) -> tuple[Any, ...]:
    function, value = operation.function, operation.value
    fields = _FIELDS.get(function)
    return (
        operation.client,
        function,
        value if fields is None else fields(value),
        operation.invoked_at,
        operation.outcome.value,
        operation.completed_at,
        operation.result,
        operation.incarnation,
        operation.serial,
    )


def _operation(client: str, function: str, value: Any, invoked_at: float, outcome: str, *others: Any) -> Operation:
    cls = VALUES.get(function)
    return Operation(client, function, value if cls is None else cls(*value), invoked_at, _OUTCOMES[outcome], *others)
