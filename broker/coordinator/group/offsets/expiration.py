"""Expires offsets that are not used any longer, and groups that have neither members nor offsets (KIP-211)."""

from functools import partial
from itertools import chain, islice
from typing import Final

from broker.coordinator.group.offsets.committed_offsets import (
    CommittedPartition,
    OffsetAndMetadata,
    OffsetsShard,
    offset_tombstone,
)
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision

# Keys of the timers.
EXPIRATION: Final = "expire-offsets"
DELETED_TOPICS: Final = "forget-deleted-topics"
# How many offsets are checked or removed in one turn, which takes a few milliseconds.
_OFFSETS_PER_TURN: Final = 2_000


def expire(state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Removes expired offsets, and groups without members that have no offsets left; then schedules the next check."""
    return _expire(dict.fromkeys([*state.groups, *state.offsets.group_ids()]), state, now_ms)


def _expire(left: dict[str, None], state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Checks some of the groups in `left`. `apply` takes them out of it, and checks the others in later turns."""
    records: list[CoordinatorRecord] = []
    done: list[str] = []
    looked_at = 0
    for group_id in left:
        places, count = _expired(state, group_id, now_ms)
        records += map(offset_tombstone, places)
        group = state.groups.get(group_id)
        is_bare = len(places) == count and not state.offsets.has_open_transactions(group_id)
        # A share group keeps its position in its topics without committed offsets: as in Kafka, it never expires.
        if group is not None and group.is_empty and is_bare and group.retention_begins_ms(now_ms) is not None:
            records += group.tombstones()
        done.append(group_id)
        looked_at += 1 + count
        if looked_at >= _OFFSETS_PER_TURN:
            break

    def schedule_next() -> None:
        for group_id in done:
            del left[group_id]
        if left:
            state.context.timers.schedule(EXPIRATION, 0, partial(_expire, left))
        else:
            schedule_expiration(state)

    return Decision(records, None, apply=schedule_next, atomic=False)


def schedule_expiration(state: OffsetsShard) -> None:
    """Calls `expire` after the configured interval."""
    state.context.timers.schedule(EXPIRATION, state.config.offsets_retention_check_interval_ms, expire)


def _expired(state: OffsetsShard, group_id: str, now_ms: int) -> tuple[list[CommittedPartition], int]:
    """The group's expired offsets, and the number of all its offsets."""
    group, expired, count = state.groups.get(group_id), [], 0
    for topic, offsets in state.offsets.of_group(group_id).items():
        count += len(offsets)
        if group is not None and group.is_subscribed_to(topic):
            continue
        for partition, committed in offsets.items():
            begins_ms: int | None = committed.commit_timestamp_ms
            if group is not None:
                begins_ms = group.retention_begins_ms(committed.commit_timestamp_ms)
            if begins_ms is None or not _is_expired(committed, begins_ms, state.config.offsets_retention_ms, now_ms):
                continue
            if not state.offsets.is_pending(group_id, topic, partition):
                expired.append(CommittedPartition(group_id, topic, partition))
    return expired, count


def _is_expired(committed: OffsetAndMetadata, begins_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - begins_ms >= retention_ms


def remove_offsets_of_deleted_topics(state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Removes offsets that were committed for topics before these were deleted; many of them in several turns."""
    topics = dict(state.deleted_topics)
    places = chain.from_iterable(state.offsets.of_topic(topic, until) for topic, until in topics.items())
    some = list(islice(places, _OFFSETS_PER_TURN))

    def schedule_next() -> None:
        if len(some) == _OFFSETS_PER_TURN:
            state.context.timers.schedule(DELETED_TOPICS, 0, remove_offsets_of_deleted_topics)
        else:
            state.deleted_topics.clear()

    return Decision([offset_tombstone(place) for place in dict.fromkeys(some)], None, apply=schedule_next, atomic=False)
