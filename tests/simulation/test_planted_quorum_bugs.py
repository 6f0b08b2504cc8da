"""Bugs planted into the quorum's rules, each with a script that must detect it, whatever else changes in the product.

The names are those of `tests.support.quorum_bugs`. Each script runs with and without its bug, and must fail only with
it.
"""

from collections.abc import Awaitable, Callable, Sequence

import attrs
import pytest
import trio

from jepsen.simulation.subjects.register_node import DIRECTORY
from jepsen.simulation.trace import Event
from tests.simulation.scripted_quorum import ScriptedQuorum, play
from tests.support.quorum_bugs import QUORUM_BUGS

# The number of attempts where a disk or a clock decides by chance whether the bug has an effect.
ROUNDS = 6
LONG_SECONDS = 120.0


async def power_cuts_of_all(stage: ScriptedQuorum) -> None:
    """All machines lose power at once, shortly after a write was acknowledged."""
    for serial in range(ROUNDS):
        await stage.write(f"{serial}a", f"{serial}b", f"{serial}c")
        for host in stage.cluster.nodes.values():
            stage.cluster.crash(host, power=True, down_seconds=0)
        await stage.cluster.wait_serving()
        await trio.sleep(3)


async def power_cuts_after_votes(stage: ScriptedQuorum) -> None:
    """A node loses power each time it has made a vote durable, according to the trace."""
    cluster, cuts = stage.cluster, 0

    def listen(event: Event) -> None:
        nonlocal cuts
        if event.kind == "vote_synced" and cuts < 8:
            cuts += 1
            cluster.crash(cluster.nodes[event.host], power=True, down_seconds=0)

    stage.simulation.trace.listeners.append(listen)
    cluster.crash(cluster.nodes[stage.leader], power=False, down_seconds=0)
    await trio.sleep(20)


async def a_write_that_nobody_hears_of(stage: ScriptedQuorum) -> None:
    """An isolated leader accepts a write."""
    stage.isolate(stage.leader)
    await stage.write("alone")


async def a_write_without_acknowledgements(stage: ScriptedQuorum) -> None:
    """Both followers have an entry, and the leader fails before it knows: figure 8 of Raft's paper, with
    three voters.
    """
    for serial in range(ROUNDS):
        leader = stage.leader
        await trio.sleep(0.1)  # until their Fetches wait at the leader
        for follower in stage.followers():
            stage.cut(follower, leader)
        await stage.write(str(serial))
        stage.cluster.crash(stage.cluster.nodes[leader], power=False, down_seconds=LONG_SECONDS)
        stage.simulation.network.heal()
        await stage.leads_another(leader)
        await trio.sleep(3)
        stage.cluster.heal()
        await stage.cluster.wait_serving()
        await trio.sleep(1)


async def a_leader_with_a_past(stage: ScriptedQuorum) -> None:
    """An isolated leader writes entries, and then returns to a quorum that has other entries at their offsets."""
    alone = stage.leader
    stage.isolate(alone)
    await stage.write("never", "ever")
    await stage.leads_another(alone)
    await stage.write(*"abcdef")
    stage.simulation.network.heal()
    await trio.sleep(5)
    await stage.write(*"ghi")


async def pages_that_only_seem_durable(stage: ScriptedQuorum) -> None:
    """An fsync fails, the process restarts with the content of the page cache and continues, and then power is cut."""
    for serial in range(ROUNDS):
        host = list(stage.cluster.nodes.values())[serial % 3]
        host.volume.sync_failures = 1.0
        await stage.write(f"{serial}a", f"{serial}b")
        with trio.move_on_after(5):
            await host.ended.wait()
        host.volume.sync_failures = 0.0
        await stage.cluster.wait_serving()
        await stage.write(f"{serial}c", f"{serial}d")
        await trio.sleep(3)
        stage.cluster.crash(host, power=True, down_seconds=0)
        await trio.sleep(3)


async def bits_that_flip(stage: ScriptedQuorum) -> None:
    """Bits flip in logs, in entries that other nodes have too. Soon afterwards all nodes must agree again."""
    cluster, nodes = stage.cluster, list(stage.cluster.nodes.values())
    for serial in range(2 * ROUNDS):
        await stage.write(*(f"{serial}{letter}" for letter in "abcdef"))
        await trio.sleep(1)
        cluster.damage_disk(nodes[serial % 3], DIRECTORY, (".log",), stage.simulation.rng(f"flip/{serial}"))
        await trio.sleep(2)
        await cluster.wait_serving()
        await trio.sleep(3)
        states = [await stage.subject.ask(name, "status", "") for name in cluster.nodes]
        if any(state != states[0] for state in states):
            stage.fail("StatesDiffer")
    assert len([event for event in stage.events if event.kind == "disk_damaged"]) == 2 * ROUNDS


async def bits_that_flip_while_a_voter_is_away(stage: ScriptedQuorum) -> None:
    """One of two voters that have acknowledged entries is damaged and meets the voter that missed them, alone."""
    cluster = stage.cluster
    for serial in range(ROUNDS):
        leader, (damaged, away) = stage.leader, stage.followers()
        cluster.crash(cluster.nodes[away], power=False, down_seconds=LONG_SECONDS)
        await stage.write(f"{serial}a", f"{serial}b")
        cluster.crash(cluster.nodes[leader], power=False, down_seconds=LONG_SECONDS)
        cluster.nodes[away].held_down_until = 0.0
        cluster.damage_disk(cluster.nodes[damaged], DIRECTORY, (".log",), stage.simulation.rng(f"flip/{serial}"))
        await trio.sleep(10)
        cluster.heal()
        await cluster.wait_serving()
        await trio.sleep(5)


