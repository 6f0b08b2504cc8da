"""The state of a share consumer at one leader: its share session, and the acknowledgements that wait for a request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import attrs
import trio

from broker.client.errors import KafkaError, TimedOut
from broker.client.share_consumer.acknowledgements import Acknowledgement, Outcome
from broker.client.share_consumer.share_session import PartitionId, ShareSession
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode

_SESSION_ENDED = "the share session in which these records were acquired has ended, so they are delivered again"
_LEADER_CHANGED = "the partition has another leader, so these records are delivered again"


@attrs.define(eq=False)
class PendingAcknowledgement:
    """An acknowledgement on its way. `settled` is called once with the error, and the new lock timeout in milliseconds.

    If `is_alone`, it does not go with a ShareFetch, which may wait for records. Times are those of Trio's clock.
    """

    acknowledgement: Acknowledgement
    deadline: float
    is_alone: bool
    settled: Callable[["PendingAcknowledgement", int | None], None]
    not_before: float = 0.0
    failures: int = 0
    error: Exception | None = None
    ended: trio.Event = attrs.field(factory=trio.Event)

    @property
    def id(self) -> PartitionId:
        source = self.acknowledgement.source
        return PartitionId(source.topic_id, source.partition.partition)

    def timed_out(self) -> TimedOut:
        """The error if this has not succeeded by its deadline."""
        error = TimedOut(f"the acknowledgement did not succeed in time: {self.error or 'the leader did not respond'}")
        error.__cause__ = self.error
        return error

    def settle(self, error: Exception | None, lock_timeout_ms: int | None = None) -> None:
        self.error = error
        self.ended.set()
        self.settled(self, lock_timeout_ms)


class ShareLeader:
    """See the module's docstring. Before `retry_at`, the leader is sent no request."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.pending: list[PendingAcknowledgement] = []
        self.retry_at = 0.0
        self.ended = trio.Event()

    def has_due(self, now: float, *, only_alone: bool = False) -> bool:
        """True if an acknowledgement may be sent now; with `only_alone`, one that does not go with a ShareFetch."""
        return any(each.not_before <= now and (each.is_alone or not only_alone) for each in self.pending)

    def next_due(self) -> float:
        return min((each.not_before for each in self.pending), default=inf)

    def take_due(
        self,
        now: float,
        leader_of: Callable[[TopicPartition], int | None],
        *,
        with_alone: bool = True,
        is_final: bool = False,
    ) -> list[PendingAcknowledgement]:
        """Takes the acknowledgements to send now, or all if it `is_final`. Those that cannot succeed any more fail.

        `leader_of` returns the node id of a partition's leader, or None if it is not known.
        """
        taken, left = [], []
        for each in self.pending:
            source = each.acknowledgement.source
            if source.session != self.session.serial or not self.session.is_open:
                each.settle(KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, _SESSION_ENDED))
            elif leader_of(source.partition) not in (None, self.node_id):
                each.settle(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, _LEADER_CHANGED))
            elif each.deadline <= now:
                each.settle(each.timed_out())
            elif is_final or (each.not_before <= now and (with_alone or not each.is_alone)):
                taken.append(each)
            else:
                left.append(each)
        self.pending = left
        return taken

    def lose_session(self, failure: Exception) -> None:
        """Ends the session with its connection; acknowledgements that wait cannot succeed any more."""
        self.session.lose()
        pending, self.pending = self.pending, []
        settle_all(pending, failure)

    def retry(self, pending: PendingAcknowledgement, error: KafkaError, not_before: float) -> None:
        """Has an acknowledgement sent again later, which failed with a retriable error."""
        pending.error = error
        pending.failures += 1
        pending.not_before = min(not_before, pending.deadline)
        pending.is_alone = True
        self.pending.append(pending)


def outcomes_by_partition(pending: Iterable[PendingAcknowledgement]) -> Mapping[PartitionId, Sequence[Outcome]]:
    """All outcomes of each partition."""
    outcomes: dict[PartitionId, list[Outcome]] = {}
    for each in pending:
        outcomes.setdefault(each.id, []).extend(each.acknowledgement.outcomes)
    return outcomes


def settle_all(pending: Iterable[PendingAcknowledgement], error: Exception) -> None:
    """Ends acknowledgements with an error."""
    for each in list(pending):
        each.settle(error)
