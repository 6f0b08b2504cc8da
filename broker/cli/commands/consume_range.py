"""The start and the end of `kraft consume` in each partition."""

from collections.abc import Iterable
from typing import Final, Literal

import attrs

from broker.cli.grammar.partitions import find_offsets
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
) -> tuple[dict[TopicPartition, Range], dict[TopicPartition, Exception]]:
    """The offsets to read of each partition, and the errors of the partitions whose offsets cannot be found now.

    With `is_committed`, the offsets end at the first record of an open transaction.
    """
    times = [time_ms for time_ms in (start.time_ms, until_ms) if time_ms is not None]
    level: Literal["read_uncommitted", "read_committed"] = "read_committed" if is_committed else "read_uncommitted"
    found, errors = await find_offsets(
        admin, partitions, [OffsetSpec.EARLIEST, OffsetSpec.LATEST, *times], isolation_level=level
    )
    ranges = {}
    for partition in found[0]:
        begin, end, *at = (None if (offset := of[partition]) is None else offset.offset for of in found)
        since = at[0] if start.time_ms is not None else None
        first = _first(start, since, begin or 0, end or 0)
        last = at[-1] if until_ms is not None else None
        if last is None and (stops_at_end or until_ms is not None):
            # No record is that late yet, so what comes later is not wanted either.
            last = end or 0
        ranges[partition] = Range(first, last)
    return ranges, errors


def _first(start: Start, since: int | None, begin: int, end: int) -> int:
    if start.is_at_end:
        return end
    if start.time_ms is not None:
        return end if since is None else since
    if start.offset is None:
        return begin
    return max(begin, end + start.offset if start.offset < 0 else min(start.offset, end))
