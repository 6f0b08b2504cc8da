"""Planted bugs, each of which breaks one rule: random runs or a named scenario have to find it."""

from collections.abc import Callable

import pytest

from kraft.core import LogState, OffsetAndEpoch, ReplicaKey, Role, elections, leading, quorum, reconfiguration
from kraft.core import messages as said
from kraft.core.log_state import Match
from kraft.core.replica import Replica
from kraft.core.transitions import Cause
from tests.support import raft_harness
from tests.support.raft_chaos import Chaos
from tests.support.raft_harness import RaftHarness
from tests.support.raft_invariants import Violation

# The number of random runs within which a bug is found; without a bug, thousands of runs pass.
SEEDS = 150


def found_by(seeds: int, shape: tuple[int, int], prepare: Callable[[RaftHarness], None] | None = None) -> int:
    """The first seed that finds the bug."""
    for seed in range(seeds):
        try:
            Chaos(seed, *shape, prepare).run()
        except AssertionError:
            return seed
    raise AssertionError(f"not found in {seeds} seeds")


def isolate(harness: RaftHarness, inside: set[int]) -> None:
    outside = set(harness.hosts) - inside
    harness.cuts = {pair for a in inside for b in outside for pair in ((a, b), (b, a))}


def election_chances(**by_node: float) -> Callable[[int], Callable[[], float]]:
    """The random numbers of each node's timeouts: the node with the lowest one starts its election first."""
    return lambda node_id: lambda: by_node[f"n{node_id}"]


def voter_that_restarts(*, votes_are_durable: bool) -> None:
    """Nodes 1 and 3 stand for election in the same epoch. Node 2 votes for 1, restarts after a crash, and gets a
    request from 3.
    """
    harness = RaftHarness([1, 2, 3], chance=election_chances(n1=0.0, n2=0.9, n3=0.0375))
    harness.votes_are_durable = votes_are_durable
    harness.start_all()
    harness.cuts = {(1, 3), (3, 1)}
    assert harness.run_until(lambda: harness.hosts[2].disk.election.epoch == 1, 5_000)
    harness.run(0.3)
    harness.cuts.add((1, 2))  # node 2 does not receive that node 1 has won
    harness.crash(2)
    harness.start(2)
    harness.run(500)


def test_planted_bug_vote_not_durable_is_found() -> None:
    """Raft's paper, section 5.2: both are elected in one epoch."""
    voter_that_restarts(votes_are_durable=True)
    with pytest.raises(Violation, match="led in epoch 1"):
        voter_that_restarts(votes_are_durable=False)


def test_planted_bug_log_not_durable_is_found(figure: Callable[[str], None]) -> None:
    def forget_entries(harness: RaftHarness) -> None:
        harness.log_is_durable = False

    figure(f"found by seed {found_by(SEEDS, (3, 0), forget_entries)}")


