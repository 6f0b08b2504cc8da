"""Merges the batches of a write into those of the state of a share-partition, as Kafka does (KIP-932).

Where batches overlap, the one with the higher delivery count wins, then the one with the higher delivery state.
Adjacent batches with the same state and count become one. So each result is in order: of ascending offsets, without
overlaps, and without neighbours that could be one batch.
"""

from bisect import bisect_left
from collections.abc import Generator, Sequence
from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter, itemgetter, le, lt, sub
from typing import Final, TypeAlias

from broker.coordinator.share.share_state import UNINITIALIZED, StateBatch


class InOrder(tuple[StateBatch, ...]):
    """Batches of ascending offsets, without overlaps, and without neighbours that could be one batch.

    A write passes through several functions that need this order. To find it takes some ms for 10,000 batches.
    """

    __slots__ = ()


# Work that yields between steps, and returns its result.
Steps: TypeAlias = Generator[None, None, InOrder]

# The bounds of overlapping batches that are passed in one step: some 0.5 ms.
_STEP_BOUNDS: Final = 200


def merged(current: tuple[StateBatch, ...], written: Sequence[StateBatch], start_offset: int) -> InOrder:
    """Merges batches, and drops what is before `start_offset`, unless that is UNINITIALIZED.

    `current` is the result of an earlier call. `written` may be in any order; batches that end before they begin are
    ignored.

    Only the part of `current` that `written` touches is merged again. A state has up to some thousands of batches, and
    to merge all of them takes some ms, at every write.
    """
    kept, added = _from(current, start_offset), _from(ordered(written), start_offset)
    if not (kept and added):
        return InOrder(kept or added)
    # Neighbours of the written offsets take part, since they may become one batch with them.
    begin = bisect_left(kept, added[0].first_offset - 1, key=attrgetter("last_offset"))
    end = bisect_left(kept, added[-1].last_offset + 2, key=attrgetter("first_offset"))
    return InOrder((*kept[:begin], *_zipped(kept[begin:end], added), *kept[end:]))


def ordered(batches: Sequence[StateBatch]) -> InOrder:
    """Merges batches of any order with each other. Takes 5 ms for 10,000 batches, and ten times as long if all of them
    overlap others.
    """
    steps = ordering(batches)
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            result: InOrder = stopped.value
            return result


def ordering(batches: Sequence[StateBatch]) -> Steps:
    """The work of `ordered`, in steps. Batches that are in order already are returned at once."""
    if isinstance(batches, InOrder):
        return batches
    if _is_in_order(batches):
        return InOrder(batches)
    valid = sorted(batch for batch in batches if batch[0] <= batch[1])
    if _are_disjoint(valid):
        return InOrder(_joined(valid))
    result = yield from _sweep(valid)
    return result


def _is_in_order(batches: Sequence[StateBatch]) -> bool:
    """True if `ordered` would return the same batches. Takes 1 ms for 10,000 of them."""
    if len(batches) < 2:
        return all(batch[0] <= batch[1] for batch in batches)
    firsts, lasts, states, counts = zip(*batches, strict=True)
    if not (all(map(le, firsts, lasts)) and all(map(lt, lasts, firsts[1:]))):
        return False
    gaps = map(sub, firsts[1:], lasts)
    neighbours = zip(gaps, states, states[1:], counts, counts[1:], strict=False)
    return not any(gap == 1 and state == other and count == next_ for gap, state, other, count, next_ in neighbours)


def _are_disjoint(by_first: Sequence[StateBatch]) -> bool:
    return all(map(lt, map(itemgetter(1), by_first), map(itemgetter(0), islice(by_first, 1, None))))


def _from(batches: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """The part of batches in order from `start_offset` on."""
    if start_offset == UNINITIALIZED or not batches or batches[0].first_offset >= start_offset:
        return batches
    begin = bisect_left(batches, start_offset, key=attrgetter("last_offset"))
    return (*(_cut(batch, start_offset) for batch in batches[begin : begin + 1]), *batches[begin + 1 :])


def _cut(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)


def _sweep(by_first: list[StateBatch]) -> Steps:
    """Merges batches that overlap. Between two bounds, the same batches cover all offsets.

    `active` is a heap of the batches that have begun; those that have ended are removed when they come to its top.
    """
    bounds = sorted({bound for batch in by_first for bound in (batch.first_offset, batch.last_offset + 1)})
    active: list[tuple[int, int, int]] = []
    pieces: list[StateBatch] = []
    begun = 0
    for at, bound in enumerate(bounds[:-1]):
        while begun < len(by_first) and by_first[begun].first_offset == bound:
            batch = by_first[begun]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            begun += 1
        while active and active[0][2] < bound:
            heappop(active)
        if active:
            pieces.append(StateBatch(bound, bounds[at + 1] - 1, -active[0][1], -active[0][0]))
        if not at % _STEP_BOUNDS:
            yield
    return InOrder(_joined(pieces))


def _zipped(ours: Sequence[StateBatch], others: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    """Merges two sequences that are in order."""
    if not ours or not others:
        return tuple(ours or others)
    both = sorted([*ours, *others])
    return _joined(both if _are_disjoint(both) else _pieces(both))


def _pieces(by_first: Sequence[StateBatch]) -> list[StateBatch]:
    """Splits the batches of two sequences where they overlap, and keeps the winner of each part.

    At most two batches overlap anywhere. So each is compared with the `rest` of those before it.
    """
    pieces: list[StateBatch] = []
    rest = by_first[0]
    for batch in islice(by_first, 1, None):
        first, last, state, count = rest
        other_first, other_last, other_state, other_count = batch
        if last < other_first:
            pieces.append(rest)
            rest = batch
        elif (count, state) >= (other_count, other_state):
            if last < other_last:
                pieces.append(rest)
                rest = StateBatch(last + 1, other_last, other_state, other_count)
        else:
            if first < other_first:
                pieces.append(StateBatch(first, other_first - 1, state, count))
            if other_last < last:
                pieces.append(batch)
                rest = StateBatch(other_last + 1, last, state, count)
            else:
                rest = batch
    pieces.append(rest)
    return pieces


def _joined(batches: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    """Joins neighbours that differ in their offsets only."""
    joined: list[StateBatch] = []
    first = end = state = count = -1
    for batch in batches:
        if batch[0] == end and batch[2] == state and batch[3] == count:
            batch = joined[-1] = StateBatch(first, batch[1], state, count)
        else:
            joined.append(batch)
        first, end, state, count = batch
        end += 1
    return tuple(joined)
