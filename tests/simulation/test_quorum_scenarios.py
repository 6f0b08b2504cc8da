"""What a quorum does in troubles that have a name."""

import trio

from tests.simulation.staging import Stage, play
from tests.support.planted_bugs import QUORUM_BUGS


async def a_deaf_minute(stage: Stage) -> None:
    """A follower is heard for a minute, and hears nothing of the others."""
    before = stage.epoch
    deaf, other = stage.followers()
    stage.cut(stage.leader, deaf)
    stage.cut(other, deaf)
    await trio.sleep(60)
    stage.subject.cluster.heal()
    await trio.sleep(10)
    stage.events = [
        event for event in stage.events if event.kind == "role" and int(str(event.fields["epoch"])) > before
    ]


def test_a_deaf_follower_moves_the_epoch_by_one_at_most() -> None:
    """KIP-996."""
    assert len({event.fields["epoch"] for event in play(a_deaf_minute).events}) <= 1


def test_pre_votes_that_are_not_heeded_are_found() -> None:
    with QUORUM_BUGS["pre-votes are not heeded"].planted():
        assert len({event.fields["epoch"] for event in play(a_deaf_minute).events}) > 5


async def a_stopped_leader(stage: Stage) -> None:
    """SIGSTOP for 30 seconds. What is kept of the trace is what the leader did from then on."""
    leader = stage.subject.cluster.nodes[stage.leader]
    epoch = stage.epoch
    leader.pause()
    stage.events.clear()
    await trio.sleep(30)
    assert stage.leader != leader.name
    assert stage.epoch > epoch
    leader.resume()
    await trio.sleep(5)
    stage.events = [event for event in stage.events if event.host == leader.name]


def test_a_leader_that_was_stopped_writes_nothing_of_its_own_when_it_wakes() -> None:
    """It steps down before it takes anything, and what it has not committed yields to its successor's."""
    stage = play(a_stopped_leader)
    assert stage.violation is None
    (first, *_) = [event for event in stage.events if event.kind == "role"]
    assert first.fields["role"] != "leader"
    before = stage.events[: stage.events.index(first)]
    assert [event for event in before if event.kind in ("log_written", "committed")] == []


async def two_removals(stage: Stage) -> None:
    """A leader that nobody hears is asked to remove one of the others, and when that takes too long, the other too."""
    leader, others = stage.leader, stage.followers()
    stage.cut(leader, *others)
    for name in others:
        stage.cut(name, leader)
    for name in others:
        key = stage.subject.key_of(name)
        with trio.move_on_after(2.2):
            give_up = trio.current_time() + 1
            await stage.subject.ask(leader, "remove-voter", "", key.node_id, key.directory_id, "", give_up)


def test_two_changes_of_voters_at_once_are_found() -> None:
    """KIP-853: one at a time, or majorities before and after need have nobody in common."""
    assert play(two_removals).violation is None
    with QUORUM_BUGS["two changes of voters at once"].planted():
        violation = play(two_removals).violation
    assert violation is not None
    assert violation.startswith("OneVoterAtATime")


async def power_cuts_after_votes(stage: Stage) -> None:
    """The power goes wherever a vote has just been made durable, as the trace says."""
    hosts = stage.subject.cluster.nodes
    cuts = 0

    def listen(event: object) -> None:
        nonlocal cuts
        last = stage.events[-1]
        if last.kind == "vote_synced" and cuts < 8:
            cuts += 1
            stage.subject.cluster.crash(hosts[last.host], power=True, down_seconds=0)

    stage.simulation.trace.listeners.append(listen)
    stage.subject.cluster.crash(hosts[stage.leader], power=False, down_seconds=0)
    await trio.sleep(20)


def test_a_vote_that_is_not_synced_is_found() -> None:
    """Raft's paper, section 5.2."""
    assert play(power_cuts_after_votes).violation is None
    with QUORUM_BUGS["the vote is not synced"].planted():
        violation = play(power_cuts_after_votes).violation
    assert violation is not None
    assert violation.partition(":")[0] in ("EpochsNeverGoBack", "OneVotePerEpoch")