def test_planted_bug_commit_without_a_majority_is_found(
    monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(leading, "reached_by_majority", max)
    figure(f"found by seed {found_by(SEEDS, (3, 0))}")


def test_planted_bug_majority_too_small_is_found(
    monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(quorum, "majority", lambda size: max(1, size // 2))
    figure(f"found by seed {found_by(SEEDS, (5, 0))}")


def match_by_offset_alone(log: LogState, end: OffsetAndEpoch) -> tuple[Match, OffsetAndEpoch]:
    if end.offset < log.start.offset:
        return Match.BELOW_START, log.start
    return (Match.SAME, end) if end.offset <= log.end_offset else (Match.DIVERGED, log.end)


def test_planted_bug_fetch_ignores_the_previous_epoch_is_found(
    monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(LogState, "match", match_by_offset_alone)
    figure(f"found by seed {found_by(SEEDS, (3, 0))}")


def figure_8() -> None:
    """Raft's paper, figure 8, with three nodes and one entry per response."""
    harness = RaftHarness([1, 2, 3], chance=election_chances(n1=0.0, n2=0.9, n3=0.5))
    harness.start_all()
    one, two, three = harness.hosts.values()
    assert harness.run_until(lambda: one.live.role is Role.LEADER, 5_000)
    harness.run(100)
    isolate(harness, {1})
    harness.append(1, "old")  # no other node fetches it
    old_offset = one.live.end_offset - 1
    harness.run(5)
    harness.crash(1)
    assert harness.run_until(lambda: three.live.role is Role.LEADER, 5_000)
    isolate(harness, {3})  # no other node fetches the first entry of its epoch
    harness.run(5)
    harness.crash(3)
    harness.cuts.clear()
    harness.start(1)
    assert harness.run_until(lambda: one.live.role is Role.LEADER, 20_000)
    assert harness.run_until(lambda: two.disk.synced_end_offset == old_offset + 1, 1_000)
    harness.run(1)  # now "old" is on a majority, and node 1 knows it
    harness.crash(1)
    harness.crash(2)
    harness.start(2)
    harness.start(3)
    assert harness.run_until(lambda: three.live.role is Role.LEADER, 20_000)
    harness.run(100)
    assert two.disk.batches[old_offset].records != (b"old",)


def test_planted_bug_commit_of_an_earlier_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_harness, "BATCHES_IN_ANSWER", 1)
    figure_8()
    monkeypatch.setattr(leading, "may_commit", lambda leader, end_offset: True)
    with pytest.raises(Violation, match="without the committed entry"):
        figure_8()


def two_removals() -> None:
    """An isolated leader removes both other voters, which elect another leader without knowing of it."""
    harness = RaftHarness([1, 2, 3], chance=election_chances(n1=0.0, n2=0.4, n3=0.9))
    harness.start_all()
    assert harness.run_until(lambda: harness.hosts[1].live.role is Role.LEADER, 5_000)
    harness.run(100)
    isolate(harness, {1})
    for node_id in (2, 3):
        harness.change_voters(1, said.RemoveVoterRequest(harness.voter(node_id).key, 10))
        harness.run(20)
    harness.run(10_000)
    assert harness.hosts[2].live.role is Role.LEADER


def test_planted_bug_two_voter_changes_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-853: with two changes, the majorities of the voter sets before and after need not overlap."""
    two_removals()
    monkeypatch.setattr(reconfiguration, "may_change", lambda replica, leader: True)
    with pytest.raises(Violation, match="committed"):
        two_removals()


def deaf_node(monkeypatch: pytest.MonkeyPatch | None = None) -> int:
    """The increase of the epoch in a minute in which a follower can send, but receives nothing."""
    harness = RaftHarness([1, 2, 3])
    harness.start_all()
    harness.run(5_000)
    leader = harness.leader
    assert leader is not None
    deaf = 1 if leader.node_id != 1 else 2
    before = leader.live.epoch
    harness.cuts = {(node_id, deaf) for node_id in harness.hosts if node_id != deaf}
    harness.run(60_000)
    harness.cuts.clear()
    harness.run(10_000)
    return max(host.live.epoch for host in harness.live) - before


def test_planted_bug_pre_votes_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-996: pre-votes keep a follower that receives nothing from disturbing the others."""
    assert deaf_node() <= 1

    def start_at_once(replica: Replica, cause: Cause) -> None:
        original(replica, cause)
        if replica.state.role is Role.PROSPECTIVE:
            elections.start_election(replica, Cause.PRE_VOTE_WON)

    original = elections.start_pre_vote
    monkeypatch.setattr(elections, "start_pre_vote", start_at_once)
    assert deaf_node() > 5


def test_planted_bug_directory_id_ignored_is_found(
    monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """KIP-853: a replica with a new disk has lost its votes and the entries that it acknowledged."""
    monkeypatch.setattr(ReplicaKey, "matches", lambda self, other: self.node_id == other.node_id)
    figure(f"found by seed {found_by(SEEDS, (3, 0))}")
