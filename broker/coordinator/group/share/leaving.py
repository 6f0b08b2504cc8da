"""Members leave a share group, or are removed when their session is over."""

from typing import TypeVar

from broker.coordinator.group.config import ShareGroupConfig
from broker.coordinator.group.share.records import assignment_epoch_record, epoch_record, member_tombstones
from broker.coordinator.group.share.shard import ShareGroupShard, session_key, share_group
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.group.topics_hash import topics_hash
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import OnTimer

T = TypeVar("T")

_NO_ASSIGNMENT_MS = 0


def leave(state: ShareGroupShard, group_id: str, member_id: str, response: T) -> Decision[T]:
    """Decides about a member that leaves. Raises KafkaError if there is no such group or member."""
    group = share_group(state, group_id)
    group.member(member_id)
    return _remove(state, group, member_id, response)


def _remove(state: ShareGroupShard, group: ShareGroup, member_id: str, response: T) -> Decision[T]:
    """Removes a member. The next heartbeat of another member computes a new target assignment."""
    group_id, epoch = group.group_id, group.epoch + 1
    image = state.context.image
    records = member_tombstones(group_id, member_id)
    records.append(epoch_record(group_id, epoch, topics_hash(group.topics_without(member_id, image), image)))
    if len(group.members) == 1:
        # Without members there is nothing to assign. So the next member need not wait for the assignment interval.
        records.append(assignment_epoch_record(group_id, epoch, _NO_ASSIGNMENT_MS))
    return Decision(records, response, lambda: state.context.timers.cancel(session_key(group_id, member_id)))


def start_session(state: ShareGroupShard, group_id: str, member_id: str, config: ShareGroupConfig) -> None:
    """Starts the member's session again, after a request that shows the member is alive."""
    key = session_key(group_id, member_id)
    state.context.timers.schedule(key, config.session_timeout_ms, _removal_timer(group_id, member_id))


def _removal_timer(group_id: str, member_id: str) -> OnTimer:
    def decide(state: ShareGroupShard, now_ms: int) -> Decision[None]:
        group = state.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return Decision((), None)
        return _remove(state, group, member_id, None)

    return decide
