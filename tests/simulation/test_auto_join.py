"""Replicas that add themselves to the voters (KIP-1186), while leaders fail and links are cut."""

import trio

from jepsen.simulation.trace import Event
from tests.simulation.scripted_quorum import ScriptedQuorum, play


async def two_spares(stage: ScriptedQuorum) -> None:
    await stage.all_vote()


def test_spare_replicas_add_themselves_one_after_the_other() -> None:
    stage = play(two_spares, voters=1, spares=2, auto_join=True)
    assert stage.violation is None
    written = [event for event in stage.events_by_kind["voters_changed"] if event.host == "n1"]
    assert [len(event.fields["voters"]) for event in written][-2:] == [2, 3]


async def a_minute_without_the_config(stage: ScriptedQuorum) -> None:
    await trio.sleep(60)


def test_spare_replica_without_the_config_stays_an_observer() -> None:
    stage = play(a_minute_without_the_config, voters=1, spares=1)
    assert stage.violation is None
    assert [voter.node_id for voter in stage.voters()] == [1]


async def a_leader_that_fails_with_each_change(stage: ScriptedQuorum) -> None:
    """The leader's process ends as soon as a change of the voters is in its log, three times."""
    crashes = 0

    def listen(event: Event) -> None:
        nonlocal crashes
        if event.kind != "voters_changed" or stage.subject.replicas.replica(event).role != "leader":
            return
        if crashes < 3:
            crashes += 1
            stage.cluster.crash(stage.cluster.nodes[event.host], power=False, down_seconds=5)

    stage.simulation.trace.listeners.append(listen)
    stage.subject.lose_disk(stage.followers()[0])
    await stage.cluster.wait_serving()
    await stage.all_vote()
    assert crashes == 3


def test_replica_joins_although_the_leader_fails_with_each_change() -> None:
    assert play(a_leader_that_fails_with_each_change, spares=2, auto_join=True).violation is None


async def a_leader_that_is_cut_off_with_a_change(stage: ScriptedQuorum) -> None:
    """The leader and the replica with a new disk are cut off when the change of the voters is in the leader's log."""
    leader, (new, *others) = stage.leader, stage.followers()
    written: list[int] = []

    def listen(event: Event) -> None:
        if event.kind == "voters_changed" and event.host == leader and not written:
            written.append(int(str(event.fields["offset"])))
            stage.part(leader, *others)
            stage.part(new, *others)

    stage.simulation.trace.listeners.append(listen)
    stage.subject.lose_disk(new)
    await stage.leads_another(leader)
    stage.simulation.network.heal()
    await stage.all_vote()
    truncated = [event for event in stage.events_by_kind["log_truncated"] if event.host == leader]
    assert [event.fields["end_offset"] for event in truncated] == written


def test_replica_joins_although_a_deposed_leader_has_changed_the_voters_for_it() -> None:
    assert play(a_leader_that_is_cut_off_with_a_change, voters=5, auto_join=True).violation is None


async def a_disk_that_is_lost_twice(stage: ScriptedQuorum) -> None:
    follower = stage.followers()[0]
    for _ in range(2):
        stage.subject.lose_disk(follower)
        await stage.cluster.wait_serving()
        await stage.all_vote()
        await stage.write("a", "b")


def test_replica_replaces_its_former_directory_each_time_its_disk_is_lost() -> None:
    stage = play(a_disk_that_is_lost_twice, auto_join=True)
    assert stage.violation is None
    assert len([event for event in stage.events if event.kind == "disk_lost"]) == 2


async def a_voter_that_is_removed(stage: ScriptedQuorum) -> None:
    """As in Kafka, a controller that adds itself has to stop before it is removed."""
    follower = stage.followers()[0]
    key = stage.subject.key_of(follower)
    stage.subject.administrator.removals.append((key.node_id, key.directory_id))
    await stage.subject.change("remove-voter", follower, key, trio.current_time() + 10)
    assert key not in stage.voters()
    await stage.all_vote()


def test_removed_voter_adds_itself_again() -> None:
    assert play(a_voter_that_is_removed, auto_join=True).violation is None


async def a_new_disk_in_a_partition(stage: ScriptedQuorum) -> None:
    """The replica reaches no voter for half a minute."""
    new, *others = stage.followers()
    before = stage.voters()
    stage.part(new, stage.leader, *others)
    stage.subject.lose_disk(new)
    await trio.sleep(30)
    assert stage.voters() == before
    stage.simulation.network.heal()
    await stage.all_vote()


def test_replica_joins_after_a_partition_ends() -> None:
    assert play(a_new_disk_in_a_partition, auto_join=True).violation is None
