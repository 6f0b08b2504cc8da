"""Applies recorded updates to the state of a share-partition."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Final

import attrs

from broker.coordinator.share.batch_merging import merged
from broker.coordinator.share.record_formats import ShareSnapshot, ShareUpdate
from broker.coordinator.share.share_state import UNINITIALIZED

_UNCHANGED: Final = -1


def with_updates(state: ShareSnapshot | None, updates: Sequence[ShareUpdate]) -> ShareSnapshot:
    """The state after updates, of which there is at least one, in the order of the log.

    Without a state, which no coordinator leaves, the first update is the whole state. All batches are merged at once if
    no start offset moves back, as it may in the log of a coordinator before Kafka 4.4: the order does not matter then.
    """
    if state is None:
        state, updates = _of_update(updates[0]), updates[1:]
        if not updates:
            return state
    starts = [each.start_offset for each in updates if each.start_offset != UNINITIALIZED]
    if all(earlier <= later for earlier, later in pairwise([state.start_offset, *starts])):
        return _with(state, updates)
    for each in updates:
        state = _with(state, [each])
    return state


def _with(state: ShareSnapshot, updates: Sequence[ShareUpdate]) -> ShareSnapshot:
    """Applies updates whose start offsets do not move back, or a single one."""
    last = updates[-1]
    start_offset = next((each.start_offset for each in reversed(updates) if each.start_offset != UNINITIALIZED), None)
    if start_offset is None:
        start_offset = state.start_offset
    leader_epoch = next((each.leader_epoch for each in reversed(updates) if each.leader_epoch != _UNCHANGED), None)
    batches = updates[0].batches if len(updates) == 1 else [*chain.from_iterable(each.batches for each in updates)]
    return attrs.evolve(
        state,
        leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=last.delivery_complete_count,
        batches=merged(state.batches, batches, start_offset),
    )


def _of_update(update: ShareUpdate) -> ShareSnapshot:
    return ShareSnapshot(
        update.snapshot_epoch,
        0,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        merged((), update.batches, update.start_offset),
        created_ms=0,
        written_ms=0,
    )
