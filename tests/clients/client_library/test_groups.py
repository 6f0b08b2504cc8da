"""Consumers of the client library in groups, with three nodes of ours or of Apache Kafka."""

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from tests.support.client_peers import WITHIN_S, ClientPeer, fill

pytestmark = pytest.mark.clients


class Told(RebalanceListener):
    """Records the calls of the listener."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", len(partitions)))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", len(partitions)))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", len(partitions)))


async def until_shared(consumers: Sequence[Consumer], sizes: Sequence[int]) -> list[Any]:
    """Fetch with every consumer until their assignments have these sizes. Returns the records."""
    records: list[Any] = []
    with trio.fail_after(WITHIN_S):
        while sorted(len(each.assignment()) for each in consumers) != sorted(sizes):
            for each in consumers:
                records += await each.fetch(timeout_s=0.05)
    return records


PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "range": {"group_protocol": "classic", "partition_assignment_strategy": "range"},
    "roundrobin": {"group_protocol": "classic", "partition_assignment_strategy": "roundrobin"},
    "sticky": {"group_protocol": "classic", "partition_assignment_strategy": "sticky"},
    "cooperative-sticky": {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"},
    "kip-848-uniform": {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
    "kip-848-range": {"group_protocol": "consumer", "group_remote_assignor": "range"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_share_a_group_and_each_record_is_read_once(
    protocol: str, peer: ClientPeer, topic: str, group: str
) -> None:
    partitions = await peer.create(topic, 6)
    await fill(peer, partitions, 5)
    listener = Told()
    settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **PROTOCOLS[protocol]}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Consumer(peer.bootstrap, **settings))
        first.subscribe([topic], listener=listener)
        records = await until_shared([first], [6])
        records += await peer.take(first, 30 - len(records))
        second = await stack.enter_async_context(Consumer(peer.bootstrap, topics=[topic], **settings))
        assert await until_shared([first, second], [3, 3]) == []
        assert listener.events[0] == ("assigned", 6)
        cooperates = protocol.startswith(("cooperative", "kip"))
        assert ("revoked", 3 if cooperates else 6) in listener.events
        await fill(peer, partitions, 1)
        with trio.fail_after(WITHIN_S):
            while len(records) < 36:
                records += [*await first.fetch(timeout_s=0.05), *await second.fetch(timeout_s=0.05)]
        async with Admin(peer.bootstrap) as admin:
            described = (await admin.describe_groups([group])).value(group)
        assert described.state == "Stable"
        assert sorted(each for member in described.members for each in member.assignment) == partitions
        expected = protocol.removeprefix("kip-848-")
        assert described.assignor == expected
        assert described.type == ("consumer" if protocol.startswith("kip") else "classic")
    assert len({(record.partition, record.offset) for record in records}) == len(records) == 36
    async with Consumer(peer.bootstrap, **settings) as consumer:
        committed = await consumer.committed(partitions)
        assert [each.offset for each in committed.values() if each is not None] == [6] * 6


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "kip-848-uniform"])
async def test_static_members_come_back_to_their_partitions(
    protocol: str, peer: ClientPeer, topic: str, group: str
) -> None:
    await peer.create(topic, 4)
    settings = {"group_id": group, "topics": [topic], "heartbeat_interval_ms": 200, **PROTOCOLS[protocol]}

    def member(name: str, **more: Any) -> Consumer:
        return Consumer(peer.bootstrap, group_instance_id=name, **settings, **more)

    listener = Told()
    async with member("a", listener=listener) as stays:
        async with member("b") as leaves:
            await until_shared([stays, leaves], [2, 2])
            before, theirs, told = leaves.assignment(), stays.assignment(), list(listener.events)
        async with member("b") as back:
            await until_shared([stays, back], [2, 2])
            assert (back.assignment(), stays.assignment()) == (before, theirs)
            assert [event for event in listener.events[len(told) :] if event[1]] == []
    async with Admin(peer.bootstrap) as admin:
        described = (await admin.describe_groups([group])).value(group)
        assert {each.instance_id for each in described.members} == {"a", "b"}
        removed = await admin.remove_members_from_group(group, ["a", "b", "c"])
        assert set(removed.succeeded) == {"a", "b"}


@pytest.mark.parametrize("protocol", ["range", "kip-848-uniform"])
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "text"])
async def test_patterns_choose_topics_and_compiled_ones_also_later_topics(
    protocol: str, is_compiled: bool, peer: ClientPeer, topic: str, group: str
) -> None:
    """Coordinators evaluate text, and look for new topics only every ten seconds."""
    pattern: Any = re.compile(f"{topic}-[0-9]+") if is_compiled else f"{topic}-[0-9]+"
    settings = {"group_id": group, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **PROTOCOLS[protocol]}
    chosen = await peer.create(f"{topic}-1")
    await peer.create(f"{topic}-other")
    if not is_compiled:
        chosen += await peer.create(f"{topic}-2")
    async with Consumer(peer.bootstrap, pattern=pattern, heartbeat_interval_ms=200, **settings) as consumer:
        await until_shared([consumer], [len(chosen)])
        assert consumer.assignment() == set(chosen)
        if is_compiled:
            chosen += await peer.create(f"{topic}-2")
        await fill(peer, chosen, 1)
        assert {record.topic for record in await peer.take(consumer, 2)} == {f"{topic}-1", f"{topic}-2"}


async def test_committed_offsets_are_where_the_group_goes_on(peer: ClientPeer, topic: str, group: str) -> None:
    partitions = first, second = await peer.create(topic, 2)
    await fill(peer, partitions, 10)
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    outcomes: list[Any] = []
    async with Consumer(peer.bootstrap, enable_auto_commit=False, **settings) as consumer:
        consumer.assign([first])
        assert await consumer.committed(partitions) == {first: None, second: None}
        await consumer.fetch(max_records=4, timeout_s=WITHIN_S)
        await consumer.commit()
        consumer.commit_soon({second: OffsetAndMetadata(7, 0, "note")}, lambda *told: outcomes.append(told))
        await consumer.commit({})
        assert await consumer.committed(partitions) == {first: (4, 0, ""), second: (7, 0, "note")}
        assert [error for _, error in outcomes] == [None]
    async with Consumer(peer.bootstrap, topics=[topic], auto_commit_interval_ms=100, **settings) as consumer:
        records = await peer.take(consumer, 9)
        assert sorted((record.partition, record.offset) for record in records) == [
            *((0, offset) for offset in range(4, 10)),
            *((1, offset) for offset in range(7, 10)),
        ]
        assert consumer.group_metadata().group_id == group
        await consumer.unsubscribe()
        assert consumer.assignment() == set()
    async with Admin(peer.bootstrap) as admin:
        offsets = (await admin.list_group_offsets({group: None})).value(group).raise_first()
        assert {each: offset and offset.offset for each, offset in offsets.items()} == {first: 10, second: 10}


async def test_an_exception_leaves_the_record_that_was_worked_on_uncommitted(
    peer: ClientPeer, topic: str, group: str
) -> None:
    (partition,) = await peer.create(topic)
    await fill(peer, [partition], 5)
    settings: dict[str, Any] = {"group_id": group, "topics": [topic], "auto_offset_reset": "earliest"}

    async def work_until_failure() -> None:
        with trio.fail_after(WITHIN_S):
            async with Consumer(peer.bootstrap, **settings) as consumer:
                async for record in consumer:
                    if record.offset == 2:
                        raise LookupError("the work on the record failed")

    with pytest.raises(LookupError):
        await work_until_failure()
    async with Consumer(peer.bootstrap, **settings) as consumer:
        assert (await consumer.fetch(timeout_s=WITHIN_S))[0].offset == 2
