"""ShareFetch and ShareAcknowledge on a node, whose share coordinator stores the state (KIP-932)."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from broker.client import Producer
from broker.wire.api.share_acknowledge import ShareAcknowledgeRequest
from broker.wire.api.share_fetch import ShareFetchRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.share_member import (
    GROUP,
    VERSION,
    ShareMember,
    acquired,
    enable_share_groups,
    initialize,
    set_group_config,
    values_of,
)
from tests.support.wire_client import WireClient, connected, only

LOCK_MS = 1_000
FOREVER_MS = 60_000
HOUR_MS = 3_600_000
SETTINGS = {
    "share_coordinator_state_topic_num_partitions": 2,
    "group_share_min_record_lock_duration_ms": LOCK_MS,
    "group_share_record_lock_duration_ms": 30_000,
}


@attrs.frozen
class ShareNode:
    """A node with a topic of the group. `join` opens a connection of another member."""

    node: RunningNode
    client: WireClient
    topic_id: bytes
    stack: AsyncExitStack

    async def join(self, member_id: str) -> ShareMember:
        client = await self.stack.enter_async_context(connected(self.node.port))
        return ShareMember(client, self.topic_id, member_id)


@asynccontextmanager
async def share_node(directory: Path, *, start_offset: int = 0, **settings: Any) -> AsyncIterator[ShareNode]:
    async with running_node(directory, **{**SETTINGS, **settings}) as node, AsyncExitStack() as stack:
        client = await stack.enter_async_context(connected(node.port))
        topic_id = await create_topic(client)
        await initialize(node, topic_id, start_offset=start_offset)
        yield ShareNode(node, client, topic_id, stack)
        assert not node.traced.of("handler_failed")


@pytest.fixture
async def shares(tmp_path: Path) -> AsyncIterator[ShareNode]:
    async with share_node(tmp_path) as node:
        yield node


async def test_records_are_delivered_once_and_again_after_a_release(shares: ShareNode) -> None:
    await produce(shares.client, batch(b"0", b"1", b"2"))
    await produce(shares.client, batch(b"3", b"4"))
    anna, ben = await shares.join("anna"), await shares.join("ben")
    response = await anna.fetch()
    assert acquired(response) == [(0, 4, 1)]
    assert values_of(response) == [b"0", b"1", b"2", b"3", b"4"]
    assert response.acquisition_lock_timeout_ms == 30_000
    assert await ben.acquire(max_wait_ms=0) == []
    await anna.accept(0, 1)
    await anna.accept(2, 3, kind=2)
    response = await ben.fetch()
    assert acquired(response) == [(2, 3, 2)]
    assert values_of(response) == [b"2", b"3"]
    assert await ben.acquire(acknowledged=[(2, 3, [3, 1])]) == []
    refused = await ben.acknowledge((4, 4, [1]))
    assert only(only(refused.responses).partitions).error_code == ErrorCode.INVALID_RECORD_STATE


async def test_acknowledged_records_stay_so_after_a_restart_and_others_are_delivered_again(tmp_path: Path) -> None:
    async with share_node(tmp_path) as shares:
        await produce(shares.client, batch(*(b"%d" % number for number in range(10))))
        anna = await shares.join("anna")
        assert await anna.acquire() == [(0, 9, 1)]
        await anna.accept(0, 2)
        await anna.accept(4, 5)
        await anna.accept(7, 7, kind=2)
        shares.node.crash()
    async with running_node(tmp_path, **SETTINGS) as node, connected(node.port) as client:
        member = ShareMember(client, shares.topic_id)
        assert await member.acquire() == [(3, 3, 1), (6, 6, 1), (7, 7, 2), (8, 9, 1)]


async def test_waiting_fetch_gets_produced_and_released_records_and_those_of_a_closed_connection(
    shares: ShareNode,
) -> None:
    anna, ben = await shares.join("anna"), await shares.join("ben")
    await anna.acquire(max_wait_ms=0)
    await anna.send_fetch(indexes=(), max_wait_ms=FOREVER_MS)
    await ben.acquire(max_wait_ms=0)
    await ben.send_fetch(indexes=(), max_wait_ms=FOREVER_MS)
    await produce(shares.client, batch(b"0", b"1"))
    assert acquired(await anna.client.receive()) == [(0, 1, 1)]
    await anna.accept(0, 0, kind=2)
    assert acquired(await ben.client.receive()) == [(0, 0, 2)]
    await ben.send_fetch(indexes=(), max_wait_ms=FOREVER_MS)
    await anna.client.aclose()
    assert acquired(await ben.client.receive()) == [(1, 1, 2)]


async def test_fetch_waits_for_min_bytes_of_records_that_other_members_have_not_acquired(shares: ShareNode) -> None:
    one = batch(b"0")
    anna, ben = await shares.join("anna"), await shares.join("ben")
    for member in (anna, ben):
        await member.acquire(max_wait_ms=0)
    await anna.send_fetch(indexes=(), max_wait_ms=FOREVER_MS, min_bytes=3 * len(one))
    await produce(shares.client, one)
    await produce(shares.client, one)
    assert await ben.acquire() == [(0, 1, 1)]
    for _ in range(3):
        await produce(shares.client, one)
    assert acquired(await anna.client.receive()) == [(2, 4, 1)]


async def test_records_whose_lock_has_expired_are_delivered_to_another_member(shares: ShareNode) -> None:
    await set_group_config(shares.client, "share.record.lock.duration.ms", str(LOCK_MS))
    await produce(shares.client, batch(b"0", b"1"))
    anna, ben = await shares.join("anna"), await shares.join("ben")
    began = trio.current_time()
    assert await anna.acquire() == [(0, 1, 1)]
    assert await ben.acquire(max_wait_ms=FOREVER_MS) == [(0, 1, 2)]
    assert trio.current_time() - began >= LOCK_MS / 1000
    late = await anna.acknowledge((0, 1, [1]))
    assert only(only(late.responses).partitions).error_code == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", [(0, 2, 1)]), ("latest", []), ("by_duration:PT1H", [(2, 2, 1)])]
)
async def test_group_without_a_start_offset_begins_where_its_config_says(
    tmp_path: Path, reset: str, expected: list[tuple[int, int, int]]
) -> None:
    async with share_node(tmp_path, start_offset=-1) as shares:
        await set_group_config(shares.client, "share.auto.offset.reset", reset)
        now_ms = int(time.time() * 1000)
        await produce(shares.client, batch(b"0", b"1", timestamp=now_ms - 2 * HOUR_MS))
        await produce(shares.client, batch(b"2", timestamp=now_ms))
        anna = await shares.join("anna")
        assert await anna.acquire(max_wait_ms=500) == expected
        await produce(shares.client, batch(b"3"))
        assert await anna.acquire(max_wait_ms=FOREVER_MS) == [(3, 3, 1)]


async def test_group_that_began_at_the_end_gets_the_records_that_came_while_it_had_no_member(tmp_path: Path) -> None:
    """The share-partition leaves the memory with its last member, and `latest` would begin at another end later."""
    async with share_node(tmp_path, start_offset=-1) as shares:
        await produce(shares.client, batch(b"0"))
        anna, ben = await shares.join("anna"), await shares.join("ben")
        assert await anna.acquire(max_wait_ms=500) == []
        await anna.fetch(share_session_epoch=-1, indexes=())
        with trio.fail_after(FOREVER_MS / 2000):
            while not shares.node.traced.of("share_partition_dropped"):
                await trio.sleep(0.01)
        await produce(shares.client, batch(b"1"))
        assert await ben.acquire() == [(1, 1, 1)]


async def test_fetch_of_no_bytes_at_least_waits_for_nothing(shares: ShareNode) -> None:
    anna = await shares.join("anna")
    assert await anna.acquire(max_wait_ms=500) == []
    with trio.fail_after(FOREVER_MS / 2000):
        assert await anna.acquire(max_wait_ms=FOREVER_MS, min_bytes=0) == []


async def test_request_outside_of_a_session_or_with_malformed_acknowledgements_is_refused(shares: ShareNode) -> None:
    await produce(shares.client, batch(b"0", b"1"))
    anna = await shares.join("anna")
    for fields, code in (
        ({"share_session_epoch": 1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"acknowledged": [(0, 0, [1])]}, ErrorCode.INVALID_REQUEST),
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"share_acquire_mode": 2}, ErrorCode.INVALID_REQUEST),
        ({"is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
    ):
        request = anna.fetch_request(**fields)
        assert (await anna.client.call(request, VERSION)).error_code == code
    assert await anna.acquire() == [(0, 1, 1)]
    assert (await anna.acknowledge(share_session_epoch=7)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    anna.epoch = 1
    for malformed in ((1, 0, [1]), (0, 1, []), (0, 1, [1, 1, 1]), (0, 1, [4]), (0, 1, [-1])):
        answered = await anna.acknowledge(malformed)
        assert only(only(answered.responses).partitions).error_code == ErrorCode.INVALID_REQUEST
    # Kafka's clients cannot decode a message of more than 32 KiB.
    answered = await anna.acknowledge((0, 99_999, [1] * 99_999 + [77]))
    assert only(only(answered.responses).partitions).error_message == "Invalid acknowledge type: 77"
    stranger = anna.fetch_request(group_id="unknown", share_session_epoch=0, max_wait_ms=FOREVER_MS)
    response = await anna.client.call(stranger, VERSION)
    assert only(only(response.responses).partitions).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not shares.node.traced.of("share_partition_failed")
    response = await anna.fetch(indexes=(0, 5))
    assert only(only(response.responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await anna.accept(0, 1)


async def test_malformed_acknowledgements_are_refused_before_their_partition_is_looked_up(shares: ShareNode) -> None:
    """As in Kafka, where the id of the topic comes first."""
    anna = await shares.join("anna")
    await anna.acquire(max_wait_ms=0)
    for last, code in ((-1, ErrorCode.INVALID_REQUEST), (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        answered = await anna.acknowledge((0, last, [1]), index=7)
        assert only(only(answered.responses).partitions).error_code == code
    anna.topic_id = bytes(range(16))
    answered = await anna.acknowledge((1, 0, [1]))
    assert only(only(answered.responses).partitions).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_final_epoch_ends_the_session_after_its_acknowledgements(shares: ShareNode) -> None:
    await produce(shares.client, batch(b"0", b"1"))
    anna, ben = await shares.join("anna"), await shares.join("ben")
    assert await anna.acquire() == [(0, 1, 1)]
    await anna.acknowledge((0, 0, [1]), share_session_epoch=-1)
    assert await ben.acquire(max_wait_ms=FOREVER_MS) == [(1, 1, 2)]
    assert (await anna.acknowledge(share_session_epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_kip_1222_renewal_extends_the_lock(shares: ShareNode) -> None:
    await set_group_config(shares.client, "share.record.lock.duration.ms", str(LOCK_MS))
    await produce(shares.client, batch(b"0", b"1"))
    anna, ben = await shares.join("anna"), await shares.join("ben")
    assert await anna.acquire() == [(0, 1, 1)]
    await trio.sleep(LOCK_MS / 2000)
    renewed = await anna.acknowledge((0, 0, [4]), is_renew_ack=True)
    assert only(only(renewed.responses).partitions).error_code == 0
    assert await ben.acquire(max_wait_ms=FOREVER_MS) == [(1, 1, 2)]
    await anna.accept(0, 0)


async def test_share_sessions_of_a_broker_are_limited(tmp_path: Path) -> None:
    async with share_node(tmp_path, group_share_max_share_sessions=1, group_share_max_size=1) as shares:
        anna, ben = await shares.join("anna"), await shares.join("ben")
        await anna.acquire(max_wait_ms=0)
        assert (await ben.fetch(max_wait_ms=1)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        await anna.acknowledge(share_session_epoch=-1)
        ben.epoch = 0
        assert (await ben.fetch(max_wait_ms=0)).error_code == 0


async def test_level_0_of_share_version_refuses_and_ends_sessions(shares: ShareNode) -> None:
    anna = await shares.join("anna")
    await anna.acquire(max_wait_ms=0)
    await enable_share_groups(shares.client, level=0)
    refused = await anna.fetch()
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert refused.error_message.startswith("This cluster has no share groups (KIP-932): share.version is 0.")
    acknowledge = ShareAcknowledgeRequest(group_id=GROUP, member_id="anna", share_session_epoch=1)
    assert (await anna.client.call(acknowledge, VERSION)).error_code == ErrorCode.UNSUPPORTED_VERSION
    await enable_share_groups(shares.client)
    request = ShareFetchRequest(group_id=GROUP, member_id="anna", share_session_epoch=1)
    assert (await anna.client.call(request, VERSION)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_group_with_read_committed_gets_no_aborted_record(shares: ShareNode) -> None:
    """Markers are acquired as in Kafka; their consumers acknowledge them as gaps."""
    await set_group_config(shares.client, "share.isolation.level", "read_committed")
    anna = await shares.join("anna")
    async with Producer(f"127.0.0.1:{shares.node.port}", transactional_id="transactions", linger_ms=0) as producer:
        async with producer.transaction():
            await producer.send("topic", b"committed")
        await producer.begin_transaction()
        await producer.send("topic", b"aborted")
        assert values_of(await anna.fetch()) == [b"committed"]
        await producer.abort_transaction()
    await produce(shares.client, batch(b"after"))
    response = await anna.fetch(acknowledged=[(0, 1, [1, 0])], max_wait_ms=FOREVER_MS)
    assert values_of(response) == [b"after"]
    await anna.fetch(acknowledged=[(3, 4, [0, 1])])
    await produce(shares.client, batch(b"last"))
    assert await anna.acquire(max_wait_ms=FOREVER_MS) == [(5, 5, 1)]
