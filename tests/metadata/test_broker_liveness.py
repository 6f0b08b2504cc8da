"""The controller on a log, watching brokers: whom it fences and when, and what it does when it leads no more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from kraft.replicated_log import Leadership, NotLeader
from metadata.controller import NewTopic
from metadata.errors import NotController, StaleBrokerEpoch
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


async def test_a_silent_broker_is_fenced_after_nine_seconds_and_comes_back(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, second):
        await beat_for(node, 1, first, 8.9)
        assert not is_fenced(node, 2)
        await beat_for(node, 1, first, 0.2)
        assert is_fenced(node, 2)
        assert not is_fenced(node, 1)
        assert not (await node.heartbeat(2, second)).is_fenced
        assert not is_fenced(node, 2)


async def test_what_a_silent_broker_led_has_no_leader_until_it_is_back(autojump_clock: MockClock) -> None:
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


async def test_a_suspect_that_is_gone_is_fenced_at_once(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, second):
        node.controller.broker_connection_lost(1, first)
        node.controller.broker_gone(1, first - 1)  # a former life of it
        node.controller.broker_gone(2, second)  # nobody suspects it
        await trio.sleep(0.1)
        assert node.controller.suspect(1) == node.loader.image.cluster.brokers[1]
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (False, False)
        node.controller.broker_gone(1, first)
        await trio.sleep(0.1)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (True, False)
        assert node.controller.suspect(1) is None


async def test_a_connection_of_a_former_life_says_nothing(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        node.controller.broker_connection_lost(1, first - 1)
        node.controller.broker_connection_lost(77, 0)
        await trio.sleep(1)
        assert not is_fenced(node, 1)


async def test_a_reset_link_tells_of_a_broker_that_the_new_controller_has_not_heard_of(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        node.controller.handle_leader_change(node.log.leadership)
        await node.heartbeat(1, first)
        node.controller.handle_connection_reset(1)
        node.controller.handle_connection_reset(2)
        await trio.sleep(0.4)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (False, True)


async def test_a_new_controller_gives_every_broker_a_whole_session(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, _, second):
        await trio.sleep(5)
        node.controller.handle_leader_change(node.log.leadership)
        await trio.sleep(8.9)
        assert not is_fenced(node, 1)
        await node.heartbeat(2, second)
        await trio.sleep(0.2)
        assert (is_fenced(node, 1), is_fenced(node, 2)) == (True, False)


async def test_a_process_that_was_stopped_reads_its_heartbeats_before_it_fences(autojump_clock: MockClock) -> None:
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


async def test_an_unregistered_broker_is_not_watched_any_more(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        await node.controller.unregister_broker(1)
        with pytest.raises(StaleBrokerEpoch):
            await node.heartbeat(1, first)
        await trio.sleep(20)
        assert list(node.loader.image.cluster.brokers) == [2]


async def test_a_deposed_controller_fences_nobody_and_answers_nobody(autojump_clock: MockClock) -> None:
    async with two_brokers(autojump_clock) as (node, first, _):
        end = node.log.end_offset
        node.controller.handle_leader_change(Leadership(2, 99))
        node.controller.broker_connection_lost(1, first)
        node.controller.handle_connection_reset(2)
        await trio.sleep(20)
        assert node.log.end_offset == end
        with pytest.raises(NotController):
            await node.heartbeat(1, first)
        with pytest.raises(NotController):
            await node.controller.register_broker(registration(3, node.rng))


async def test_leadership_lost_while_appending_changes_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quorum may learn, when it is about to append, that its time as the leader is over."""
    async with two_brokers(autojump_clock) as (node, first, second):
        image, end = node.controller.image, node.log.end_offset

        def refuse(epoch: int, records: object) -> int:
            raise NotLeader("not any more")

        with monkeypatch.context() as deposed:
            deposed.setattr(node.log, "append", refuse)
            with pytest.raises(NotController):
                await node.controller.create_topics([NewTopic("t")])
            assert (node.controller.image, node.log.end_offset) == (image, end)
            node.controller.broker_connection_lost(1, first)
            await trio.sleep(1)
        assert not is_fenced(node, 1)
        assert not node.controller.is_active
        node.controller.handle_leader_change(node.log.leadership)
        assert not (await node.heartbeat(2, second)).is_fenced


async def test_a_refusal_is_confirmed_by_a_commit(autojump_clock: MockClock) -> None:
    """A controller that was replaced, and has not heard of it, must not say what is not true any more."""
    async with two_brokers(autojump_clock) as (node, _, _):
        await node.controller.create_topics([NewTopic("t")])
        end = node.log.end_offset
        (answer,) = await node.controller.create_topics([NewTopic("t")])
        assert answer.error is not None
        assert node.log.end_offset == node.log.committed_end_offset == end + 1
