"""Power cuts of one machine after the other, at any moment, while records are appended and snapshots taken."""

from random import Random

import pytest

from tests.support.quorum_nodes import QuorumNodes, running_nodes, snapshot


async def cut_power(quorum: QuorumNodes, node_id: int, rng: Random) -> None:
    node = quorum.nodes[node_id]
    await node.stop()
    node.disk.power_cut(rng)


@pytest.mark.seeds(3)
async def test_acknowledged_records_are_neither_lost_nor_duplicated_by_power_cuts(seed: int, full: bool) -> None:
    rng, acknowledged = Random(seed), []
    async with running_nodes(3) as quorum:
        for round_number in range(100 if full else 8):
            for number in range(rng.randrange(1, 6)):
                value = b"%d.%d" % (round_number, number)
                await quorum.commit(value)
                acknowledged.append(value)
            leader = await quorum.leader()
            if rng.random() < 0.3:
                await snapshot(leader)
            leader.quorum.append(leader.quorum.leadership.epoch, [b"nobody waits for this"])
            victim = rng.choice([leader.node_id, *quorum.nodes])
            await cut_power(quorum, victim, rng)
            if rng.random() < 0.5:
                value = b"%d with two" % round_number
                await quorum.commit(value)
                acknowledged.append(value)
            await quorum.start(victim)
        await quorum.commit(b"end")
        acknowledged.append(b"end")
        await quorum.until(lambda: all(node.heard.records[-1:] == [b"end"] for node in quorum.nodes.values()))
        for node in quorum.nodes.values():
            kept = [record for record in node.heard.records if record != b"nobody waits for this"]
            assert kept == acknowledged
        assert len({tuple(node.heard.records) for node in quorum.nodes.values()}) == 1
