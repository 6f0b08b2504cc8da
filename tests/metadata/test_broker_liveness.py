"""The controller on a log: which brokers it fences and when, and its end as the active controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from kraft.replicated_log import Leadership, NotLeader
from metadata.controller import NewTopic
from metadata.protocol import KafkaError
from metadata.records import NO_LEADER
from tests.support.metadata import MetadataNode, metadata_node, registration
from tests.support.volatile_disk import VolatileDisk


@asynccontextmanager
async def two_brokers(autojump_clock: MockClock) -> AsyncIterator[tuple[MetadataNode, int, int]]:
    async with metadata_node(VolatileDisk(), watches_brokers=True) as node:
        yield node, await node.join(1), await node.join(2)


def is_fenced(node: MetadataNode, broker_id: int) -> bool:
    return node.loader.image.cluster.brokers[broker_id].fenced


async def beat_for(node: MetadataNode, broker_id: int, epoch: int, seconds: float) -> None:
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await node.heartbeat(broker_id, epoch)
        await trio.sleep(min(2, end - trio.current_time()))


async def test_silent_broker_is_fenced_after_nine_seconds_and_unfenced_on_return(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, second):
        await beat_for(node, 1, first, 8.9)
        assert not is_fenced(node, 2)
        await beat_for(node, 1, first, 0.2)
        assert is_fenced(node, 2)
        assert not is_fenced(node, 1)
        assert not (await node.heartbeat(2, second)).is_fenced
        assert not is_fenced(node, 2)


async def test_partition_of_a_fenced_sole_replica_has_no_leader_until_it_returns(autojump_clock: MockClock) -> None:
    async with metadata_node(VolatileDisk(), watches_brokers=True) as node:
        epoch = await node.join(1)
        await node.controller.create_topics([NewTopic("t")])
        await trio.sleep(9.1)
        partition = node.loader.image.topics.by_name["t"].partitions[0]
        assert (partition.leader, partition.eligible_leader_replicas) == (NO_LEADER, (1,))
        await node.heartbeat(1, epoch)
        assert node.loader.image.topics.by_name["t"].partitions[0].leader == 1


async def test_a_broken_connection_fences_after_a_short_grace_unless_a_heartbeat_comes(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers(autojump_clock) as (node, first, second):
        node.controller.broker_connection_lost(1, first)
        node.controller.broker_connection_lost(2, second)
        await trio.sleep(0.2)
        await node.heartbeat(1, first)
        await trio.sleep(0.2)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (False, True)


async def test_suspect_broker_that_is_gone_is_fenced_at_once(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, second):
        node.controller.broker_connection_lost(1, first)
        node.controller.expire_suspect_broker(1, first - 1)  # a former incarnation
        node.controller.expire_suspect_broker(2, second)  # it is not a suspect
        await trio.sleep(0.1)
        assert node.controller.suspect_broker(1) == node.loader.image.cluster.brokers[1]
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (False, False)
        node.controller.expire_suspect_broker(1, first)
        await trio.sleep(0.1)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (True, False)
        assert node.controller.suspect_broker(1) is None


async def test_broken_connection_of_a_former_incarnation_is_ignored(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        node.controller.broker_connection_lost(1, first - 1)
        node.controller.broker_connection_lost(77, 0)
        await trio.sleep(1)
        assert not is_fenced(node, 1)


async def test_reset_connection_makes_a_broker_without_heartbeats_a_suspect(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        node.controller.handle_leader_change(node.log.leadership)
        await node.heartbeat(1, first)
        node.controller.handle_connection_reset(1)
        node.controller.handle_connection_reset(2)
        await trio.sleep(0.4)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (False, True)


async def test_new_controller_starts_a_whole_session_for_every_broker(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, _, second):
        await trio.sleep(5)
        node.controller.handle_leader_change(node.log.leadership)
        await trio.sleep(8.9)
        assert not is_fenced(node, 1)
        await node.heartbeat(2, second)
        await trio.sleep(0.2)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (True, False)


async def test_suspended_controller_reads_heartbeats_before_it_fences(autojump_clock: MockClock) -> None:
    async with metadata_node(VolatileDisk(), watches_brokers=True) as node:
        epoch, end = await node.join(1), node.log.end_offset
        autojump_clock.jump(60)
        await trio.sleep(0.2)
        await node.heartbeat(1, epoch)
        await trio.sleep(5)
        assert node.log.end_offset == end, "it was never fenced"


async def test_heartbeats_write_nothing(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        end = node.log.end_offset
        await beat_for(node, 1, first, 6)
        assert node.log.end_offset == end


async def test_unregistered_broker_has_no_session(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        await node.controller.unregister_broker(1)
        with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
            await node.heartbeat(1, first)
        await trio.sleep(20)
        assert list(node.loader.image.cluster.brokers) == [2]


async def test_deposed_controller_fences_no_broker_and_refuses_requests(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        end = node.log.end_offset
        node.controller.handle_leader_change(Leadership(2, 99))
        node.controller.broker_connection_lost(1, first)
        node.controller.handle_connection_reset(2)
        await trio.sleep(20)
        assert node.log.end_offset == end
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await node.heartbeat(1, first)
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await node.controller.register_broker(registration(3, node.rng))


async def test_leadership_lost_while_appending_changes_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append may raise NotLeader, if the replica finds at that moment that it no longer leads."""
    async with two_brokers(autojump_clock) as (node, first, second):
        image, end = node.controller.image, node.log.end_offset

        def refuse(epoch: int, records: object) -> int:
            raise NotLeader("not any more")

        with monkeypatch.context() as deposed:
            deposed.setattr(node.log, "append", refuse)
            with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
                await node.controller.create_topics([NewTopic("t")])
            assert (node.controller.image, node.log.end_offset) == (image, end)
            node.controller.broker_connection_lost(1, first)
            await trio.sleep(1)
        assert not is_fenced(node, 1)
        assert not node.controller.is_active
        node.controller.handle_leader_change(node.log.leadership)
        assert not (await node.heartbeat(2, second)).is_fenced


async def test_a_refusal_is_confirmed_by_a_commit(autojump_clock: MockClock) -> None:
    """A controller that was replaced without knowing it must not respond from its old state."""
    async with two_brokers(autojump_clock) as (node, _, _):
        await node.controller.create_topics([NewTopic("t")])
        end = node.log.end_offset
        (answer,) = await node.controller.create_topics([NewTopic("t")])
        assert answer.error is not None
        assert node.log.end_offset == node.log.committed_end_offset == end + 1
