"""New quorums: formatted by `format_log`, or with configured voters without directory ids (KIP-853)."""

import pytest

from kraft.core import ReplicaKey, VoterSet
from kraft.core.messages import AddVoterRequest, Error
from kraft.recovery import BOOTSTRAP, format_log
from tests.support.directory_ids import directory_id
from tests.support.quorum_nodes import DIRECTORY, QuorumNode, QuorumNodes, running_nodes, snapshot

RECORDS = (b"a feature", b"another")


async def until_all_heard(quorum: QuorumNodes, *records: bytes) -> None:
    await quorum.until(lambda: all(node.heard.records == list(records) for node in quorum.nodes.values()))


async def test_first_leader_appends_the_records_it_was_formatted_with() -> None:
    """The leader is announced only after these are committed, so state machines never see a log without them."""
    async with running_nodes(3, spares=1, formatted=RECORDS) as quorum:
        await quorum.commit(b"more")
        await until_all_heard(quorum, *RECORDS, b"more")
        assert all(node.heard.snapshots == 0 for node in quorum.nodes.values())
        leader = await quorum.leader()
        assert leader.quorum.core.voters == quorum.plan.voters


async def test_records_of_the_formatting_are_written_once() -> None:
    async with running_nodes(3, formatted=RECORDS) as quorum:
        for round_number in range(3):
            await (await quorum.leader()).stop()
            await quorum.commit(b"%d" % round_number)
            down = next(node for node in quorum.nodes.values() if not node.is_up)
            await quorum.start(down.node_id)
        await until_all_heard(quorum, *RECORDS, b"0", b"1", b"2")


async def test_next_leader_appends_its_bootstrap_records_if_the_first_one_stopped_before() -> None:
    async with running_nodes(3, formatted=RECORDS) as quorum:
        for _ in range(4):  # most often after the epoch's first entry, before the records
            await quorum.until(lambda: any(node.leads_in_core for node in quorum.nodes.values()))
            former = next(node for node in quorum.nodes.values() if node.leads_in_core)
            await former.stop()
            await quorum.start(former.node_id)
        await quorum.commit(b"more")
        await until_all_heard(quorum, *RECORDS, b"more")


async def test_bootstrap_records_of_the_first_leader_replace_those_of_others() -> None:
    async with running_nodes(1, spares=2, formatted=RECORDS) as quorum:
        await quorum.commit(b"more")
        for node_id in (2, 3):
            node = quorum.nodes[node_id]
            await node.stop()
            node.wipe()
            await format_log(node.disk, DIRECTORY, VoterSet(), [b"something else"])
            await quorum.start(node_id)
            added = await quorum.nodes[1].quorum.change_voters(AddVoterRequest(node.voter, 5_000))
            assert added.error is Error.NONE
        await quorum.nodes[1].stop()
        await quorum.commit(b"from another leader")
        others = [quorum.nodes[2], quorum.nodes[3]]
        expected = [*RECORDS, b"more", b"from another leader"]
        await quorum.until(lambda: all(node.heard.records == expected for node in others))


async def test_sole_voter_without_bootstrap_records_leads_at_once() -> None:
    async with running_nodes(1, formatted=()) as quorum:
        await quorum.commit(b"first")
        await until_all_heard(quorum, b"first")


async def test_bootstrap_snapshot_is_removed_after_the_next_snapshot() -> None:
    async with running_nodes(1, formatted=RECORDS) as quorum:
        await quorum.commit(b"first")
        node = await quorum.leader()
        first = f"{BOOTSTRAP.offset:020}-{BOOTSTRAP.epoch:010}.checkpoint"
        assert first in node.disk.list(DIRECTORY)
        await snapshot(node)
        await quorum.until(lambda: first not in node.disk.list(DIRECTORY))
        await node.stop()
        await quorum.start(node.node_id)
        await quorum.commit(b"second")
        assert node.heard.records == [*RECORDS, b"first", b"second"]
        assert node.quorum.core.voters == quorum.plan.voters


def names_all_disks(node: QuorumNode, quorum: QuorumNodes) -> bool:
    return node.quorum.core.voters == quorum.plan.voters


@pytest.mark.parametrize("count", [1, 3])
async def test_voters_configured_without_directory_ids_add_them(count: int) -> None:
    async with running_nodes(count, disks_known=False) as quorum:
        await quorum.until(lambda: all(names_all_disks(node, quorum) for node in quorum.nodes.values()))
        await quorum.commit(b"a")
        assert quorum.plan.configured != quorum.plan.voters


async def test_voter_that_returns_with_another_directory_is_not_a_voter() -> None:
    async with running_nodes(3, disks_known=False) as quorum:
        await quorum.until(lambda: all(names_all_disks(node, quorum) for node in quorum.nodes.values()))
        leader = await quorum.leader()
        lost = next(node for node in quorum.nodes.values() if node is not leader)
        await lost.stop()
        lost.wipe()
        await quorum.start(lost.node_id)
        await quorum.commit(b"a")
        await quorum.until(lambda: lost.heard.records == [b"a"])
        assert not lost.quorum.core.is_voter
        voter = leader.quorum.core.voters.get(lost.node_id)
        assert voter is not None
        assert voter.key == ReplicaKey(lost.node_id, directory_id(f"dir{lost.node_id}"))
        told = {"node": lost.node_id, "voter": directory_id(f"dir{lost.node_id}"), "mine": lost.directory_id}
        assert told in lost.traced("voter_directory_differs")


async def test_a_voter_that_moves_is_found_at_its_new_address() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        moved = next(node for node in quorum.nodes.values() if node is not leader)
        await moved.stop()
        before = moved.port
        await moved.move()
        await quorum.start(moved.node_id)
        await quorum.commit(b"a")
        address = f"127.0.0.1:{moved.port}"
        assert moved.port != before

        def named(node: QuorumNode) -> bool:
            voter = node.quorum.core.voters.get(moved.node_id)
            return voter is not None and voter.address == address

        await quorum.until(lambda: all(named(node) for node in quorum.nodes.values()))
