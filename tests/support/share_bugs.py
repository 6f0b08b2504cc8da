"""Bugs to plant into share groups; see `planted_bugs`."""

from typing import Any

from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.share.share_state import StateBatch
from broker.share_partitions.in_flight import InFlightRange, RecordState
from broker.share_partitions.led_partition import LedSharePartition
from broker.share_partitions.share_partition import SharePartition
from tests.support.planted_bugs import Bug, PatchedFunction


def _lock_of_no_time(acquire: Any) -> Any:
    """The lock of a record ends when it begins."""

    def wrong(records: InFlightRange, member_id: str, locked_until_ms: float) -> None:
        acquire(records, member_id, 0)

    return wrong


def _first_delivery(load: Any) -> Any:
    """A new leader takes each record for one that was never delivered."""

    def wrong(partition: SharePartition, batch: StateBatch) -> None:
        load(partition, batch._replace(delivery_count=0))

    return wrong


def _archived(state_for: Any) -> Any:
    """A released record is given up, whatever its delivery count is."""

    def wrong(partition: SharePartition, records: InFlightRange, state: RecordState) -> RecordState:
        right: RecordState = state_for(partition, records, state)
        return RecordState.ARCHIVED if right is RecordState.AVAILABLE else right

    return wrong


def _from_the_end(store: Any) -> Any:
    """The start offset that is stored is the end of what was delivered."""

    def wrong(led: LedSharePartition, batches: tuple[StateBatch, ...]) -> Any:
        state = led.state
        if state is None:
            return store(led, batches)
        start, state.start_offset = state.start_offset, state.end_offset
        try:
            return store(led, ())
        finally:
            state.start_offset = start

    return wrong


def _rejected_only(state_for: Any) -> Any:
    """Records that were delivered too often are given up without a dead letter."""

    def wrong(partition: SharePartition, records: InFlightRange, state: RecordState) -> RecordState:
        right: RecordState = state_for(partition, records, state)
        is_released = state is RecordState.AVAILABLE and right is RecordState.ARCHIVING
        return RecordState.ARCHIVED if is_released else right

    return wrong


def _expiring(retention_begins_ms: Any) -> Any:
    """A share group without members expires, like a consumer group without offsets."""

    def wrong(group: ShareGroup, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    return wrong


SHARE_BUGS: dict[str, Bug] = {
    "acquired records are not locked": PatchedFunction(InFlightRange, "acquire", _lock_of_no_time),
    "records that were delivered too often are no dead letters": PatchedFunction(
        SharePartition, "_state_for", _rejected_only
    ),
    "groups without members expire": PatchedFunction(ShareGroup, "retention_begins_ms", _expiring),
    "delivery counts are lost with the leader": PatchedFunction(SharePartition, "_load", _first_delivery),
    "released records are skipped": PatchedFunction(SharePartition, "_state_for", _archived),
    "the start offset passes records in flight": PatchedFunction(LedSharePartition, "_store", _from_the_end),
}
