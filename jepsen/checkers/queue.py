"""The promises about records, by the way in which they are produced."""

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

# For all producers, with any acks.
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
# For idempotent producers with acks=all, which may give a record up and still write later ones.
IDEMPOTENT_CHECKERS: Final[tuple[Checker, ...]] = (
    AcknowledgedRecordsStay(),
    AcknowledgedRecordsAreRead(),
    OffsetsNeverChange(),
    NothingTwice(),
    SendsAreInOrder(),
    AcknowledgedOffsetsGrow(),
    *_ALWAYS,
)
# For the producers of `workloads.producer`, which repeat a batch until it is acknowledged before they send later ones.
QUEUE_CHECKERS: Final[tuple[Checker, ...]] = (*IDEMPOTENT_CHECKERS, LossesAreOfTheEnd(), SessionsAreInOrder())
# acks=1, without idempotence: what a leader has acknowledged may be lost, and what is sent again be there twice. For
# how much is lost see `losses.count_losses`.
ACKS_ONE_CHECKERS: Final[tuple[Checker, ...]] = (OffsetsReadNeverChange(), *_ALWAYS)
