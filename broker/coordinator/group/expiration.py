"""Which offsets, and which groups, are not kept any longer (KIP-211)."""

from typing import Final, Protocol

from broker.coordinator.decision import CoordinatorRecord, Decision
from broker.coordinator.group.group import Group
from broker.coordinator.group.group_config import GroupConfig
from broker.coordinator.group.offsets import CommittedPartition, OffsetAndMetadata, Offsets, offset_tombstone
from broker.coordinator.shard import ShardContext

# Keys of the timers.
EXPIRATION: Final = "expire-offsets"
DELETED_TOPICS: Final = "forget-deleted-topics"


class Aging(Protocol):
    """What of a shard's state is looked at here; `deleted_topics` are to be forgotten, up to which record each."""

    context: ShardContext
    config: GroupConfig
    groups: dict[str, Group]
    offsets: Offsets
    deleted_topics: dict[str, int]


def expire(state: Aging, now_ms: int) -> Decision[None]:
    """Remove offsets whose time is over, and groups without members that have none left; and look again later."""
    records: list[CoordinatorRecord] = []
    for group_id in dict.fromkeys([*state.groups, *state.offsets.group_ids()]):
        places = state.offsets.places(group_id)
        expired = [place for place in places if _is_expired(state, place, now_ms)]
        records += map(offset_tombstone, expired)
        group = state.groups.get(group_id)
        if group is not None and group.is_empty and len(expired) == len(places):
            records += group.tombstones()
    return Decision(records, None, apply=lambda: schedule_expiration(state), atomic=False)


def schedule_expiration(state: Aging) -> None:
    """Have `expire` called after the configured interval."""
    state.context.timers.schedule(EXPIRATION, state.config.offsets_retention_check_interval_ms, expire)


def _is_expired(state: Aging, place: CommittedPartition, now_ms: int) -> bool:
    committed = state.offsets.get(*place)
    if committed is None or state.offsets.is_pending(*place):
        return False
    group = state.groups.get(place.group_id)
    begins_ms: int | None = committed.commit_timestamp_ms
    if group is not None:
        if group.is_subscribed_to(place.topic):
            return False
        begins_ms = group.retention_begins_ms(committed.commit_timestamp_ms)
    return begins_ms is not None and _is_over(committed, begins_ms, state.config.offsets_retention_ms, now_ms)


def _is_over(committed: OffsetAndMetadata, begins_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - begins_ms >= retention_ms


def forget_deleted_topics(state: Aging, now_ms: int) -> Decision[None]:
    """Remove what was committed for topics before they were deleted."""
    topics = dict(state.deleted_topics)
    places = dict.fromkeys(place for topic, until in topics.items() for place in state.offsets.of_topic(topic, until))
    return Decision([offset_tombstone(place) for place in places], None, apply=state.deleted_topics.clear, atomic=False)
