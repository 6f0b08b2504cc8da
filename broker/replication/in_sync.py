"""What the leader of a partition knows of its followers, and who of them is in sync. Pure: times come as arguments.

The in-sync replicas (ISR) are the controller's to change; the leader proposes. While a proposal is on its way nobody
knows which ISR counts, so the leader acts on the *maximal* one: the committed ISR with whoever is proposed to join, and
still with whoever is proposed to leave (KIP-497). The high watermark is what all of that set hold. So a leader that the
controller has deposed without its knowing, or that cannot reach the controller, cannot commit past a replica which
might be elected in its place.

A follower is in sync while it was caught up within the last `replica.lag.time.max.ms`: how many records it lags behind
does not count, as a burst of records would throw out a follower that is doing well.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

UNKNOWN_OFFSET: Final = -1
# A fetch that tells of no broker epoch is not checked against one (versions of Fetch before KIP-903).
UNKNOWN_BROKER_EPOCH: Final = -1
_NEVER_MS: Final = -(1 << 62)


@attrs.define(eq=False)
class Follower:
    """One follower's progress, as its fetches tell: it holds everything below `log_end_offset`.

    `caught_up_ms` is the latest moment at which it held all that the leader held. Times are of any clock that does not
    go back, in milliseconds.
    """

    broker_id: int
    log_start_offset: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    broker_epoch: int | None = None
    fetched_ms: float = _NEVER_MS
    caught_up_ms: float = _NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET

    def fetched(
        self, *, end_offset: int, start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: float
    ) -> None:
        """A fetch from `end_offset` came. Where the leader's log ended when the one before came counts as well.

        Else a follower of a leader that never stops appending would never be caught up.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self.leader_end_at_fetch != UNKNOWN_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.leader_end_at_fetch = max(leader_end_offset, self.leader_end_at_fetch)
        self.log_start_offset = start_offset
        self.log_end_offset = end_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_max_ms: float) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms


@attrs.frozen(eq=False)
class Proposal:
    """An ISR that the leader asked the controller for; `joining` is who is new in it."""

    isr: tuple[int, ...]
    joining: int | None = None


class InSyncReplicas:
    """The leader's view, in one leader epoch. `isr` is what the controller said last, `followers` are the others.

    `may_join` says whether the metadata allows a broker of that epoch into an ISR: it is registered under it (or tells
    of none), not fenced and not shutting down.

    Progress that was made under an earlier epoch does not count: somebody else may have led since, and had a follower
    drop what it once had.
    """

    __slots__ = ("_epoch_start_offset", "_lag_max_ms", "_local_id", "_may_join", "followers", "isr", "proposal")

    def __init__(
        self,
        local_id: int,
        *,
        epoch_start_offset: int,
        lag_max_ms: float,
        may_join: Callable[[int, int], bool],
    ) -> None:
        self._local_id = local_id
        self._epoch_start_offset = epoch_start_offset
        self._lag_max_ms = lag_max_ms
        self._may_join = may_join
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = (local_id,)
        self.proposal: Proposal | None = None

    @property
    def maximal(self) -> tuple[int, ...]:
        """Who has to hold a record before it is committed."""
        if self.proposal is None or self.proposal.joining is None:
            return self.isr
        return self.proposal.isr

    def assign(self, replicas: Iterable[int]) -> None:
        """These are the replicas now; what is known of those that stay is kept."""
        others = [broker_id for broker_id in replicas if broker_id != self._local_id]
        self.followers = {broker_id: self.followers.get(broker_id) or Follower(broker_id) for broker_id in others}

    def commit(self, isr: tuple[int, ...], now_ms: float) -> None:
        """The controller has made this the ISR; what was proposed is decided with it.

        A follower that is in it and was not heard of yet is given the time that any other has to show itself. One that
        has left it has yet to catch up again, or else what is committed would wait for it while it is on its way.
        """
        for broker_id in self.isr:
            former = None if broker_id in isr else self.followers.get(broker_id)
            if former is not None:
                former.caught_up_ms = former.fetched_ms = _NEVER_MS
        self.isr = isr
        self.proposal = None
        for broker_id in isr:
            follower = self.followers.get(broker_id)
            if follower is not None and follower.caught_up_ms == _NEVER_MS:
                follower.caught_up_ms = now_ms

    def broker_epoch(self, broker_id: int) -> int:
        """Under which the follower has fetched, for the controller to check (KIP-903); -1 where it was not heard of.

        Such a one can only be in the ISR already: if it has died meanwhile, the controller knows a newer partition.
        """
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch is None:
            return UNKNOWN_BROKER_EPOCH
        return follower.broker_epoch

    def high_watermark(self, end_offset: int, now_ms: float) -> int:
        """What all that count hold, `end_offset` being what the leader holds."""
        lowest = end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < lowest and self.waits_for(follower, end_offset, now_ms):
                lowest = follower.log_end_offset
        return lowest

    def waits_for(self, follower: Follower, end_offset: int, now_ms: float) -> bool:
        """Whether a record is not committed before this follower has it.

        It is so with those in the maximal ISR, and with those that are caught up and about to join it: a high watermark
        that runs ahead of such a one would keep it out for ever.
        """
        return follower.broker_id in self.maximal or self._is_about_to_join(follower, end_offset, now_ms)

    def to_expand(self, follower: Follower, high_watermark: int) -> Proposal | None:
        """The ISR with a follower that has caught up with what is committed, and with this leader's epoch.

        One that has not reached where the epoch starts may yet have to truncate, and would then lack what is committed.
        """
        if self.proposal is not None or follower.broker_id in self.isr or not self._is_eligible(follower):
            return None
        if follower.log_end_offset < max(high_watermark, self._epoch_start_offset):
            return None
        return Proposal((*self.isr, follower.broker_id), follower.broker_id)

    def to_shrink(self, end_offset: int, now_ms: float) -> Proposal | None:
        """The ISR without the followers that were not caught up for too long; None where all of them were."""
        if self.proposal is not None:
            return None
        lagging = [broker_id for broker_id in self.isr if self._lags(broker_id, end_offset, now_ms)]
        return Proposal(tuple(each for each in self.isr if each not in lagging)) if lagging else None

    def _lags(self, broker_id: int, end_offset: int, now_ms: float) -> bool:
        if broker_id == self._local_id:
            return False
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(end_offset, now_ms, self._lag_max_ms)

    def _is_about_to_join(self, follower: Follower, end_offset: int, now_ms: float) -> bool:
        return follower.is_caught_up(end_offset, now_ms, self._lag_max_ms) and self._is_eligible(follower)

    def _is_eligible(self, follower: Follower) -> bool:
        return follower.broker_epoch is not None and self._may_join(follower.broker_id, follower.broker_epoch)
