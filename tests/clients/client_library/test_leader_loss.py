"""Records of the client library while a leader is killed, with three nodes of ours or of Apache Kafka."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from broker.client import (
    Consumer,
    Producer,
)
from tests.support.client_peers import WITHIN_S, ClientPeer

pytestmark = pytest.mark.clients


@pytest.fixture
def kill(peer: ClientPeer) -> Iterator[Callable[[int], None]]:
    """Kill a node, which is restarted after the test."""
    killed: list[Any] = []

    def kill_node(node_id: int) -> None:
        killed.append(peer.cluster.by_id(node_id))
        killed[-1].kill()

    yield kill_node
    for member in killed:
        member.launch()
        member.wait_serving(len(peer.cluster.members))


async def test_records_survive_a_killed_leader_once_and_in_order(
    peer: ClientPeer, topic: str, group: str, kill: Callable[[int], None]
) -> None:
    partitions = await peer.create(topic, 3)
    total, killed_at = 3000, 1000
    read: dict[int, list[tuple[int, bytes | None]]] = {each.partition: [] for each in partitions}
    is_killed = trio.Event()
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 200}

    async def produce() -> None:
        async with Producer(peer.bootstrap, linger_ms=1, batch_size=2000) as producer:
            for number in range(total):
                for partition in partitions:
                    producer.send_soon(topic, b"%d" % number, partition=partition.partition)
                if number == killed_at:
                    leader = next(each.leader_id for each in await producer.partitions_for(topic))
                    await trio.to_thread.run_sync(kill, leader)
                    is_killed.set()
                if number % 50 == 0:
                    await trio.sleep(0.01)

    async def consume() -> None:
        async with Consumer(peer.bootstrap, topics=[topic], **settings) as consumer:
            while sum(map(len, read.values())) < 3 * total:
                for record in await consumer.fetch():
                    read[record.partition].append((record.offset, record.value))

    with trio.fail_after(2 * WITHIN_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            nursery.start_soon(produce)
    assert is_killed.is_set()
    expected = [(number, b"%d" % number) for number in range(total)]
    assert [read[partition.partition] == expected for partition in partitions] == [True] * 3
