"""Joins the contents of fetched batches, so that many small batches are decoded together."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from broker.client.arrow.byte_views import MARGIN
from broker.wire.errors import WireError
from broker.wire.records import HEADER_SIZE, BatchHeader
from broker.wire.records.batch import COMPRESSION_MASK, Buffer
from broker.wire.records.record import records_data

# Contents are closed at this size: enough to make the work per array small, and little enough to stay in the caches.
_SIZE: Final = 4 << 20


@attrs.define(eq=False)
class Contents:
    """The encoded records of several batches: the header of each, and where its records begin and end in `data`.

    At least MARGIN bytes follow the last one. `last` is the header of the last batch that was passed, with records or
    without.
    """

    data: Buffer
    batches: list[tuple[BatchHeader, int, int]]
    last: BatchHeader

    def one_by_one(self) -> Iterator["Contents"]:
        """Splits the contents into one object per batch."""
        for batch in self.batches:
            yield Contents(self.data, [batch], batch[0])


@attrs.define(eq=False)
class _Gathering:
    """Contents that batches are still added to, either as parts of the fetched buffer or as copies."""

    buffer: Buffer
    is_in_place: bool = True
    batches: list[tuple[BatchHeader, int, int]] = attrs.field(factory=list)
    copies: list[Buffer] = attrs.field(factory=list)
    size: int = 0
    count: int = 0
    last: BatchHeader | None = None

    def add(self, header: BatchHeader, position: int) -> None:
        if self.is_in_place:
            start = position + HEADER_SIZE
            end = position + header.size
        else:
            data = records_data(self.buffer, position, header)
            self.copies.append(data)
            start = self.size
            end = self.size + len(data)
        self.batches.append((header, start, end))
        self.size += end - start
        self.count += header.count

    def closed(self) -> Iterator[Contents]:
        """The contents, if a batch was passed."""
        if self.last is not None:
            data = self.buffer if self.is_in_place else b"".join([*self.copies, bytes(MARGIN)])
            yield Contents(data, self.batches, self.last)


def gather_contents(
    buffer: Buffer, batches: Iterable[tuple[int, BatchHeader, bool]], records_max: int
) -> Iterator[Contents]:
    """The contents of the batches at these positions that are visible: 4 MiB or `records_max` records at a time.

    Batches stay in `buffer`, but compressed ones and one at its very end are copied. If `batches` raises or a batch
    cannot be decompressed, the error is raised after the batches before it are returned.
    """
    gathering = _Gathering(buffer)
    try:
        for position, header, is_visible in batches:
            is_in_place = not header.attributes & COMPRESSION_MASK and position + header.size + MARGIN <= len(buffer)
            is_full = gathering.size >= _SIZE or gathering.count >= records_max
            if is_visible and (is_full or gathering.is_in_place != is_in_place):
                yield from gathering.closed()
                gathering = _Gathering(buffer, is_in_place)
            if is_visible:
                gathering.add(header, position)
            gathering.last = header
    except WireError:
        yield from gathering.closed()
        raise
    yield from gathering.closed()
