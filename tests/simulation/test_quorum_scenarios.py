"""Named scenarios of the quorum."""

from math import inf

import trio

from jepsen.simulation.subjects.register_node import RAFT_PORT
from tests.simulation.scripted_quorum import ScriptedQuorum, play
from tests.support.quorum_bugs import QUORUM_BUGS


async def a_deaf_minute(stage: ScriptedQuorum) -> None:
    """For a minute, a follower can send but receives nothing."""
    before = stage.epoch
    deaf, other = stage.followers()
    stage.cut(stage.leader, deaf)
    stage.cut(other, deaf)
    await trio.sleep(60)
    stage.cluster.heal()
    await trio.sleep(10)
    stage.events = [
        event for event in stage.events if event.kind == "role_changed" and int(str(event.fields["epoch"])) > before
    ]


def test_a_deaf_follower_moves_the_epoch_by_one_at_most() -> None:
    """KIP-996."""
    assert len({event.fields["epoch"] for event in play(a_deaf_minute).events}) <= 1


def test_pre_votes_that_are_not_heeded_are_found() -> None:
    with QUORUM_BUGS["pre-votes are ignored"].planted():
        assert len({event.fields["epoch"] for event in play(a_deaf_minute).events}) > 5


async def a_stopped_leader(stage: ScriptedQuorum) -> None:
    """Pause the leader for 30 seconds. Returns its trace events from then on."""
    leader = stage.cluster.nodes[stage.leader]
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
    """It steps down before it accepts an append, and its uncommitted entries are replaced by its successor's."""
    stage = play(a_stopped_leader)
    assert stage.violation is None
    (first, *_) = [event for event in stage.events if event.kind == "role_changed"]
    assert first.fields["role"] != "leader"
    before = stage.events[: stage.events.index(first)]
    assert [event for event in before if event.kind in ("log_written", "committed")] == []


async def a_spare_is_added_at_the_address_of_another_node(stage: ScriptedQuorum) -> None:
    """Try for five seconds to add n4 at the address of n2, and then at its own."""
    spare = stage.subject.key_of("n4")
    with trio.move_on_after(5):
        elsewhere = f"n2:{RAFT_PORT}"
        await stage.subject.ask(stage.leader, "add-voter", "", spare.node_id, spare.directory_id, elsewhere, inf)
    assert [voter[0] for voter in stage.subject.replicas.by_host[stage.leader].voters] == [1, 2, 3]
    await stage.subject.change("add-voter", "n4", spare, inf)
    assert [voter[0] for voter in stage.subject.replicas.by_host[stage.leader].voters] == [1, 2, 3, 4]


def test_a_voter_is_added_only_at_an_address_at_which_it_answers() -> None:
    """KIP-853: the leader tries the address first."""
    assert play(a_spare_is_added_at_the_address_of_another_node, spares=1).violation is None


async def a_damaged_spare_that_does_not_start(stage: ScriptedQuorum) -> None:
    """A bit of the log of n2 flips, and its node is held down while it is to be added."""
    spare, administrator = stage.cluster.nodes["n2"], stage.subject.administrator
    await administrator.damage_disk(stage.simulation.rng("damage"))
    spare.held_down_until = inf
    # At once, while the leader still counts the replica as one that has caught up.
    key, address = stage.subject.key_of("n2"), f"n2:{RAFT_PORT}"
    with trio.move_on_after(4):
        await stage.subject.ask(stage.leader, "add-voter", "", key.node_id, key.directory_id, address, inf)
    await administrator.change_voters(stage.simulation.rng("change"))
    if len(stage.voters()) > 1:
        stage.fail("a replica is a voter that does not run")
    spare.held_down_until = 0.0
    await stage.cluster.wait_serving()
    while len(stage.voters()) == 1:
        await administrator.change_voters(stage.simulation.rng("change"))


def test_damaged_replica_is_not_added_to_a_single_voter_before_its_node_answers() -> None:
    """KIP-853: no majority could commit the addition of a replica that never starts again, or elect a leader."""
    assert play(a_damaged_spare_that_does_not_start, voters=1, spares=1).violation is None


def test_damaged_replica_that_is_added_without_an_answer_is_found() -> None:
    with QUORUM_BUGS["new voters do not have to answer"].planted():
        violation = play(a_damaged_spare_that_does_not_start, voters=1, spares=1).violation
    assert violation is not None
