"""Merges the batches of a write into those of the state of a share-partition, as Kafka does (KIP-932)."""

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter

from broker.coordinator.share.share_state import UNINITIALIZED, StateBatch


def merged(current: tuple[StateBatch, ...], written: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merges batches, and drops what is before `start_offset`, unless that is UNINITIALIZED.

    Where batches overlap, the one with the higher delivery count wins, then the one with the higher delivery state.
    Adjacent batches with the same state and count become one. `current` is the result of an earlier call: in the order
    of offsets, without overlaps. `written` may be in any order; batches that end before they begin are ignored.

    Only the part of `current` that `written` touches is merged again. A state has up to some thousands of batches, and
    to merge all of them takes some ms, at every write.
    """
    kept, added = _from(current, start_offset), _valid(written, start_offset)
    if not added:
        return kept
    first = min(batch.first_offset for batch in added)
    last = max(batch.last_offset for batch in added)
    # Neighbours of the written offsets take part, since they may become one batch with them.
    begin = bisect_left(kept, first - 1, key=attrgetter("last_offset"))
    end = bisect_left(kept, last + 2, key=attrgetter("first_offset"))
    return (*kept[:begin], *_sweep([*kept[begin:end], *added]), *kept[end:])


def _from(batches: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """The part of ordered batches from `start_offset` on."""
    if start_offset == UNINITIALIZED or not batches or batches[0].first_offset >= start_offset:
        return batches
    begin = bisect_left(batches, start_offset, key=attrgetter("last_offset"))
    return (*(_cut(batch, start_offset) for batch in batches[begin : begin + 1]), *batches[begin + 1 :])


def _valid(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches of a write that have offsets from `start_offset` on."""
    return [
        _cut(batch, start_offset)
        for batch in batches
        if batch.first_offset <= batch.last_offset and batch.last_offset >= start_offset
    ]


def _cut(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)


def _sweep(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Merges batches of any order, from the lowest offset to the highest."""
    by_first = sorted(batches, key=attrgetter("first_offset"))
    result: list[StateBatch] = []
    if all(before.last_offset < after.first_offset for before, after in pairwise(by_first)):
        for batch in by_first:
            _extend(result, batch)
    else:
        _sweep_overlapping(by_first, result)
    return result


def _sweep_overlapping(by_first: list[StateBatch], result: list[StateBatch]) -> None:
    """Between two bounds, the same batches cover all offsets. `active` is a heap of the batches that have begun; those
    that have ended are removed when they come to its top.
    """
    bounds = sorted({bound for batch in by_first for bound in (batch.first_offset, batch.last_offset + 1)})
    active: list[tuple[int, int, int]] = []
    begun = 0
    for at, bound in enumerate(bounds[:-1]):
        while begun < len(by_first) and by_first[begun].first_offset == bound:
            batch = by_first[begun]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            begun += 1
        while active and active[0][2] < bound:
            heappop(active)
        if active:
            _extend(result, StateBatch(bound, bounds[at + 1] - 1, -active[0][1], -active[0][0]))


def _extend(result: list[StateBatch], batch: StateBatch) -> None:
    """Appends a batch, or extends the last one by it if they differ in their offsets only."""
    if result and result[-1].last_offset + 1 == batch.first_offset and result[-1][2:] == batch[2:]:
        batch = result.pop()._replace(last_offset=batch.last_offset)
    result.append(batch)
