"""The leader's address, the description of a quorum, notifications of reset connections, and the trace."""

import trio

from kraft.description import QuorumDescription
from kraft.replicated_log import Leadership
from tests.support.quorum_nodes import WALL_S, QuorumNode, running_nodes, snapshot


async def test_all_replicas_know_the_leaders_address() -> None:
    async with running_nodes(3, spares=1) as quorum:
        leader = await quorum.leader()
        assert leader.quorum.leader_address == leader.voter.address
        await quorum.until(
            lambda: all(node.quorum.leader_address == leader.voter.address for node in quorum.nodes.values())
        )


async def test_leader_address_is_none_before_the_leader_has_committed_in_its_epoch() -> None:
    async with running_nodes(3) as quorum:
        await quorum.leader()
        for node in list(quorum.nodes.values())[1:]:
            await node.stop()
        node = quorum.nodes[1]
        await quorum.until(lambda: node.quorum.leadership.leader_id is None)
        assert node.quorum.leader_address is None
        assert node.quorum.describe().leader_id is None


async def test_the_leader_describes_voters_and_observers() -> None:
    """KIP-595's DescribeQuorum, with the times of KIP-836 on the wall clock."""
    async with running_nodes(3, spares=1) as quorum:
        leader = await quorum.leader()
        await quorum.commit(b"a")
        end_offset = leader.quorum.end_offset

        def description() -> QuorumDescription:
            return leader.quorum.describe()

        def all_caught_up() -> bool:
            states = [*description().voter_states, *description().observer_states]
            return len(states) == 4 and all(state.log_end_offset == end_offset for state in states)

        await quorum.until(all_caught_up)
        told = description()
        assert (told.leader_id, told.epoch) == (leader.node_id, leader.quorum.leadership.epoch)
        assert told.high_watermark == end_offset
        assert [state.key.node_id for state in told.voter_states] == [1, 2, 3]
        assert [state.address for state in told.voter_states] == [node.voter.address for node in quorum.voters]
        assert [(state.key, state.address) for state in told.observer_states] == [(quorum.nodes[4].voter.key, "")]
        for state in (*told.voter_states, *told.observer_states):
            assert WALL_S * 1000 - 10_000 < state.last_fetch_ms <= WALL_S * 1000
            assert WALL_S * 1000 - 10_000 < state.last_caught_up_ms <= WALL_S * 1000


async def test_followers_describe_no_replica_states() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        other = next(node for node in quorum.nodes.values() if node is not leader)
        await quorum.until(lambda: other.quorum.describe().leader_id == leader.node_id)
        told = other.quorum.describe()
        assert (told.voter_states, told.observer_states) == ((), ())
        assert told.voters == quorum.plan.voters


async def test_voter_that_never_fetched_has_no_end_offset_and_no_times() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        former = await quorum.leader()
        absent = next(node for node in quorum.nodes.values() if node is not former)
        await absent.stop()
        await former.quorum.leave()
        leader = await quorum.leader()
        states = {state.key: state for state in leader.quorum.describe().voter_states}
        unknown = states[absent.voter.key]
        assert (unknown.log_end_offset, unknown.last_fetch_ms, unknown.last_caught_up_ms) == (-1, -1, -1)


async def test_listeners_are_notified_of_reset_connections() -> None:
    """At both ends: the leader itself does not connect to a follower that fetches, nor to an observer."""
    async with running_nodes(3, spares=1) as quorum:
        leader = await quorum.leader()
        await quorum.until(lambda: all(node.quorum.leader_address is not None for node in quorum.nodes.values()))
        gone = [node for node in quorum.nodes.values() if node is not leader][-2:]
        for node in gone:
            await node.stop()
            await quorum.until(lambda node=node: node.node_id in leader.heard.resets)
        await leader.stop()
        left = next(node for node in quorum.nodes.values() if node.is_up)
        await quorum.until(lambda: leader.node_id in left.heard.resets)


def ends(node: QuorumNode, kind: str) -> list[int]:
    return [fields["end_offset"] for fields in node.traced(kind)]