async def two_removals(stage: ScriptedQuorum) -> None:
    """An isolated leader is asked to remove one of the others and, after a timeout, the other one too."""
    leader, others = stage.leader, stage.followers()
    stage.isolate(leader)
    for name in others:
        key = stage.subject.key_of(name)
        with trio.move_on_after(2.2):
            give_up = trio.current_time() + 1
            await stage.subject.ask(leader, "remove-voter", "", key.node_id, key.directory_id, "", give_up)


async def a_candidate_that_missed_much(stage: ScriptedQuorum) -> None:
    """One follower misses some writes; then the leader fails, and the two others elect the next one."""
    for serial in range(ROUNDS):
        leader, (behind, _) = stage.leader, stage.followers()
        stage.isolate(behind)
        await stage.write(f"{serial}a", f"{serial}b")
        stage.cluster.crash(stage.cluster.nodes[leader], power=False, down_seconds=LONG_SECONDS)
        stage.simulation.network.heal()
        await stage.leads_another(leader)
        stage.cluster.heal()
        await stage.cluster.wait_serving()
        await trio.sleep(3)


async def elections_without_one_voter(stage: ScriptedQuorum) -> None:
    """One voter receives nothing while the others elect one leader after the other."""
    absent = stage.followers()[0]
    stage.isolate(absent)
    for _ in range(ROUNDS):
        stage.cluster.crash(stage.cluster.nodes[stage.leader], power=False, down_seconds=0)
        await stage.cluster.wait_serving()
        await stage.write("a", "b")
        await trio.sleep(3)
    stage.simulation.network.heal()
    await trio.sleep(5)


async def a_disk_that_is_lost_for_good(stage: ScriptedQuorum) -> None:
    """A follower loses its disk, and replaces its former directory among the voters (KIP-1186)."""
    stage.subject.lose_disk(stage.followers()[0])
    await stage.cluster.wait_serving()
    await stage.all_vote()


async def a_leader_that_moves(stage: ScriptedQuorum) -> None:
    """All replicas follow some other leader once, and nothing asks them to change the voters."""
    for _ in range(3):
        stage.cluster.crash(stage.cluster.nodes[stage.leader], power=False, down_seconds=0)
        await stage.cluster.wait_serving()
        await trio.sleep(5)


@attrs.frozen
class BreachingScript:
    script: Callable[[ScriptedQuorum], Awaitable[None]]
    by: Sequence[str]
    auto_join: bool = False


BREACHES = {
    "votes are not synced": BreachingScript(
        power_cuts_after_votes, ["EpochsNeverGoBack", "OneVotePerEpoch", "OnlyFaultsEndProcesses"]
    ),
    "the log is not synced": BreachingScript(power_cuts_of_all, ["CommittedEntriesStay", "OnlyFaultsEndProcesses"]),
    "entries are committed without a majority": BreachingScript(
        a_write_that_nobody_hears_of, ["CommitsAreHeldByMajorities"]
    ),
    "entries of earlier epochs are committed": BreachingScript(
        a_write_without_acknowledgements, ["LeadersCommitTheirOwn"]
    ),
    "the previous epoch is not checked": BreachingScript(a_leader_with_a_past, ["LogsMatch", "CommitsNeverChange"]),
    "the recovered log is not written again": BreachingScript(
        pages_that_only_seem_durable, ["CommittedEntriesStay", "OnlyFaultsEndProcesses"]
    ),
    "checksums of the log are not checked": BreachingScript(
        bits_that_flip, ["StatesDiffer", "OnlyFaultsEndProcesses", "LogsMatch", "CommittedEntriesStay", "Liveness"]
    ),
    "a voter counts before it has caught up": BreachingScript(
        bits_that_flip_while_a_voter_is_away, ["LeadersAreComplete", "CommitsNeverChange"]
    ),
    "two voter changes at once": BreachingScript(two_removals, ["OneVoterAtATime"]),
    "a replica does not remove its former directory": BreachingScript(
        a_disk_that_is_lost_for_good, ["Liveness"], auto_join=True
    ),
    "voters add themselves again": BreachingScript(a_leader_that_moves, ["OnlyLostVotersAreRemoved"], auto_join=True),
    "only the next epoch is plausible": BreachingScript(elections_without_one_voter, ["HonestEpochsArePlausible"]),
    "votes are granted to outdated logs": BreachingScript(a_candidate_that_missed_much, ["LeadersAreComplete"]),
}


@pytest.mark.parametrize("bug", BREACHES)
def test_a_planted_bug_shows(bug: str) -> None:
    breach = BREACHES[bug]
    assert play(breach.script, auto_join=breach.auto_join).violation is None
    with QUORUM_BUGS[bug].planted():
        violation = play(breach.script, auto_join=breach.auto_join).violation
    assert violation is not None
    assert violation.partition(":")[0] in breach.by
