"""Majorities, role transitions and log states, each compared with another way to compute the same."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.core import LogState, OffsetAndEpoch, ReplicaKey, Role, Voter, VoterSet, VoterSetHistory
from kraft.core.log_state import Match
from kraft.core.quorum import Outcome, majority, outcome, reached_by_majority
from kraft.core.transitions import TRANSITIONS, Cause, IllegalTransition, diagram, next_role
from tests.support.directory_ids import directory_id


@given(st.integers(1, 9))
def test_any_two_majorities_share_a_voter(size: int) -> None:
    groups = [set(group) for group in combinations(range(size), majority(size))]
    assert all(one & other for one in groups for other in groups)
    smaller = [set(group) for group in combinations(range(size), majority(size) - 1)]
    assert not all(one & other for one in smaller for other in smaller)


@given(st.lists(st.integers(-1, 50), min_size=1, max_size=9))
def test_high_watermark_is_the_highest_offset_held_by_a_majority(offsets: list[int]) -> None:
    enough = [end for end in range(-1, 51) if 2 * sum(offset >= end for offset in offsets) > len(offsets)]
    assert reached_by_majority(offsets) == max(enough)


@given(st.permutations(list(range(5))), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_high_watermark_is_independent_of_the_order_of_voters(order: list[int], offsets: list[int]) -> None:
    assert reached_by_majority(offsets) == reached_by_majority([offsets[index] for index in order])


@given(st.integers(1, 7), st.dictionaries(st.integers(0, 9), st.booleans()))
def test_an_election_is_decided_when_the_missing_votes_cannot_change_it(size: int, votes: dict[int, bool]) -> None:
    counted = {voter: vote for voter, vote in votes.items() if voter < size}
    missing = size - len(counted)
    at_worst, at_best = sum(counted.values()), sum(counted.values()) + missing
    expected = Outcome.PENDING
    if 2 * at_worst > size:
        expected = Outcome.WON
    elif 2 * at_best <= size:
        expected = Outcome.LOST
    assert outcome(range(size), votes) is expected


def test_every_role_can_be_reached_and_left() -> None:
    reached, frontier = {Role.UNATTACHED}, [Role.UNATTACHED]
    while frontier:
        role = frontier.pop()
        ways = {new for (old, _), new in TRANSITIONS.items() if old is role}
        assert ways
        frontier += ways - reached
        reached |= ways
    assert reached == set(Role)


def test_every_role_becomes_unattached_in_a_higher_epoch() -> None:
    """Raft's paper, section 5.1."""
    assert {next_role(role, Cause.HIGHER_EPOCH) for role in Role} == {Role.UNATTACHED}


def test_only_a_candidate_becomes_leader() -> None:
    assert {old for (old, _), new in TRANSITIONS.items() if new is Role.LEADER} == {Role.CANDIDATE}


def test_transition_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="LEADER cannot be left"):
        next_role(Role.LEADER, Cause.LEADER_FOUND)


def test_diagram_has_every_transition() -> None:
    assert diagram().count("-->") == len(TRANSITIONS) + 1


Epochs = st.lists(st.integers(1, 6), max_size=12).map(sorted)


def shape_of(epochs: list[int]) -> LogState:
    log = LogState()
    for offset, epoch in enumerate(epochs):
        log.append(offset, offset, epoch)
    return log


@given(Epochs, st.integers(0, 7))
def test_an_epoch_ends_where_the_next_begins(epochs: list[int], epoch: int) -> None:
    upto = [each for each in epochs if each <= epoch]
    assert shape_of(epochs).end_of_epoch(epoch) == OffsetAndEpoch(len(upto), upto[-1] if upto else 0)


@given(Epochs, st.data())
def test_truncation_keeps_the_entries_below(epochs: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(epochs)))
    log = shape_of(epochs)
    log.truncate(cut)
    assert log.end == shape_of(epochs[:cut]).end
    assert [log.end_of_epoch(epoch) for epoch in range(8)] == [shape_of(epochs[:cut]).end_of_epoch(e) for e in range(8)]


@given(Epochs, Epochs, st.data())
def test_repeated_fetch_and_truncation_ends_at_the_last_common_entry(
    mine: list[int], leaders: list[int], data: st.DataObject
) -> None:
    """KIP-595: a follower that truncates as told ends where both logs agree, and keeps all common entries."""
    common = data.draw(st.integers(0, min(len(mine), len(leaders))))
    mine = [*leaders[:common], *(epoch for epoch in mine if epoch >= (leaders[common - 1] if common else 0))]
    agree = common
    while agree < min(len(mine), len(leaders)) and mine[agree] == leaders[agree]:
        agree += 1
    if any(epoch in leaders[agree:] for epoch in mine[agree:]):
        return  # no two logs of one history: an epoch has one leader, who wrote its entries in one order
    follower, leader = shape_of(mine), shape_of(leaders)
    for _ in range(20):
        match, place = leader.match(follower.end)
        if match is Match.SAME:
            break
        assert match is Match.DIVERGED
        assert follower.truncation_point(place) < follower.end_offset
        follower.truncate(follower.truncation_point(place))
    assert follower.end_offset == agree


@given(Epochs.filter(bool), st.data())
def test_snapshot_leaves_the_entries_above_unchanged(epochs: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(1, len(epochs)))
    log, whole = shape_of(epochs), shape_of(epochs)
    log.start_at(OffsetAndEpoch(start, epochs[start - 1]))
    assert log.end == whole.end
    for offset in range(start, len(epochs) + 1):
        assert log.epoch_before(offset) == whole.epoch_before(offset)
        place = OffsetAndEpoch(offset, whole.epoch_before(offset))
        assert log.match(place) == (Match.SAME, place)
    for offset in range(start):
        place = OffsetAndEpoch(offset, whole.epoch_before(offset))
        assert log.match(place) == (Match.BELOW_START, log.start)


def test_sync_does_not_count_entries_that_were_truncated_meanwhile() -> None:
    log = shape_of([1, 1, 1])
    end = log.end
    log.truncate(1)
    log.append(1, 2, 2)
    log.synced(end)
    assert log.durable_end_offset == 0
    log.synced(log.end)
    assert log.durable_end_offset == 3


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(ReplicaKey(node_id, directory_id(f"d{node_id}"))) for node_id in node_ids))


def test_latest_voter_set_is_in_effect_until_it_is_truncated() -> None:
    """Raft's dissertation, section 4.1."""
    history = VoterSetHistory(voters(1))
    history.append(3, voters(1, 2))
    history.append(7, voters(1, 2, 3))
    assert [history.at(end).ids for end in (3, 4, 7, 8)] == [(1,), (1, 2), (1, 2), (1, 2, 3)]
    history.truncate(7)
    assert (history.latest.ids, history.latest_offset) == ((1, 2), 3)
    history.start_at(5, history.at(5))
    assert (history.latest.ids, history.latest_offset) == ((1, 2), 4)


def test_replica_with_another_directory_id_is_another_replica() -> None:
    """KIP-853."""
    assert voters(1, 2).contains(ReplicaKey(2, directory_id("d2")))
    assert voters(1, 2).contains(ReplicaKey(2))
    assert not voters(1, 2).contains(ReplicaKey(2, directory_id("other")))
    assert not voters(1, 2).contains(ReplicaKey(3, directory_id("d3")))
