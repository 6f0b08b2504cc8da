"""How a leader derives the ISR and the high watermark from its followers' fetches."""

from hypothesis import given
from hypothesis import strategies as st

from broker.replication.in_sync_replicas import InSyncReplicas, Proposal

LEADER, A, B = 1, 2, 3
LAG_MS = 10_000.0


def in_sync(
    *isr: int, replicas: tuple[int, ...] = (LEADER, A, B), start: int = 0, barred: tuple[int, ...] = ()
) -> InSyncReplicas:
    """A leader's state whose epoch begins at `start`; the ISR was committed at time 0."""
    state = InSyncReplicas(
        LEADER,
        epoch_start_offset=start,
        lag_max_ms=LAG_MS,
        may_join=lambda broker_id, broker_epoch: broker_id not in barred and broker_epoch in (-1, 7),
    )
    state.assign(replicas)
    state.commit(isr, 0.0)
    return state


def fetched(state: InSyncReplicas, broker_id: int, offset: int, end: int, now_ms: float, *, epoch: int = 7) -> None:
    state.followers[broker_id].fetched(
        end_offset=offset, start_offset=0, broker_epoch=epoch, leader_end_offset=end, now_ms=now_ms
    )


# The high watermark


def test_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    state = in_sync(LEADER, A, B)
    fetched(state, A, 5, 10, 1)
    assert state.high_watermark(10, 1) == -1  # B has not fetched yet
    fetched(state, B, 3, 10, 1)
    assert state.high_watermark(10, 1) == 3


def test_high_watermark_does_not_wait_for_an_out_of_sync_follower() -> None:
    state = in_sync(LEADER, A)
    fetched(state, A, 10, 10, 1)
    fetched(state, B, 2, 10, 1)
    assert state.high_watermark(10, 1) == 10


def test_high_watermark_waits_for_a_caught_up_follower_that_may_join() -> None:
    """Otherwise the high watermark would always be ahead of such a follower, which could never join the ISR."""
    for barred, expected in [((), 10), ((B,), 20)]:
        state = in_sync(LEADER, barred=barred)
        fetched(state, B, 10, 10, 1)
        assert state.high_watermark(20, LAG_MS) == expected
        assert state.high_watermark(20, LAG_MS + 2) == 20  # it was last caught up too long ago


def test_high_watermark_does_not_wait_for_a_follower_that_has_just_left_the_isr() -> None:
    """A restarted broker may lack records for long. Its former incarnation's progress does not count."""
    state = in_sync(LEADER, A, B)
    for broker_id in (A, B):
        fetched(state, broker_id, 10, 10, 1)
    state.commit((LEADER, A), 2)
    fetched(state, A, 20, 20, 3)
    fetched(state, B, 10, 20, 3)
    assert state.high_watermark(20, 3) == 20
    fetched(state, B, 20, 20, 4)
    fetched(state, A, 30, 30, 5)
    assert state.high_watermark(30, 5) == 20


def test_high_watermark_waits_for_a_proposed_isr_member_kip_497() -> None:
    """KIP-497: the maximal ISR."""
    state = in_sync(LEADER, A)
    fetched(state, A, 10, 10, 1)
    fetched(state, B, 5, 10, 1)
    state.proposal = Proposal((LEADER, A, B), B)
    assert (state.maximal, state.high_watermark(10, 1)) == ((LEADER, A, B), 5)


def test_high_watermark_waits_for_a_member_proposed_to_leave_the_isr_kip_497() -> None:
    """KIP-497: the outcome of the proposal is unknown, and the controller may still elect that replica."""
    state = in_sync(LEADER, A)
    fetched(state, A, 5, 10, 1)
    state.proposal = Proposal((LEADER,))
    assert (state.maximal, state.high_watermark(10, LAG_MS + 2)) == ((LEADER, A), 5)


# Joining the ISR


def test_follower_joins_the_isr_at_the_high_watermark() -> None:
    state = in_sync(LEADER)
    follower = state.followers[A]
    for offset, joins in [(9, False), (10, True)]:
        fetched(state, A, offset, 20, 1)
        assert (state.to_expand(follower, high_watermark=10) is not None) == joins


def test_follower_below_the_start_of_the_leader_epoch_does_not_join() -> None:
    """It may still have to truncate, and would then lack committed records."""
    state = in_sync(LEADER, start=15)
    fetched(state, A, 14, 20, 1)
    assert state.to_expand(state.followers[A], high_watermark=10) is None
    fetched(state, A, 15, 20, 1)
    assert state.to_expand(state.followers[A], high_watermark=10) is not None


def test_follower_that_the_metadata_does_not_allow_does_not_join() -> None:
    """KIP-841 and KIP-903: fenced brokers, brokers that shut down, and fetches of a former incarnation."""
    state = in_sync(LEADER, barred=(A,))
    fetched(state, A, 10, 10, 1)
    fetched(state, B, 10, 10, 1, epoch=6)
    assert state.to_expand(state.followers[A], 10) is None
    assert state.to_expand(state.followers[B], 10) is None
    fetched(state, B, 10, 10, 2, epoch=-1)
    assert state.to_expand(state.followers[B], 10) is not None


