"""Fetched record batches to Arrow, a column at a time.

Most of what is done per record is done by numpy and Arrow for thousands of records at once. Only the records' lengths
are followed one after the other, and not even these where records are of one size.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from broker.client.arrow.batch_columns import BatchColumns
from broker.client.arrow.boundaries import record_starts
from broker.client.arrow.contents import Contents, gather_contents
from broker.client.arrow.fields import Fields, binary_column, read_fields
from broker.client.arrow.headers import Headers, headers_column, read_headers
from broker.client.arrow.libraries import np, pa
from broker.client.arrow.octets import Int64s, Octets
from broker.client.arrow.schema import DEFAULT_COLUMNS, schema_of
from broker.client.fetched_batches import fetched_batches
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import BatchHeader
from broker.wire.records.batch import Buffer

# Rows and bytes of one Arrow RecordBatch: few enough that its columns stay in the caches while they are made.
ROWS_MAX: Final = 8192
_BYTES_MAX: Final = 8 << 20


def decode_arrow(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int,
    aborted: Iterable[AbortedTransaction] = (),
    read_committed: bool = False,
    check_crc: bool = True,
    columns: Sequence[str] = DEFAULT_COLUMNS,
) -> Iterator[tuple[Any, int]]:
    """The records in a Fetch response's partition from `from_offset` on, as pyarrow RecordBatches of these columns.

    With each comes the offset to fetch next after it. The last one may have no rows: its offset is that after control
    batches and the like. Decoding is done as the iterator proceeds, a few MiB at a time.

    The same records are left out as in `decode_records`. Raises CorruptBatch and InvalidRecord at a damaged batch,
    after it has returned the records of the batches before; InvalidTimestamp where microseconds do not fit 64 bits, if
    the timestamp is asked for; ValueError for a column that does not exist.
    """
    decoder = _Decoder(topic, partition, schema_of(columns), from_offset)
    fetched, damage = _until_damage(
        fetched_batches(
            buffer, from_offset=from_offset, aborted=aborted, read_committed=read_committed, is_crc_checked=check_crc
        )
    )
    decoded_until = from_offset
    next_offset = max((header.next_offset for _, header, _ in fetched), default=from_offset)
    for contents in gather_contents(buffer, [batch[:2] for batch in fetched if batch[2]]):
        for decoded, decoded_until in decoder.decode_until_damage(contents):
            yield decoded, decoded_until
    if next_offset > decoded_until:
        yield decoder.empty(), next_offset
    if damage is not None:
        raise damage


def _until_damage(
    batches: Iterable[tuple[int, BatchHeader, bool]],
) -> tuple[list[tuple[int, BatchHeader, bool]], WireError | None]:
    """The batches up to a damaged one, and what is wrong with that."""
    sound = []
    try:
        for batch in batches:
            sound.append(batch)
    except WireError as error:
        return sound, error
    return sound, None


@attrs.frozen(eq=False)
class _Decoder:
    """Makes RecordBatches of one partition's records."""

    topic: str
    partition: int
    schema: Any
    from_offset: int

    def empty(self) -> Any:
        return pa.RecordBatch.from_pylist([], schema=self.schema)

    def decode_until_damage(self, contents: Contents) -> Iterator[tuple[Any, int]]:
        """As `_decode`, up to the first damaged batch, where it raises."""
        try:
            yield from list(self._decode(contents))
        except WireError:
            if len(contents.batches) == 1:
                raise
            for batch in contents.one_by_one():
                yield from list(self._decode(batch))

    def _decode(self, contents: Contents) -> Iterator[tuple[Any, int]]:
        """RecordBatches of the records from `from_offset` on, each with the offset after its last record."""
        octets = Octets.of(contents.data)
        bounds = [record_starts(octets, start, end, header.count) for header, start, end in contents.batches]
        starts = np.concatenate([each[:-1] for each in bounds])
        ends = np.concatenate([each[1:] for each in bounds])
        batches = BatchColumns.of([header for header, _, _ in contents.batches])
        row = 0
        while row < len(starts):
            bytes_end = int(np.searchsorted(starts, starts[row] + _BYTES_MAX))
            rows = slice(row, min(row + ROWS_MAX, max(bytes_end, row + 1), len(starts)))
            yield self._decode_rows(octets, starts[rows], ends[rows], batches.of_rows(rows))
            row = rows.stop

    def _decode_rows(self, octets: Octets, starts: Int64s, ends: Int64s, batches: BatchColumns) -> tuple[Any, int]:
        fields = read_fields(octets, starts, ends)
        headers = read_headers(octets, fields.values.ends, ends)
        offsets = batches.offsets(fields.offset_deltas)
        columns = [self._column(name, octets, fields, headers, offsets, batches) for name in self.schema.names]
        decoded = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        is_wanted = offsets >= self.from_offset
        if not is_wanted.all():
            decoded = decoded.filter(pa.array(is_wanted))
        return decoded, max(int(offsets[-1]) + 1, self.from_offset)

    def _column(
        self, name: str, octets: Octets, fields: Fields, headers: Headers, offsets: Int64s, batches: BatchColumns
    ) -> Any:
        match name:
            case "key":
                return binary_column(octets, fields.keys)
            case "value":
                return binary_column(octets, fields.values)
            case "topic":
                return pa.repeat(pa.scalar(self.topic, pa.string()), len(offsets))
            case "partition":
                return pa.repeat(pa.scalar(self.partition, pa.int32()), len(offsets))
            case "offset":
                return pa.array(offsets)
            case "timestamp":
                return batches.timestamps(fields.timestamp_deltas)
            case "timestampType":
                return batches.timestamp_types()
        assert name == "headers", "the columns are those of the schema"
        return headers_column(octets, headers)
