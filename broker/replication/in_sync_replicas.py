"""Tracks a leader's followers and the in-sync replicas (ISR). Pure: times come as arguments.

The controller decides the ISR; the leader proposes changes. While a proposal is in flight the leader does not know
which ISR is in force, so it uses the *maximal* one: the committed ISR, including replicas proposed to leave, plus a
replica proposed to join (KIP-497). The high watermark is the lowest log end offset in that set. So a leader that was
deposed without its knowledge, or that cannot reach the controller, cannot commit past a replica that may be elected
next.

A follower is in sync if it was caught up within the last `replica.lag.time.max.ms`. The number of records it lags does
not matter: otherwise a burst of records would remove a healthy follower.
"""

from collections.abc import Callable, Iterable
from typing import Final

from kraft import lazy_attrs

UNKNOWN_OFFSET: Final = -1
# A fetch without a broker epoch is not checked against the registration (versions of Fetch before KIP-903).
UNKNOWN_BROKER_EPOCH: Final = -1
_NEVER_MS: Final = -(1 << 62)


@lazy_attrs.define(eq=False)
class Follower:
    """One follower's progress, as known from its fetches: it has all records below `log_end_offset`.

    `caught_up_ms` is the last time at which it had all records of the leader. Times are in milliseconds of any
    monotonic clock. `refetches` counts its fetches from the same offset in a row, after the first one, although the
    leader had records there: it may have refused them.
    """

    broker_id: int
    log_start_offset: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    broker_epoch: int | None = None
    fetched_ms: float = _NEVER_MS
    caught_up_ms: float = _NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET
    refetches: int = 0

    def fetched(
        self, *, end_offset: int, start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: float
    ) -> None:
        """Record a fetch from `end_offset`.

        The follower also counts as caught up, at the time of its previous fetch, if it has now reached the leader's log
        end of that time. Otherwise a follower of a leader that never stops appending would never be caught up.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self.leader_end_at_fetch != UNKNOWN_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        is_refetch = end_offset == self.log_end_offset and end_offset < self.leader_end_at_fetch
        self.refetches = self.refetches + 1 if is_refetch else 0
        self.leader_end_at_fetch = max(leader_end_offset, self.leader_end_at_fetch)
        self.log_start_offset = start_offset
        self.log_end_offset = end_offset
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_max_ms: float) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms


@lazy_attrs.frozen(eq=False)
class Proposal:
    """An ISR that the leader proposes to the controller; `joining` is the replica that is new in it, if any."""

    isr: tuple[int, ...]
    joining: int | None = None


class InSyncReplicas:
    """The leader's view of its followers and the ISR in one leader epoch. `isr` is the ISR last committed.

    `may_join(broker_id, broker_epoch)` says whether the metadata allows a broker into an ISR: it is registered under
    that epoch (or its fetch had none), not fenced and not shutting down. `epoch_start_offset` is where the leader's log
    ended when the epoch began.

    Progress made under an earlier leader epoch does not count: another leader in between may have made the follower
    truncate its log.
    """

    __slots__ = ("_lag_max_ms", "_local_id", "_may_join", "epoch_start_offset", "followers", "isr", "proposal")

    def __init__(
        self,
        local_id: int,
        *,
        epoch_start_offset: int,
        lag_max_ms: float,
        may_join: Callable[[int, int], bool],
    ) -> None:
        self._local_id = local_id
        self.epoch_start_offset = epoch_start_offset
        self._lag_max_ms = lag_max_ms
        self._may_join = may_join
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = (local_id,)
        self.proposal: Proposal | None = None

    @property
    def maximal(self) -> tuple[int, ...]:
        """The replicas that must have a record before it is committed."""
        if self.proposal is None or self.proposal.joining is None:
            return self.isr
        return self.proposal.isr

    def assign(self, replicas: Iterable[int]) -> None:
        """Set the partition's replicas; the progress of those that stay is kept."""
        others = [broker_id for broker_id in replicas if broker_id != self._local_id]
        self.followers = {broker_id: self.followers.get(broker_id) or Follower(broker_id) for broker_id in others}

    def commit(self, isr: tuple[int, ...], now_ms: float) -> None:
        """Apply an ISR that the controller has committed; a pending proposal ends with it.

        A follower that has not fetched yet gets the full lag time to do so. A follower that has left the ISR counts as
        not caught up; otherwise the high watermark would wait for it as for one about to join.
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
        """The broker epoch of the follower's last fetch, for the controller to check (KIP-903); -1 without a fetch.

        A follower without a fetch can only be in the ISR already. If its broker has died, the partition's epoch has
        changed and the controller refuses the proposal.
        """
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch is None:
            return UNKNOWN_BROKER_EPOCH
        return follower.broker_epoch

    def high_watermark(self, end_offset: int, now_ms: float) -> int:
        """The lowest log end offset of the replicas that count; `end_offset` is the leader's."""
        lowest = end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < lowest and self.waits_for(follower, end_offset, now_ms):
                lowest = follower.log_end_offset
        return lowest

    def waits_for(self, follower: Follower, end_offset: int, now_ms: float) -> bool:
        """Whether a record is only committed once this follower has it.

        True for the maximal ISR, and for a caught-up follower that is about to join it: a high watermark that moves
        ahead of such a follower would keep it out for ever.
        """
        return follower.broker_id in self.maximal or self._is_about_to_join(follower, end_offset, now_ms)

    def to_expand(self, follower: Follower, high_watermark: int) -> Proposal | None:
        """Propose to add a follower that has reached the high watermark and the start of this leader epoch; or None.

        A follower below the start of the epoch may still have to truncate, and would then lack committed records.
        """
        if self.proposal is not None or follower.broker_id in self.isr or not self._is_eligible(follower):
            return None
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return Proposal((*self.isr, follower.broker_id), follower.broker_id)

    def to_shrink(self, end_offset: int, now_ms: float) -> Proposal | None:
        """Propose to remove the followers that were not caught up for too long; None if there are none."""
        if self.proposal is not None:
            return None
        lagging = [broker_id for broker_id in self.isr if self._lags(broker_id, end_offset, now_ms)]
        return Proposal(tuple(each for each in self.isr if each not in lagging)) if lagging else None

    def to_leave(self) -> Proposal | None:
        """Propose that this leader leaves the ISR, so that another member leads; None if there is no other."""
        others = tuple(each for each in self.isr if each != self._local_id)
        return Proposal(others) if others and self.proposal is None else None

    def _lags(self, broker_id: int, end_offset: int, now_ms: float) -> bool:
        if broker_id == self._local_id:
            return False
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(end_offset, now_ms, self._lag_max_ms)

    def _is_about_to_join(self, follower: Follower, end_offset: int, now_ms: float) -> bool:
        return follower.is_caught_up(end_offset, now_ms, self._lag_max_ms) and self._is_eligible(follower)

    def _is_eligible(self, follower: Follower) -> bool:
        return follower.broker_epoch is not None and self._may_join(follower.broker_id, follower.broker_epoch)
