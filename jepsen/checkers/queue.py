"""The sets of promises about records, by the kind of producer."""

from typing import Final

from jepsen.checkers.checker import Checker
from jepsen.checkers.losses import AcknowledgedRecordsAreRead, AcknowledgedRecordsStay, OnlySuffixesAreLost
from jepsen.checkers.nodes import RecoveryIsBounded
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
from jepsen.checkers.replicas import ReplicasAreIdentical

# For every producer, with any acks.
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
# For idempotent producers with acks=all, which may give up a record and still write later ones.
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
QUEUE_CHECKERS: Final[tuple[Checker, ...]] = (*IDEMPOTENT_CHECKERS, OnlySuffixesAreLost(), SessionsAreInOrder())
# For acks=1 without idempotence: acknowledged records may be lost, and retried ones duplicated. The number of lost
# records is reported by `losses.count_losses`.
ACKS_ONE_CHECKERS: Final[tuple[Checker, ...]] = (OffsetsReadNeverChange(), *_ALWAYS)