def test_only_one_isr_proposal_is_pending() -> None:
    state = in_sync(LEADER)
    fetched(state, A, 10, 10, 1)
    fetched(state, B, 10, 10, 1)
    state.proposal = state.to_expand(state.followers[A], 10)
    assert state.proposal is not None
    assert (state.proposal.isr, state.proposal.joining) == ((LEADER, A), A)
    assert state.to_expand(state.followers[B], 10) is None
    assert state.to_shrink(20, LAG_MS * 9) is None

    state.commit((LEADER, A), 2)
    assert state.to_expand(state.followers[A], 10) is None  # it is in the ISR already
    assert state.to_expand(state.followers[B], 10) is not None


# Leaving the ISR


def test_follower_that_is_not_caught_up_for_too_long_leaves_the_isr() -> None:
    state = in_sync(LEADER, A, B)
    fetched(state, A, 10, 10, 5_000)
    fetched(state, B, 4, 10, 5_000)
    assert state.to_shrink(20, LAG_MS) is None
    proposal = state.to_shrink(20, LAG_MS + 1)  # the lag time of B began at 0
    assert proposal is not None
    assert (proposal.isr, proposal.joining) == ((LEADER, A), None)


def test_silent_follower_with_all_records_stays_in_the_isr() -> None:
    state = in_sync(LEADER, A)
    fetched(state, A, 10, 10, 1)
    assert state.to_shrink(10, LAG_MS * 9) is None


def test_follower_of_a_busy_leader_stays_in_the_isr() -> None:
    """Each fetch reaches the log end that the leader had at the previous fetch, and never its current one."""
    state = in_sync(LEADER, A)
    for number in range(100):
        fetched(state, A, number * 10, number * 10 + 10, number * 1_000)
    assert state.to_shrink(2_000, 100_000) is None
    assert state.to_shrink(2_000, 98_000 + LAG_MS + 1) is not None  # it was caught up at the fetch before the last one


def test_slow_follower_leaves_the_isr_although_it_fetches_continuously() -> None:
    state = in_sync(LEADER, A)
    for number in range(100):
        fetched(state, A, number, number * 10 + 10, number * 1_000)
    assert state.to_shrink(2_000, 100_000) is not None


def test_only_a_fetch_from_the_same_offset_below_the_log_end_is_a_refetch() -> None:
    """A follower that moves on, or has nothing to fetch, has refused no records."""
    state = in_sync(LEADER, A)
    counted = []
    for offset, end in [(3, 10), (3, 10), (3, 10), (5, 10), (5, 10), (10, 10), (10, 10), (10, 11), (10, 11)]:
        fetched(state, A, offset, end, 1)
        counted.append(state.followers[A].refetches)
    assert counted == [0, 1, 2, 0, 1, 0, 0, 0, 1]


def test_leader_proposes_to_leave_only_an_isr_with_another_member() -> None:
    alone, together = in_sync(LEADER), in_sync(LEADER, A)
    assert alone.to_leave() is None
    together.proposal = together.to_leave()
    assert together.proposal is not None
    assert together.proposal.isr == (A,)
    assert together.to_leave() is None, "one proposal at a time"


def test_removed_replica_leaves_the_isr() -> None:
    state = in_sync(LEADER, A, B)
    state.assign((LEADER, A))
    fetched(state, A, 10, 10, 1)
    proposal = state.to_shrink(10, 1)
    assert proposal is not None
    assert proposal.isr == (LEADER, A)


def test_new_assignment_keeps_the_progress_of_remaining_followers() -> None:
    state = in_sync(LEADER, A, B)
    fetched(state, A, 10, 10, 1)
    state.assign((LEADER, A, 4))
    assert {each: follower.log_end_offset for each, follower in state.followers.items()} == {A: 10, 4: -1}


def test_proposal_contains_the_broker_epochs_of_the_followers_fetches_kip_903() -> None:
    """KIP-903."""
    state = in_sync(LEADER, A, B)
    fetched(state, A, 10, 10, 1)
    assert (state.broker_epoch(A), state.broker_epoch(B)) == (7, -1)


@given(
    isr=st.sets(st.sampled_from([A, B])),
    fetches=st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 20), st.integers(0, 30_000)), max_size=20),
    joins=st.booleans(),
)
def test_committed_records_are_on_every_replica_that_could_be_elected(
    isr: set[int], fetches: list[tuple[int, int, int]], joins: bool
) -> None:
    """This holds if the controller uses the committed ISR, and if it has committed the proposed ISR and the response
    was lost.
    """
    state = in_sync(LEADER, *sorted(isr))
    now = 0
    for broker_id, offset, later_ms in fetches:
        now += later_ms
        fetched(state, broker_id, offset, 20, now)
        if joins and state.proposal is None:
            state.proposal = state.to_expand(state.followers[broker_id], state.high_watermark(20, now))
    if state.proposal is None:
        state.proposal = state.to_shrink(20, now)
    committed = state.high_watermark(20, now)
    proposed = state.proposal.isr if state.proposal is not None else ()
    assert all(state.followers[each].log_end_offset >= committed for each in {*isr, *proposed} - {LEADER})
