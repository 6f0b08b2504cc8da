"""The start and the end of `kraft consume` in each partition."""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from broker.cli.grammar.units import is_digits, parse_time_ms
from broker.client.admin import Admin, OffsetSpec
from broker.client.types import TopicPartition

_BEGINNING: Final = ("beginning", "earliest")
_END: Final = ("end", "latest")


@attrs.frozen
class Start:
    """The start: `offset` (negative: so many before the end) or `time_ms`; an end of the log if both are None."""

    offset: int | None = None
    time_ms: int | None = None
    is_at_end: bool = False


@attrs.frozen
class Range:
    """Offsets of a partition: from `begin` on, before `end`; None where there is no end."""

    begin: int
    end: int | None


def parse_start(text: str, now_ms: int) -> Start:
    """`beginning`, `end`, an offset, `-N` for the last N, or `@TIME`. Raises ValueError."""
    stripped = text.strip().lower()
    if stripped in _BEGINNING:
        return Start()
    if stripped in _END:
        return Start(is_at_end=True)
    if stripped.startswith("@"):
        return Start(time_ms=parse_time_ms(text.strip()[1:], now_ms))
    digits = stripped.removeprefix("-")
    if not is_digits(digits):
        raise ValueError(
            f"{text!r} is not an offset; write beginning, end, 42, -10 for the last ten, or @TIME as in @-2h"
        )
    return Start(offset=int(stripped))


async def find_ranges(
    admin: Admin,
    partitions: Iterable[TopicPartition],
    start: Start,
    until_ms: int | None,
    stops_at_end: bool,
    *,
    is_committed: bool = False,
) -> dict[TopicPartition, Range]:
    """The offsets to read of each partition. With `is_committed`, they end at the first record of an open transaction.

    Raises KafkaError, ClientError.
    """
    chosen = list(partitions)
    begins = await _offsets(admin, chosen, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, chosen, OffsetSpec.LATEST, is_committed=is_committed)
    since = await _offsets(admin, chosen, start.time_ms) if start.time_ms is not None else {}
    until = await _offsets(admin, chosen, until_ms) if until_ms is not None else {}
    ranges = {}
    for partition in chosen:
        begin, end = begins[partition] or 0, ends[partition] or 0
        first = _first(start, since.get(partition), begin, end)
        last = until.get(partition)
        if last is None and (stops_at_end or until_ms is not None):
            # No record is that late yet, so what comes later is not wanted either.
            last = end
        ranges[partition] = Range(first, last)
    return ranges


def _first(start: Start, since: int | None, begin: int, end: int) -> int:
    if start.is_at_end:
        return end
    if start.time_ms is not None:
        return end if since is None else since
    if start.offset is None:
        return begin
    return max(begin, end + start.offset if start.offset < 0 else min(start.offset, end))


async def _offsets(
    admin: Admin, partitions: Iterable[TopicPartition], spec: OffsetSpec | int, *, is_committed: bool = False
) -> Mapping[TopicPartition, int | None]:
    found = (
        await admin.list_offsets(
            dict.fromkeys(partitions, spec),
            isolation_level="read_committed" if is_committed else "read_uncommitted",
        )
    ).raise_first()
    return {partition: None if offset is None else offset.offset for partition, offset in found.items()}
