"""The requests to a shard of the share coordinator, as it decides them (KIP-932).

Two epochs fence requests. The group coordinator raises the state epoch when it initializes a share-partition again, so
that late writes to the earlier state are refused. The leader epoch is that of the share-partition's leader: once a
leader has read the state, writes of earlier leaders are refused.
"""

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

import attrs

from broker.coordinator.runtime.decision import Decision
from broker.coordinator.share.batch_merging import InOrder, merged, ordering
from broker.coordinator.share.record_formats import ShareSnapshot, ShareUpdate, tombstone
from broker.coordinator.share.shard import ShareCoordinatorShard, next_snapshot_epoch
from broker.coordinator.share.share_state import (
    UNINITIALIZED,
    PartitionState,
    PartitionSummary,
    SharePartitionKey,
    StateBatch,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

T = TypeVar("T")

_UNKNOWN_COUNT: Final = -1
# The highest value of `group.share.partition.max.record.locks`: no more records are under way. To write so many takes
# 6 ms if they are in order.
_BATCHES_MAX: Final = 10_000


@lazy_attrs.frozen
class Write:
    """A write to a share-partition. `start_offset` is UNINITIALIZED if it stays as it is."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def initialize(
    state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey, state_epoch: int, start_offset: int
) -> Decision[None]:
    """Replaces the state of a share-partition by an empty one, from `start_offset` on. Raises KafkaError."""
    _check_not_negative(key, state_epoch=state_epoch)
    if start_offset < UNINITIALIZED:
        raise _invalid(f"the start offset {start_offset} is negative")
    _check_state_epoch(state, key, state_epoch)
    _check_exists(state, key)
    current = state.state_of(key)
    created = ShareSnapshot(
        snapshot_epoch=0 if current is None else next_snapshot_epoch(current),
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start_offset,
        delivery_complete_count=_UNKNOWN_COUNT if start_offset == UNINITIALIZED else 0,
        batches=(),
        created_ms=now_ms,
        written_ms=now_ms,
    )
    return Decision([created.record(key)], None)


def prepared(written: Write) -> Generator[None, None, Write]:
    """Merges the batches of a write with each other, in steps, before it is decided on.

    Leaders send batches that do not overlap. Any others, of which 10,000 would hold the event loop for 30 ms, come from
    outside. Batches that `write` refuses stay as they are.
    """
    if _mistake(written.batches) is not None:
        return written
    batches = yield from ordering(written.batches)
    return attrs.evolve(written, batches=batches)


def write(state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey, written: Write) -> Decision[None]:
    """Merges a write into the state of a share-partition. Raises KafkaError.

    A start offset never moves back. Offsets whose delivery is complete are counted from the start offset on: the count
    of a write with an earlier start offset is dropped, and the higher one of two with the same start offset is kept.
    """
    _check_not_negative(key, leader_epoch=written.leader_epoch, state_epoch=written.state_epoch)
    current = _initialized(state, key)
    _check_leader_epoch(state, key, written.leader_epoch)
    _check_state_epoch(state, key, written.state_epoch)
    _check_exists(state, key)
    mistake = _mistake(written.batches)
    if mistake is not None:
        raise _invalid(mistake)
    count = written.delivery_complete_count
    if written.start_offset == current.start_offset:
        count = max(count, current.delivery_complete_count)
    elif written.start_offset < current.start_offset:
        count = current.delivery_complete_count
    update = ShareUpdate(
        current.snapshot_epoch,
        current.leader_epoch,
        max(written.start_offset, current.start_offset),
        count,
        written.batches,
    )
    return _append(state, now_ms, key, update, None)


def read(
    state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey, leader_epoch: int
) -> Decision[PartitionState]:
    """Reads the state for a leader of this epoch. A new epoch is recorded, to fence the leaders before it.

    Raises KafkaError.
    """
    _check_not_negative(key, leader_epoch=leader_epoch)
    current = _initialized(state, key)
    _check_leader_epoch(state, key, leader_epoch)
    _check_exists(state, key)
    response = PartitionState(current.state_epoch, current.start_offset, current.batches)
    if state.leader_epochs[key] == leader_epoch:
        return Decision((), response)
    update = ShareUpdate(
        current.snapshot_epoch, leader_epoch, current.start_offset, current.delivery_complete_count, ()
    )
    return _append(state, now_ms, key, update, response)


def delete(state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey) -> Decision[None]:
    """Deletes the state of a share-partition, if there is one. Raises KafkaError."""
    _check_not_negative(key)
    _check_exists(state, key)
    return Decision([tombstone(key)] if key in state.states else [], None)


def read_summary(state: ShareCoordinatorShard, now_ms: int, *, key: SharePartitionKey) -> PartitionSummary:
    """Reads the epochs and the start offset of a share-partition. Raises KafkaError."""
    _check_not_negative(key)
    _check_exists(state, key)
    current = state.state_of(key)
    if current is None:
        return PartitionSummary(0, 0, UNINITIALIZED, _UNKNOWN_COUNT)
    return PartitionSummary(
        current.state_epoch, current.leader_epoch, current.start_offset, current.delivery_complete_count
    )


def _append(
    state: ShareCoordinatorShard, now_ms: int, key: SharePartitionKey, update: ShareUpdate, response: T
) -> Decision[T]:
    """Records an update, or a snapshot if there were enough updates since the last one."""
    current = _initialized(state, key)
    if state.update_counts.get(key, 0) < state.config.share_coordinator_snapshot_update_records_per_snapshot:
        update = attrs.evolve(update, batches=merged((), update.batches, update.start_offset))
        return Decision([update.record(key)], response)
    snapshot = ShareSnapshot(
        next_snapshot_epoch(current),
        current.state_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        merged(current.batches, update.batches, update.start_offset),
        created_ms=now_ms,
        written_ms=now_ms,
    )
    return Decision([snapshot.record(key)], response)


# Checks, which raise KafkaError


def _check_not_negative(key: SharePartitionKey, **epochs: int) -> None:
    if key.partition < 0:
        raise _invalid(f"the partition {key.partition} is negative")
    for name, epoch in epochs.items():
        if epoch < 0:
            raise _invalid(f"the {name.replace('_', ' ')} {epoch} is negative")


def _initialized(state: ShareCoordinatorShard, key: SharePartitionKey) -> ShareSnapshot:
    current = state.state_of(key)
    if current is None:
        raise _invalid("the share-partition is not initialized")
    return current


def _check_leader_epoch(state: ShareCoordinatorShard, key: SharePartitionKey, leader_epoch: int) -> None:
    latest = state.leader_epochs.get(key)
    if latest is not None and latest > leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, f"The leader epoch {leader_epoch} is over; the latest one is {latest}."
        )


def _check_state_epoch(state: ShareCoordinatorShard, key: SharePartitionKey, state_epoch: int) -> None:
    latest = state.state_epochs.get(key)
    if latest is not None and latest > state_epoch:
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH, f"The state epoch {state_epoch} is over; the latest one is {latest}."
        )


def _check_exists(state: ShareCoordinatorShard, key: SharePartitionKey) -> None:
    if state.context.image.topics.partition(key.topic_id, key.partition) is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The share coordinator does not know this topic or partition."
        )


def _mistake(batches: Sequence[StateBatch]) -> str | None:
    """The reason why the batches of a write are refused; None if they are valid."""
    if len(batches) > _BATCHES_MAX:
        return f"{len(batches)} batches"
    # The first of batches in order has the smallest offset, and no batch in order ends before it begins.
    checked = batches[:1] if isinstance(batches, InOrder) else batches
    wrong = next((batch for batch in checked if not 0 <= batch[0] <= batch[1]), None)
    return None if wrong is None else f"a batch of the offsets {wrong.first_offset} to {wrong.last_offset}"


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"The request is invalid: {reason}.")