async def test_every_step_of_the_protocol_is_traced() -> None:
    async with running_nodes(3, spares=1) as quorum:
        await quorum.commit(b"a", b"b")
        leader = await quorum.leader()
        epoch, end_offset = leader.quorum.leadership.epoch, leader.quorum.end_offset
        # A replica may commit an entry that a majority has before its own disk has it.
        for kind in ("committed", "log_synced"):
            await quorum.until(lambda kind=kind: all(end_offset in ends(node, kind) for node in quorum.nodes.values()))
        entries = ((0, 1, epoch), (1, 2, epoch), (2, 4, epoch))
        for node in quorum.nodes.values():
            assert node.traced("log_recovered")[0] | {"epoch": 0} == {
                "node": node.node_id,
                "start_offset": 0,
                "end_offset": 0,
                "epoch": 0,
                "entries": (),
            }
            written = [entry for fields in node.traced("log_written") for entry in fields["entries"]]
            assert tuple(entry for entry in written if entry[2] == epoch) == entries
            assert ends(node, "log_written")[-1] == ends(node, "log_synced")[-1] == end_offset
            voters = tuple((voter.node_id, voter.key.directory_id) for voter in quorum.plan.voters.voters)
            assert node.traced("voters_changed")[-1] == {"node": node.node_id, "offset": 1, "voters": voters}
        (elected,) = leader.traced("leader_elected")
        assert (elected["epoch"], elected["cause"]) == (epoch, "election timeout")
        assert {
            "node": leader.node_id,
            "role": "leader",
            "epoch": epoch,
            "leader": leader.node_id,
            "cause": "majority voted for it",
        } in leader.traced("role_changed")
        votes = [fields for node in quorum.nodes.values() for fields in node.traced("vote_synced")]
        assert len([vote for vote in votes if (vote["epoch"], vote["voted_for"]) == (epoch, leader.node_id)]) >= 2

        await snapshot(leader)
        assert ends(leader, "snapshot_taken") == [end_offset]
        spare = quorum.nodes[4]
        await spare.stop()
        spare.wipe()
        await quorum.start(4)
        await quorum.until(lambda: bool(spare.traced("snapshot_installed")))
        (installed,) = spare.traced("snapshot_installed")
        assert (installed["end_offset"], installed["epoch"]) == (end_offset, epoch)
        await spare.stop()
        await quorum.start(4)
        recovered = spare.traced("log_recovered")[-1]
        assert (recovered["start_offset"], recovered["end_offset"]) == (end_offset, end_offset)


async def test_replica_commits_entries_of_a_majority_before_its_own_sync() -> None:
    """`committed` is traced when a majority has the entry durably. `log_synced` follows later if this replica's disk is
    slow.
    """
    async with running_nodes(3, spares=1) as quorum:
        spare, may_sync = quorum.nodes[4], trio.Event()
        await spare.stop()
        spare.wipe()
        spare.events.clear()

        async def stall_once_written() -> None:
            if spare.traced("log_written"):
                await may_sync.wait()

        spare.disk.during_sync = stall_once_written
        await quorum.commit(b"a")
        end_offset = (await quorum.leader()).quorum.end_offset
        await quorum.start(4)
        await quorum.until(lambda: end_offset in ends(spare, "committed"))
        assert ends(spare, "log_synced") == []
        may_sync.set()
        await quorum.until(lambda: end_offset in ends(spare, "log_synced"))


async def test_truncation_is_traced_with_the_restored_voters() -> None:
    async with running_nodes(3, spares=1) as quorum:
        await quorum.commit(b"a")
        await quorum.until(lambda: all(len(node.heard.records) == 1 for node in quorum.nodes.values()))
        old = await quorum.leader()
        others = [node for node in quorum.voters if node is not old]
        for node in others:
            await node.stop()
        before = old.quorum.end_offset
        epoch = old.quorum.leadership.epoch
        old.quorum.append(epoch, [b"lost"])
        await quorum.until(lambda: old.quorum.leadership != Leadership(old.node_id, epoch))
        await old.stop()
        for node in others:
            await quorum.start(node.node_id)
        await quorum.commit(b"b")
        await quorum.start(old.node_id)
        await quorum.until(lambda: old.heard.records == [b"a", b"b"])
        assert old.traced("log_truncated")[-1]["end_offset"] == before
