"""The consequence of each error code in a Produce response for the batch. Pure."""

from enum import Enum, auto
from typing import Final

from broker.client.errors import is_retriable
from broker.wire.errors import ErrorCode

_UNKNOWN_OFFSET: Final = -1
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class ProduceOutcome(Enum):
    """The next step with a batch."""

    APPENDED = auto()
    RETRY = auto()
    SPLIT = auto()
    # The leader does not have the batch before it.
    SEQUENCE_REJECTED = auto()
    FAILED = auto()


def produce_outcome(code: int, record_count: int, log_start_offset: int, *, is_idempotent: bool) -> ProduceOutcome:
    """The verdict for a batch of `record_count` records.

    DUPLICATE_SEQUENCE_NUMBER is a success whose offset the leader no longer knows. UNKNOWN_PRODUCER_ID without a log
    start offset comes from a broker that is no longer the leader, so the batch is simply sent again (KIP-360).
    """
    if code in _APPENDED:
        return ProduceOutcome.APPENDED
    if code == ErrorCode.MESSAGE_TOO_LARGE and record_count > 1:
        return ProduceOutcome.SPLIT
    if is_idempotent and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return ProduceOutcome.SEQUENCE_REJECTED
    if is_idempotent and code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return ProduceOutcome.RETRY if log_start_offset == _UNKNOWN_OFFSET else ProduceOutcome.SEQUENCE_REJECTED
    return ProduceOutcome.RETRY if is_retriable(code) else ProduceOutcome.FAILED
