"""Valid requests to the share coordinator, which tests mutate."""

from typing import Any

from broker.coordinator.share.requests import Write
from broker.coordinator.share.share_state import ACKNOWLEDGED, SharePartitionKey, StateBatch
from broker.coordinator.share.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    WriteState,
    as_message,
)

KEY = SharePartitionKey("hostile-share-group", b"\x7f" * 16, 0)


def share_messages() -> list[tuple[Any, tuple[int, ...]]]:
    """Requests with the versions to send each in."""
    written = Write(0, 0, 1, 1, (StateBatch(1, 1, ACKNOWLEDGED, 1), StateBatch(2, 3, 0, 1)))
    return [
        (as_message([InitializeState(KEY, 0, 0)]), (0,)),
        (as_message([ReadState(KEY, 0)]), (0,)),
        (as_message([WriteState(KEY, written)]), (0, 1)),
        (as_message([DeleteState(KEY)]), (0,)),
        (as_message([ReadSummary(KEY, 0)]), (0, 1)),
    ]
