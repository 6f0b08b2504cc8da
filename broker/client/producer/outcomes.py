"""The consequence of each error code in a Produce response for the batch. Pure."""

from enum import Enum, auto
from typing import Final

from broker.client.errors import is_retriable
from broker.wire.errors import ErrorCode

_UNKNOWN_OFFSET: Final = -1
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Verdict(Enum):
    """The next step with a batch."""

    APPENDED = auto()
    RETRY = auto()
    SPLIT = auto()
    # The leader does not have the batch before it.
    SEQUENCE_REJECTED = auto()
    FAILED = auto()


def verdict_of(code: int, record_count: int, log_start_offset: int, *, is_idempotent: bool) -> Verdict:
    """The verdict for a batch of `record_count` records.

    DUPLICATE_SEQUENCE_NUMBER is a success whose offset the leader no longer knows. UNKNOWN_PRODUCER_ID without a log
    start offset comes from a broker that is no longer the leader, so the batch is simply sent again (KIP-360).
    """
    if code in _APPENDED:
        return Verdict.APPENDED
    if code == ErrorCode.MESSAGE_TOO_LARGE and record_count > 1:
        return Verdict.SPLIT
    if is_idempotent and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return Verdict.SEQUENCE_REJECTED
    if is_idempotent and code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return Verdict.RETRY if log_start_offset == _UNKNOWN_OFFSET else Verdict.SEQUENCE_REJECTED
    return Verdict.RETRY if is_retriable(code) else Verdict.FAILED
