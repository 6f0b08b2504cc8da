"""Each invariant detects its violation in a trace of a few events."""

import pytest

from jepsen.simulation.invariants import Replicas, Watch, raft_invariants
from jepsen.simulation.trace import Trace

VOTERS = ((1, "d1"), (2, "d2"), (3, "d3"))


class SampleTrace:
    """Three nodes. The first one leads in epoch 1, and has an entry of it at offset 0, which node 2 has too."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.trace = Trace(lambda: 0.0)
        Watch(
            self.trace, raft_invariants(Replicas()), lambda violation: self.broken.append(violation.partition(":")[0])
        )
        for node in (1, 2, 3):
            self.recovers(node)
        self.votes(1, 1, 1)
        self.votes(2, 1, 1)
        self.role(1, "leader", 1)
        self.writes(1, (0, 1, 1))
        self.writes(2, (0, 1, 1))

    def tell(self, node: int, kind: str, **fields: object) -> None:
        self.trace.event(f"n{node}", kind, {"node": node, **fields})

    def recovers(self, node: int, *entries: tuple[int, int, int], epoch: int = 0) -> None:
        end = entries[-1][1] if entries else 0
        self.tell(node, "log_recovered", start_offset=0, end_offset=end, epoch=epoch, entries=entries)
        self.tell(node, "voters_changed", offset=-1, voters=VOTERS)

    def votes(self, node: int, epoch: int, voted_for: int | None) -> None:
        self.tell(node, "vote_synced", epoch=epoch, voted_for=voted_for)

    def role(self, node: int, role: str, epoch: int) -> None:
        self.tell(node, "role_changed", role=role, epoch=epoch, leader=None)

    def writes(self, node: int, *entries: tuple[int, int, int], synced: bool = True) -> None:
        self.tell(node, "log_written", end_offset=entries[-1][1], entries=entries)
        if synced:
            self.tell(node, "log_synced", end_offset=entries[-1][1])

    def commits(self, node: int, end_offset: int) -> None:
        self.tell(node, "committed", end_offset=end_offset)


def test_fault_free_run_violates_nothing() -> None:
    sample = SampleTrace()
    sample.commits(1, 1)
    sample.commits(2, 1)
    sample.recovers(2, (0, 1, 1), epoch=1)
    sample.votes(2, 2, 2)
    sample.role(2, "leader", 2)
    sample.writes(2, (1, 2, 2))
    sample.recovers(1, (0, 1, 1), epoch=1)
    sample.writes(1, (1, 2, 2))
    sample.commits(2, 2)
    sample.tell(2, "voters_changed", offset=1, voters=VOTERS[:2])
    sample.tell(2, "snapshot_taken", end_offset=2)
    assert sample.broken == []


def two_leaders(sample: SampleTrace) -> None:
    sample.role(3, "leader", 1)


def epoch_goes_back(sample: SampleTrace) -> None:
    sample.recovers(2, (0, 1, 1), epoch=0)


def another_vote(sample: SampleTrace) -> None:
    sample.votes(2, 1, 3)


def committed_entry_is_lost(sample: SampleTrace) -> None:
    sample.commits(1, 1)
    sample.recovers(2, epoch=1)


def logs_differ(sample: SampleTrace) -> None:
    sample.writes(1, (1, 2, 1))
    sample.writes(3, (0, 2, 1))


def leader_lacks_an_entry(sample: SampleTrace) -> None:
    sample.commits(1, 1)
    sample.role(3, "leader", 2)


def commit_goes_back(sample: SampleTrace) -> None:
    sample.commits(1, 1)
    sample.commits(1, 0)


def commit_of_a_minority(sample: SampleTrace) -> None:
    sample.writes(1, (1, 2, 1))
    sample.writes(2, (1, 2, 1), synced=False)
    sample.commits(1, 2)


def commit_of_an_old_epoch(sample: SampleTrace) -> None:
    sample.role(2, "leader", 2)
    sample.commits(2, 1)


def snapshot_of_what_is_not_committed(sample: SampleTrace) -> None:
    sample.tell(1, "snapshot_taken", end_offset=1)


def two_voters_removed(sample: SampleTrace) -> None:
    sample.commits(1, 1)
    sample.tell(1, "voters_changed", offset=1, voters=VOTERS[:1])


def removed_before_the_last_is_committed(sample: SampleTrace) -> None:
    sample.tell(1, "voters_changed", offset=1, voters=VOTERS[:2])
    sample.tell(1, "voters_changed", offset=2, voters=VOTERS[:1])


def honest_epoch_is_refused(sample: SampleTrace) -> None:
    sample.role(2, "leader", 5)
    sample.tell(1, "implausible_epoch", epoch=1, told=5, source=2)


def honest_epoch_is_refused_by_an_observer_that_asks_around(sample: SampleTrace) -> None:
    sample.role(2, "leader", 5)
    sample.tell(3, "implausible_epoch", epoch=1, told=5, source=-1)


def committed_entries_are_to_be_truncated(sample: SampleTrace) -> None:
    sample.commits(1, 1)
    sample.tell(1, "unsafe_truncation", end_offset=0, committed=1, source=2)


def stranger_raises_the_epoch(sample: SampleTrace) -> None:
    sample.tell(1, "lies", is_stranger=True)
    sample.votes(2, 7, None)


def election_in_peace(sample: SampleTrace) -> None:
    sample.tell(1, "peace")
    sample.role(3, "prospective", 1)


@pytest.mark.parametrize(
    ("breach", "invariant"),
    [
        (two_leaders, "OneLeaderPerEpoch"),
        (epoch_goes_back, "EpochsNeverGoBack"),
        (another_vote, "OneVotePerEpoch"),
        (committed_entry_is_lost, "CommittedEntriesStay"),
        (logs_differ, "LogsMatch"),
        (leader_lacks_an_entry, "LeadersAreComplete"),
        (commit_goes_back, "CommitsNeverChange"),
        (commit_of_a_minority, "CommitsAreHeldByMajorities"),
        (commit_of_an_old_epoch, "LeadersCommitTheirOwn"),
        (snapshot_of_what_is_not_committed, "LogsStartAtSnapshots"),
        (two_voters_removed, "OneVoterAtATime"),
        (removed_before_the_last_is_committed, "OneVoterAtATime"),
        (honest_epoch_is_refused, "HonestEpochsArePlausible"),
        (honest_epoch_is_refused_by_an_observer_that_asks_around, "HonestEpochsArePlausible"),
        (committed_entries_are_to_be_truncated, "CommittedEntriesAreNotTruncated"),
        (stranger_raises_the_epoch, "EpochsBeginWithCandidates"),
        (election_in_peace, "NoElectionWithoutFaults"),
    ],
)
def test_a_breach_is_seen(breach: object, invariant: str) -> None:
    sample = SampleTrace()
    assert callable(breach)
    breach(sample)
    assert sample.broken[:1] == [invariant]


def test_an_epoch_that_no_replica_was_in_may_be_refused() -> None:
    sample = SampleTrace()
    sample.role(2, "leader", 5)
    sample.tell(1, "implausible_epoch", epoch=1, told=6, source=2)
    sample.tell(1, "implausible_epoch", epoch=1, told=5, source=3)
    assert sample.broken == []


def test_a_peer_with_the_name_of_a_node_may_raise_the_epoch() -> None:
    sample = SampleTrace()
    sample.tell(1, "lies", is_stranger=False)
    sample.votes(2, 7, None)
    assert sample.broken == []


def test_replica_that_finds_the_leader_in_peace_violates_nothing() -> None:
    sample = SampleTrace()
    sample.role(3, "prospective", 1)
    sample.tell(1, "peace")
    sample.role(3, "unattached", 2)
    sample.role(3, "follower", 2)
    assert sample.broken == []
