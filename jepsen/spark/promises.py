"""Names the sets of promises that a history is checked for, and the projection of each checker."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from jepsen.checkers import QUEUE_CHECKERS, REGISTER_CHECKERS, TOPIC_CHECKERS, Checker
from jepsen.checkers.applications import (
    AcknowledgedRecordsAreStored,
    CommitsNeverGoBack,
    EachNameOnce,
    ExactlyOnce,
    KeysAreInOrder,
    MembersResumeAfterCommits,
    NothingAbortedIsReceived,
    NothingIsUnrecorded,
    OutputIsDecided,
    PartitionsAreReadToTheEnd,
    ProcessingEnds,
    ReadersNeverGoBack,
    ReceivedRecordsAreProcessed,
    RecordsAreProcessedOnce,
    RecordsAreReached,
    RecordsReachGroups,
    SendsAreWrittenOnce,
)
from jepsen.checkers.bank import BalancesAddUp
from jepsen.checkers.cycles import NoCyclesOfTransactions
from jepsen.checkers.forwarded_topics import ForwardedChangesAreLinearizable
from jepsen.checkers.groups import (
    CommittedOffsetsNeverRegress,
    EverythingIsPolled,
    NoNonmonotonicPolls,
    NoPollSkips,
    OldGenerationsCommitNothing,
    OneOwnerPerGeneration,
    OnlyOwnersPoll,
    ReplacedMembersCommitNothing,
    ResumesWhereCommitted,
)
from jepsen.checkers.losses import AcknowledgedRecordsAreRead, AcknowledgedRecordsStay, OnlySuffixesAreLost
from jepsen.checkers.nodes import NodesRunUntilStopped, RecoveryIsBounded
from jepsen.checkers.offsets import EndsNeverGoBack, EpochsGrowWithOffsets, TimesFindTheFirst
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
from jepsen.checkers.registers import RegistersAreLinearizable
from jepsen.checkers.replicas import ReplicasAreIdentical
from jepsen.checkers.topics import (
    AcknowledgedTopicsStay,
    DeletedTopicsStayAway,
    MetadataIsLinearizable,
    SeenTopicsAreReal,
)
from jepsen.checkers.transaction_polls import (
    AbortedPollsAreRepeated,
    NoExternalNonmonotonicPolls,
    NoExternalPollSkips,
    NoInternalNonmonotonicPolls,
    NoInternalPollSkips,
    RecordsAreConsumedOnce,
)
from jepsen.checkers.transactions import (
    CommittedTransactionsAreRead,
    ConsumersGoForward,
    NothingAbortedIsRead,
    NothingPrecommittedIsRead,
    OffsetsAreAtomicWithOutput,
    StableOffsetsAreCommitted,
    TransactionsAreAtomic,
)
from jepsen.processes.run.workloads import WORKLOADS
from jepsen.spark.projections import Projection

# Judged by the run itself alone: the checkers of share groups have no projections.
_LOCAL: Final = ("shares",)
# The promises of the workloads of `python -m jepsen run`, and of the simulator's.
PROMISES: Final[Mapping[str, tuple[Checker, ...]]] = MappingProxyType(
    {
        **{name: workload.checkers for name, workload in WORKLOADS.items() if name not in _LOCAL},
        "simulated-queue": QUEUE_CHECKERS,
        "simulated-topics": TOPIC_CHECKERS,
        "registers": REGISTER_CHECKERS,
    }
)
_PROJECTIONS: Final[Mapping[type[Checker], Projection]] = MappingProxyType(
    {
        AbortedPollsAreRepeated: Projection.PARTITION,
        AcknowledgedOffsetsGrow: Projection.PARTITION,
        **dict.fromkeys(
            (
                AcknowledgedRecordsAreStored,
                CommitsNeverGoBack,
                KeysAreInOrder,
                MembersResumeAfterCommits,
                PartitionsAreReadToTheEnd,
                ProcessingEnds,
                ReadersNeverGoBack,
                ReceivedRecordsAreProcessed,
                RecordsAreProcessedOnce,
                RecordsAreReached,
                RecordsReachGroups,
            ),
            Projection.PARTITION,
        ),
        **dict.fromkeys((EachNameOnce, NothingAbortedIsReceived, SendsAreWrittenOnce), Projection.VALUE),
        **dict.fromkeys((ExactlyOnce, OutputIsDecided), Projection.COPY),
        NothingIsUnrecorded: Projection.WHOLE,
        AcknowledgedRecordsAreRead: Projection.PARTITION,
        AcknowledgedRecordsStay: Projection.PARTITION,
        CommittedOffsetsNeverRegress: Projection.PARTITION,
        ConsumersGoForward: Projection.PARTITION,
        EndsNeverGoBack: Projection.PARTITION,
        EpochsGrowWithOffsets: Projection.PARTITION,
        EverythingIsPolled: Projection.PARTITION,
        LogsHaveNoGaps: Projection.PARTITION,
        OnlySuffixesAreLost: Projection.PARTITION,
        NoExternalNonmonotonicPolls: Projection.PARTITION,
        NoExternalPollSkips: Projection.PARTITION,
        NoInternalNonmonotonicPolls: Projection.PARTITION,
        NoInternalPollSkips: Projection.PARTITION,
        NoNonmonotonicPolls: Projection.PARTITION,
        NoPollSkips: Projection.PARTITION,
        NothingIsCorrupt: Projection.PARTITION,
        OffsetsNeverChange: Projection.PARTITION,
        OffsetsReadNeverChange: Projection.PARTITION,
        OldGenerationsCommitNothing: Projection.PARTITION,
        OneOwnerPerGeneration: Projection.PARTITION,
        OnlyOwnersPoll: Projection.PARTITION,
        PollsGoForward: Projection.PARTITION,
        PollsSkipNothing: Projection.PARTITION,
        ReplicasAreIdentical: Projection.PARTITION,
        ResumesWhereCommitted: Projection.PARTITION,
        SendsAreInOrder: Projection.PARTITION,
        SessionsAreInOrder: Projection.PARTITION,
        StableOffsetsAreCommitted: Projection.PARTITION,
        TimesFindTheFirst: Projection.PARTITION,
        NothingFromNowhere: Projection.VALUE,
        NothingRefusedIsRead: Projection.VALUE,
        NothingTwice: Projection.VALUE,
        CommittedTransactionsAreRead: Projection.TRANSACTION,
        NothingAbortedIsRead: Projection.TRANSACTION,
        NothingPrecommittedIsRead: Projection.TRANSACTION,
        TransactionsAreAtomic: Projection.TRANSACTION,
        BalancesAddUp: Projection.TRANSACTION_ORDER,
        NoCyclesOfTransactions: Projection.TRANSACTION_ORDER,
        RecordsAreConsumedOnce: Projection.TRANSACTION_ORDER,
        OffsetsAreAtomicWithOutput: Projection.SOURCE,
        ReplacedMembersCommitNothing: Projection.GROUP,
        ForwardedChangesAreLinearizable: Projection.NAME,
        MetadataIsLinearizable: Projection.NAME,
        RegistersAreLinearizable: Projection.REGISTER,
        AcknowledgedTopicsStay: Projection.WHOLE,
        DeletedTopicsStayAway: Projection.WHOLE,
        NodesRunUntilStopped: Projection.WHOLE,
        RecoveryIsBounded: Projection.WHOLE,
        SeenTopicsAreReal: Projection.WHOLE,
    }
)


def by_projection(checkers: Iterable[Checker]) -> dict[Projection, tuple[Checker, ...]]:
    """Group the checkers by their projection. Raises KeyError for a checker without one."""
    found: dict[Projection, tuple[Checker, ...]] = {}
    for checker in checkers:
        projection = _PROJECTIONS[type(checker)]
        found[projection] = (*found.get(projection, ()), checker)
    return found
