"""Which offsets, and which groups, are not kept any longer (KIP-211)."""

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
# Offsets that are looked at, or removed, before others have their turn: a few milliseconds' worth.
_AT_A_TIME: Final = 2_000


def expire(state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Remove offsets whose time is over, and groups without members that have none left; and look again later."""
    return _expire(dict.fromkeys([*state.groups, *state.offsets.group_ids()]), state, now_ms)


def _expire(left: dict[str, None], state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Look after some of these groups, whose ids are taken out when it is done, and after the others in other turns."""
    records: list[CoordinatorRecord] = []
    done: list[str] = []
    looked_at = 0
    for group_id in left:
        places, count = _expired(state, group_id, now_ms)
        records += map(offset_tombstone, places)
        group = state.groups.get(group_id)
        is_bare = len(places) == count and not state.offsets.has_open_transactions(group_id)
        if group is not None and group.is_empty and is_bare:
            records += group.tombstones()
        done.append(group_id)
        looked_at += 1 + count
        if looked_at >= _AT_A_TIME:
            break

    def go_on() -> None:
        for group_id in done:
            del left[group_id]
        if left:
            state.context.timers.schedule(EXPIRATION, 0, partial(_expire, left))
        else:
            schedule_expiration(state)

    return Decision(records, None, apply=go_on, atomic=False)


def schedule_expiration(state: OffsetsShard) -> None:
    """Have `expire` called after the configured interval."""
    state.context.timers.schedule(EXPIRATION, state.config.offsets_retention_check_interval_ms, expire)


def _expired(state: OffsetsShard, group_id: str, now_ms: int) -> tuple[list[CommittedPartition], int]:
    """Whose time is over, and how many offsets the group has."""
    group, expired, count = state.groups.get(group_id), [], 0
    for topic, offsets in state.offsets.of_group(group_id).items():
        count += len(offsets)
        if group is not None and group.is_subscribed_to(topic):
            continue
        for partition, committed in offsets.items():
            begins_ms: int | None = committed.commit_timestamp_ms
            if group is not None:
                begins_ms = group.retention_begins_ms(committed.commit_timestamp_ms)
            if begins_ms is None or not _is_over(committed, begins_ms, state.config.offsets_retention_ms, now_ms):
                continue
            if not state.offsets.is_pending(group_id, topic, partition):
                expired.append(CommittedPartition(group_id, topic, partition))
    return expired, count


def _is_over(committed: OffsetAndMetadata, begins_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - begins_ms >= retention_ms


def forget_deleted_topics(state: OffsetsShard, now_ms: int) -> Decision[None]:
    """Remove what was committed for topics before they were deleted; where that is much, in several turns."""
    topics = dict(state.deleted_topics)
    places = chain.from_iterable(state.offsets.of_topic(topic, until) for topic, until in topics.items())
    some = list(islice(places, _AT_A_TIME))

    def go_on() -> None:
        if len(some) == _AT_A_TIME:
            state.context.timers.schedule(DELETED_TOPICS, 0, forget_deleted_topics)
        else:
            state.deleted_topics.clear()

    return Decision([offset_tombstone(place) for place in dict.fromkeys(some)], None, apply=go_on, atomic=False)
