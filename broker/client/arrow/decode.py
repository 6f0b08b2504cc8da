"""Decodes fetched record batches to Arrow, one column at a time.

Most of what is done per record is done by numpy and Arrow for thousands of records at once. Only the records' lengths
are followed one after the other, and not even these where records are of one size.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import attrs

from broker.client.arrow.batch_columns import BatchColumns
from broker.client.arrow.boundaries import record_starts
from broker.client.arrow.byte_views import ByteViews, Int64s
from broker.client.arrow.contents import Contents, gather_contents
from broker.client.arrow.fields import Fields, binary_column, read_fields
from broker.client.arrow.headers import Headers, headers_column, read_headers
from broker.client.arrow.libraries import np, pa
from broker.client.arrow.schema import DEFAULT_COLUMNS, PRODUCER_COLUMNS, schema_of
from broker.client.fetched_batches import fetched_batches
from broker.wire.api.fetch import AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import NO_PARTITION_LEADER_EPOCH, BatchHeader
from broker.wire.records.batch import Buffer

# Rows and bytes of one Arrow RecordBatch: few enough that its columns stay in the caches while they are made.
ROWS_MAX: Final = 8192
_BYTES_MAX: Final = 8 << 20
_NO_LIMIT: Final = 2**63


class DecodedRows(NamedTuple):
    """A pyarrow RecordBatch, the offset to fetch next after it, and the leader epoch of the last batch before that."""

    rows: Any
    next_offset: int
    leader_epoch: int | None


def decode_arrow(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int,
    until_offset: int = _NO_LIMIT,
    aborted: Iterable[AbortedTransaction] = (),
    read_committed: bool = False,
    check_crc: bool = True,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    max_records: int | None = None,
) -> Iterator[DecodedRows]:
    """The records in a Fetch response's partition from `from_offset` on, as pyarrow RecordBatches of these columns.

    Stops before `until_offset` and after `max_records`. A RecordBatch may be empty and only carry a new offset, for
    example after control batches. The iterator decodes a few MiB at a time.

    The same records are left out as in `decode_records`. Raises CorruptBatch and InvalidRecord at a damaged batch,
    after it has returned the records of the batches before; InvalidTimestamp where microseconds do not fit 64 bits, if
    the timestamp is asked for; ValueError for a column that does not exist.
    """
    decoder = _Decoder(topic, partition, schema_of(columns), from_offset, until_offset)
    left = _NO_LIMIT if max_records is None else max_records
    batches = fetched_batches(
        buffer, from_offset=from_offset, aborted=aborted, read_committed=read_committed, is_crc_checked=check_crc
    )
    wanted = takewhile(lambda batch: batch[1].base_offset < until_offset, batches)
    reached = from_offset
    for contents in gather_contents(buffer, wanted, left):
        for decoded in decoder.decode_until_damage(contents, left):
            reached = max(reached, decoded.next_offset)
            yield decoded._replace(next_offset=reached)
            left -= decoded.rows.num_rows
        if left <= 0:
            return
        if contents.last.next_offset > reached:
            reached = contents.last.next_offset
            yield decoder.without_rows(contents.last)


@attrs.frozen(eq=False)
class _Decoder:
    """Makes RecordBatches of one partition's records."""

    topic: str
    partition: int
    schema: Any
    from_offset: int
    until_offset: int

    def without_rows(self, last: BatchHeader) -> DecodedRows:
        """An empty RecordBatch with the offset after the batch that has this header."""
        empty = pa.RecordBatch.from_pylist([], schema=self.schema)
        return DecodedRows(empty, last.next_offset, _known_epoch(last.partition_leader_epoch))

    def decode_until_damage(self, contents: Contents, limit: int) -> Iterator[DecodedRows]:
        """Yields what `_decode` yields up to the first damaged batch, and raises there."""
        try:
            yield from list(self._decode(contents, limit))
        except WireError:
            if len(contents.batches) == 1:
                raise
            for batch in contents.one_by_one():
                for decoded in list(self._decode(batch, limit)):
                    yield decoded
                    limit -= decoded.rows.num_rows

    def _decode(self, contents: Contents, limit: int) -> Iterator[DecodedRows]:
        """The records from `from_offset` on, at most `limit`."""
        if not contents.batches:
            return
        views = ByteViews.of(contents.data)
        bounds = [record_starts(views, start, end, header.count) for header, start, end in contents.batches]
        starts = np.concatenate([each[:-1] for each in bounds])
        ends = np.concatenate([each[1:] for each in bounds])
        batches = BatchColumns.of(
            [header for header, _, _ in contents.batches],
            has_producers=not set(PRODUCER_COLUMNS).isdisjoint(self.schema.names),
        )
        row = 0
        while row < len(starts) and limit > 0:
            bytes_end = int(np.searchsorted(starts, starts[row] + _BYTES_MAX))
            stop = min(row + min(ROWS_MAX, limit), max(bytes_end, row + 1), len(starts))
            rows = slice(row, stop)
            decoded = self._decode_rows(views, starts[rows], ends[rows], batches.of_rows(rows))
            yield decoded
            limit -= decoded.rows.num_rows
            row = stop

    def _decode_rows(self, views: ByteViews, starts: Int64s, ends: Int64s, batches: BatchColumns) -> DecodedRows:
        fields = read_fields(views, starts, ends)
        headers = read_headers(views, fields.values.ends, ends)
        offsets = batches.offsets(fields.offset_deltas)
        columns = [self._column(name, views, fields, headers, offsets, batches) for name in self.schema.names]
        decoded = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        is_wanted = (offsets >= self.from_offset) & (offsets < self.until_offset)
        if not is_wanted.all():
            decoded = decoded.filter(pa.array(is_wanted))
        return DecodedRows(decoded, int(offsets.max()) + 1, _known_epoch(int(batches.leader_epochs[-1])))

    def _column(
        self, name: str, views: ByteViews, fields: Fields, headers: Headers, offsets: Int64s, batches: BatchColumns
    ) -> Any:
        match name:
            case "key":
                return binary_column(views, fields.keys)
            case "value":
                return binary_column(views, fields.values)
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
            case "headers":
                return headers_column(views, headers)
        assert batches.producers is not None, "producer columns are decoded if one is requested"
        return batches.producers.column(name, fields.offset_deltas)


def _known_epoch(epoch: int) -> int | None:
    return None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
