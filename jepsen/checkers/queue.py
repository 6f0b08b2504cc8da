"""What is promised about records, by how they are produced."""

from typing import Final

from jepsen.checkers.checker import Checker
from jepsen.checkers.losses import AcknowledgedRecordsAreRead, AcknowledgedRecordsStay, LossesAreOfTheEnd
from jepsen.checkers.order import AcknowledgedOffsetsGrow, NothingTwice, SendsAreInOrder, SessionsAreInOrder
from jepsen.checkers.reads import (
    LogsHaveNoGaps,
    NothingFromNowhere,
    NothingIsCorrupt,
    NothingRefusedIsRead,
    OffsetsNeverChange,
    OffsetsReadNeverChange,
    PollsGoForward,
    PollsSkipNothing,
)
from jepsen.checkers.recovery import RecoveryIsBounded
from jepsen.checkers.replicas import ReplicasAreIdentical

# Whoever produces, and with whatever acks.
_ALWAYS: Final[tuple[Checker, ...]] = (
    NothingFromNowhere(),
    NothingRefusedIsRead(),
    NothingIsCorrupt(),
    PollsSkipNothing(),
    PollsGoForward(),
    LogsHaveNoGaps(),
    ReplicasAreIdentical(),
    RecoveryIsBounded(),
)
# Idempotent producers with acks=all, which may give a record up: what they sent behind it is written nevertheless.
IDEMPOTENT_CHECKERS: Final[tuple[Checker, ...]] = (
    AcknowledgedRecordsStay(),
    AcknowledgedRecordsAreRead(),
    OffsetsNeverChange(),
    NothingTwice(),
    SendsAreInOrder(),
    AcknowledgedOffsetsGrow(),
    *_ALWAYS,
)
# Those of `workloads.producer`: they send a batch until it is acknowledged, and nothing behind it otherwise.
QUEUE_CHECKERS: Final[tuple[Checker, ...]] = (*IDEMPOTENT_CHECKERS, LossesAreOfTheEnd(), SessionsAreInOrder())
# acks=1, without idempotence: what a leader has acknowledged may be lost, and what is sent again be there twice. For
# how much is lost see `losses.count_losses`.
ACKS_ONE_CHECKERS: Final[tuple[Checker, ...]] = (OffsetsReadNeverChange(), *_ALWAYS)
