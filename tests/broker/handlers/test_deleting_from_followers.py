"""DeleteRecords responds when the records are deleted from every live replica."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.fetch import FetchRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.scripted_follower import FETCH_VERSION, ScriptedFollower, scripted_follower
from tests.support.wire_client import WireClient, only

LEADER, FOLLOWER = 1, 2
FOREVER_MS = 600_000


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, replica_lag_time_max_ms=60_000) as node:
        yield node
        assert not node.traced.of("handler_failed")


@pytest.fixture
async def follower(node: RunningNode, client: WireClient) -> AsyncIterator[ScriptedFollower]:
    """A follower with three committed records of the topic."""
    async with scripted_follower(node, FOLLOWER) as follower:
        await follower.create_topic([LEADER, FOLLOWER])
        assert (await produce(client, batch(b"a", b"b", b"c"), acks=1)).error_code == 0
        assert (await follower.fetch(3)).high_watermark == 3
        yield follower


def deletion(offset: int, timeout_ms: int = FOREVER_MS) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="topic", partitions=[partition])], timeout_ms=timeout_ms
    )


def outcome(response: Any) -> tuple[int, int]:
    answer = only(only(response.topics).partitions)
    return answer.error_code, answer.low_watermark


def from_start(follower: ScriptedFollower, log_start_offset: int, **fields: Any) -> FetchRequest:
    """A Fetch of a follower that has all records from `log_start_offset` on."""
    request = follower.fetch_request(3, **fields)
    only(only(request.topics).partitions).log_start_offset = log_start_offset
    return request


async def test_deleting_waits_for_the_follower(client: WireClient, follower: ScriptedFollower) -> None:
    await client.send(deletion(2), 2)
    await client.expect_silence(0.05)
    await follower.client.call(from_start(follower, 1), FETCH_VERSION)
    await client.expect_silence(0.05)
    await follower.client.call(from_start(follower, 2), FETCH_VERSION)
    assert outcome(await client.receive()) == (ErrorCode.NONE, 2)


async def test_delete_records_does_not_wait_for_records_that_the_follower_has_deleted(
    client: WireClient, follower: ScriptedFollower
) -> None:
    await client.send(deletion(2), 2)
    await follower.client.call(from_start(follower, 2), FETCH_VERSION)
    assert outcome(await client.receive()) == (ErrorCode.NONE, 2)
    assert outcome(await client.call(deletion(1), 2)) == (ErrorCode.NONE, 2)


async def test_a_follower_that_does_not_delete_is_waited_for_until_the_time_is_over(
    client: WireClient, follower: ScriptedFollower
) -> None:
    assert outcome(await client.call(deletion(2, timeout_ms=10), 2)) == (ErrorCode.REQUEST_TIMED_OUT, 0)


async def test_a_follower_that_is_fenced_is_not_waited_for(client: WireClient, follower: ScriptedFollower) -> None:
    await client.send(deletion(2), 2)
    await client.expect_silence(0.05)
    await follower.heartbeat(want_fence=True)
    assert outcome(await client.receive()) == (ErrorCode.NONE, 2)
    assert outcome(await client.call(deletion(3), 2)) == (ErrorCode.NONE, 3)


async def test_a_follower_that_waits_for_records_hears_of_it_at_once(
    client: WireClient, follower: ScriptedFollower
) -> None:
    opening = from_start(follower, 0)
    opening.session_epoch = 0
    session_id = (await follower.client.call(opening, FETCH_VERSION)).session_id
    waiting = from_start(follower, 0, max_wait_ms=FOREVER_MS)
    waiting.topics, waiting.session_id, waiting.session_epoch = [], session_id, 1
    await follower.client.send(waiting, FETCH_VERSION)
    await follower.client.expect_silence(0.05)

    await client.send(deletion(2), 2)
    with trio.fail_after(10):
        assert follower.fetched(await follower.client.receive()).log_start_offset == 2


async def test_waiting_delete_records_fails_when_the_topic_is_deleted(
    client: WireClient, follower: ScriptedFollower
) -> None:
    await client.send(deletion(2), 2)
    await client.expect_silence(0.05)
    await follower.client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="topic")], timeout_ms=1_000), 6)
    assert outcome(await client.receive()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_waiting_delete_records_is_dropped_with_its_connection(
    node: RunningNode, client: WireClient, follower: ScriptedFollower
) -> None:
    await client.send(deletion(2), 2)
    await client.expect_silence(0.05)
    await client.aclose()
    await follower.client.call(from_start(follower, 2), FETCH_VERSION)
