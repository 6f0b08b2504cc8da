"""A leader and its followers: commits, acknowledgements to producers, and the ISR."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.errors import ErrorCode
from metadata.protocol import ConfigResourceType
from tests.support.requests import batch, fetch, fetch_request, produce, produce_request, read_values, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.scripted_follower import FETCH_VERSION, ScriptedFollower, scripted_follower
from tests.support.wire_client import WireClient, connected, only

LEADER, FOLLOWER = 1, 2
BOTH = [LEADER, FOLLOWER]
# The lag time of tests in which a follower lags. In the other tests no follower may lag, on any machine.
SHORT_LAG_MS = 500
lags_soon = pytest.mark.parametrize("lag_max_ms", [SHORT_LAG_MS])
FOREVER_MS = 600_000


@pytest.fixture
def lag_max_ms() -> int:
    return 60_000


@pytest.fixture
async def node(tmp_path: Path, lag_max_ms: int) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, replica_lag_time_max_ms=lag_max_ms) as node:
        yield node
        assert not node.traced.of("handler_failed")


@pytest.fixture
async def follower(node: RunningNode) -> AsyncIterator[ScriptedFollower]:
    """A follower that is in sync with the node."""
    async with scripted_follower(node, FOLLOWER) as follower:
        await follower.create_topic(BOTH)
        await follower.fetch(0)
        yield follower


async def until_isr(follower: ScriptedFollower, *isr: int) -> None:
    with trio.fail_after(10):
        while await follower.isr() != [*isr]:
            await trio.sleep(0.01)


def produced(response: object) -> tuple[int, int]:
    answer = only(only(response.responses).partition_responses)  # type: ignore[attr-defined]
    return answer.error_code, answer.base_offset


# Acknowledgement


async def test_acks_all_is_answered_when_the_follower_has_it(client: WireClient, follower: ScriptedFollower) -> None:
    await client.send(produce_request(batch(b"value")), 9)

    sent = await follower.fetch(0, max_wait_ms=FOREVER_MS)
    assert [record.value for record in records_of(sent)] == [b"value"]
    assert sent.high_watermark == 0
    await client.expect_silence(0.05)  # the request was sent, but may not have arrived

    assert (await follower.fetch(1)).high_watermark == 1  # the response to this very Fetch
    assert produced(await client.receive()) == (ErrorCode.NONE, 0)


async def test_acks_1_is_answered_at_once_and_consumers_have_to_wait(
    node: RunningNode, client: WireClient, follower: ScriptedFollower
) -> None:
    assert (await produce(client, batch(b"value"), acks=1)).error_code == 0
    assert (await fetch(client)).high_watermark == 0
    assert await read_values(client) == []

    async with connected(node.port) as consumer:
        await consumer.send(fetch_request(max_wait_ms=FOREVER_MS), 12)
        await consumer.expect_silence(0.05)
        await follower.fetch(1)
        partition = only(only((await consumer.receive()).responses).partitions)
    assert [record.value for record in records_of(partition)] == [b"value"]
    assert partition.high_watermark == 1


async def test_requests_of_one_connection_are_committed_together(
    client: WireClient, follower: ScriptedFollower
) -> None:
    await client.pipeline(*[(produce_request(batch(b"value")), 9)] * 9)
    await client.expect_silence(0.05)
    await follower.fetch(7)
    for offset in range(7):
        assert produced(await client.receive()) == (ErrorCode.NONE, offset)
    await client.expect_silence(0.05)
    await follower.fetch(9)
    for offset in (7, 8):
        assert produced(await client.receive()) == (ErrorCode.NONE, offset)


@pytest.mark.parametrize("repeats", [1, 5])
async def test_produce_that_is_not_committed_in_time_gets_request_timed_out(
    client: WireClient, follower: ScriptedFollower, repeats: int
) -> None:
    for offset in range(repeats):  # the later ones are repeated, and take the shortcut
        request = produce_request(batch(b"value"))
        request.timeout_ms = 1
        assert produced(await client.call(request, 9)) == (ErrorCode.REQUEST_TIMED_OUT, offset)
    assert (await follower.fetch(repeats)).high_watermark == repeats  # the records are committed nevertheless


async def test_a_batch_that_is_sent_again_waits_like_the_first(client: WireClient, follower: ScriptedFollower) -> None:
    records = batch(b"value", producer_id=7, producer_epoch=0, base_sequence=0)
    await client.pipeline((produce_request(records), 9), (produce_request(records), 9))
    await client.expect_silence(0.05)
    await follower.fetch(1)
    assert [produced(await client.receive()) for _ in range(2)] == [(ErrorCode.NONE, 0)] * 2
    assert produced(await client.call(produce_request(records), 9)) == (ErrorCode.NONE, 0)


async def test_a_producer_that_hangs_up_is_forgotten(node: RunningNode, follower: ScriptedFollower) -> None:
    async with connected(node.port) as producer:
        await producer.send(produce_request(batch(b"value")), 9)
        await follower.fetch(0, max_wait_ms=FOREVER_MS)
    assert (await follower.fetch(1)).high_watermark == 1


# In-sync replicas


@lags_soon
async def test_a_follower_that_lags_has_to_leave(client: WireClient, follower: ScriptedFollower) -> None:
    # On a busy machine the follower is found to lag late, so the request must not expire before.
    await client.send(produce_request(batch(b"value"), timeout_ms=FOREVER_MS), 9)
    assert produced(await client.receive()) == (ErrorCode.NONE, 0)
    await until_isr(follower, LEADER)
    assert (await produce(client, batch(b"value"))).error_code == 0


@lags_soon
async def test_a_follower_that_has_everything_stays(follower: ScriptedFollower) -> None:
    await trio.sleep(2 * SHORT_LAG_MS / 1000)
    assert await follower.isr() == BOTH


@lags_soon
async def test_a_follower_that_has_caught_up_is_let_in(client: WireClient, follower: ScriptedFollower) -> None:
    await produce(client, batch(b"value"))
    await until_isr(follower, LEADER)

    await follower.fetch(0)
    assert await follower.isr() == [LEADER]
    await follower.fetch(1)
    await until_isr(follower, *BOTH)


@lags_soon
async def test_with_too_few_in_sync_nothing_more_is_committed(node: RunningNode, client: WireClient) -> None:
    """KIP-966: such a leader could be lost together with its records."""
    async with scripted_follower(node, FOLLOWER) as follower:
        await follower.create_topic(BOTH, min_insync_replicas="2")
        await follower.fetch(0)
        assert (await produce(client, batch(b"value"))).error_code == ErrorCode.REQUEST_TIMED_OUT
        await until_isr(follower, LEADER)

        for _ in range(3):
            assert (await produce(client, batch(b"value"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await produce(client, batch(b"value"), acks=1)).error_code == 0
        assert (await fetch(client)).high_watermark == 0

        await follower.fetch(2)
        await until_isr(follower, *BOTH)
        assert (await fetch(client)).high_watermark == 2


async def test_idempotent_batch_in_flight_after_a_refused_batch_gets_the_same_error(
    node: RunningNode, client: WireClient
) -> None:
    """With OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka would send unacknowledged records of other partitions twice."""
    first, second, third = (
        batch(b"value", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in range(3)
    )
    async with scripted_follower(node, FOLLOWER) as follower:
        await follower.create_topic(BOTH, min_insync_replicas="2")
        await follower.fetch(0)
        assert (await produce(client, first, acks=1)).error_code == ErrorCode.NONE
        await follower.heartbeat(want_fence=True)
        await until_isr(follower, LEADER)
        assert (await produce(client, second)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await follower.heartbeat()
        await follower.fetch(1)
        await until_isr(follower, *BOTH)

        assert (await produce(client, third)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

        # The producer has dropped the second batch.
        assert (await produce(client, third)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await produce(client, second, acks=1)).base_offset == 1
        assert (await produce(client, third, acks=1)).base_offset == 2


async def test_a_fenced_follower_is_not_let_in(client: WireClient, follower: ScriptedFollower) -> None:
    """KIP-841."""
    await follower.heartbeat(want_fence=True)
    await until_isr(follower, LEADER)
    assert (await produce(client, batch(b"value"))).error_code == 0

    await follower.fetch(1)
    # If the follower had been proposed for the ISR, it would count now.
    assert (await produce(client, batch(b"value"))).error_code == 0
    assert await follower.isr() == [LEADER]
    await follower.heartbeat()
    await follower.fetch(2)
    await until_isr(follower, *BOTH)


async def test_fetches_of_a_former_incarnation_are_refused(client: WireClient, follower: ScriptedFollower) -> None:
    """KIP-903: the former incarnation's records may have been lost since."""
    former = follower.broker_epoch
    await follower.heartbeat(want_fence=True)
    await until_isr(follower, LEADER)
    await follower.register()

    stale = await follower.fetch(0, broker_epoch=former)
    assert stale.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await follower.fetch(0)
    await until_isr(follower, *BOTH)


# Fetching


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"leader_epoch": 1, "max_wait_ms": FOREVER_MS}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_invalid_fetch_of_a_follower_is_refused(
    follower: ScriptedFollower, fields: dict[str, int], code: ErrorCode
) -> None:
    assert (await follower.fetch(0, **fields)).error_code == code


async def test_nothing_that_was_refused_counts(client: WireClient, follower: ScriptedFollower) -> None:
    await client.send(produce_request(batch(b"value")), 9)
    assert (await follower.fetch(1, leader_epoch=1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await follower.fetch(2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    diverging = await follower.fetch(2, last_fetched_epoch=0)
    assert (diverging.error_code, diverging.records) == (0, b"")
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (0, 1)
    await client.expect_silence(0.05)


async def test_fetch_of_a_broker_without_a_replica_is_refused(node: RunningNode, follower: ScriptedFollower) -> None:
    """It may know of a reassignment that the leader does not know yet, and has to retry."""
    async with scripted_follower(node, 3) as stranger:
        stranger.topic_id = follower.topic_id
        assert (await stranger.fetch(0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await stranger.fetch(0, leader_epoch=-1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_that_waits_says_nothing_new(client: WireClient, follower: ScriptedFollower) -> None:
    """Its Fetch counts at its arrival, not at its response."""
    await produce(client, batch(b"value"), acks=1)
    await follower.client.send(follower.fetch_request(1, max_wait_ms=FOREVER_MS), FETCH_VERSION)
    await follower.client.expect_silence(0.05)
    await client.send(produce_request(batch(b"value")), 9)
    sent = follower.fetched(await follower.client.receive())
    assert (len(records_of(sent)), sent.high_watermark) == (1, 1)
    await client.expect_silence(0.05)


async def test_a_follower_goes_on_waiting_for_records_where_something_else_has_changed(
    client: WireClient, follower: ScriptedFollower
) -> None:
    """In a session without news, a change of the topic's config does not complete the Fetch."""
    opening = follower.fetch_request(0)
    opening.session_epoch = 0
    session_id = (await follower.client.call(opening, FETCH_VERSION)).session_id
    waiting = follower.fetch_request(0, max_wait_ms=FOREVER_MS)
    waiting.session_id, waiting.session_epoch = session_id, 1
    await follower.client.send(waiting, FETCH_VERSION)

    config = AlterableConfig(name="min.insync.replicas", config_operation=0, value="2")
    resource = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="topic", configs=[config])
    altered = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(altered.responses).error_code == 0
    await follower.client.expect_silence(0.05)
    await client.send(produce_request(batch(b"value")), 9)

    assert len(records_of(follower.fetched(await follower.client.receive()))) == 1


async def test_a_follower_hears_at_once_of_a_partition_that_is_not_there(follower: ScriptedFollower) -> None:
    follower.topic_id = b"unknown".ljust(16)
    with trio.fail_after(5):
        absent = await follower.fetch(0, max_wait_ms=FOREVER_MS)
    assert absent.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [1, -1])
async def test_with_flush_messages_followers_need_not_wait_for_the_leaders_disk(
    node: RunningNode, client: WireClient, acks: int
) -> None:
    async with scripted_follower(node, FOLLOWER) as follower:
        await follower.create_topic(BOTH, flush_messages="1")
        await follower.fetch(0)
        await client.send(produce_request(batch(b"value"), acks=acks), 9)
        assert len(records_of(await follower.fetch(0, max_wait_ms=FOREVER_MS))) == 1
        await follower.fetch(1)
        assert produced(await client.receive()) == (ErrorCode.NONE, 0)
        assert await _soon(client, lambda high_watermark: high_watermark == 1)


async def test_where_the_log_ends_is_another_question_of_a_follower_than_of_a_consumer(
    client: WireClient, follower: ScriptedFollower
) -> None:
    await produce(client, batch(b"value"), acks=1)

    async def latest(replica_id: int) -> int:
        asked = ListOffsetsTopic(name="topic", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        response = await client.call(ListOffsetsRequest(replica_id=replica_id, topics=[asked]), 7)
        offset: int = only(only(response.topics).partitions).offset
        return offset

    assert (await latest(FOLLOWER), await latest(-1)) == (1, 0)


async def _soon(client: WireClient, holds: Callable[[int], bool]) -> bool:
    with trio.fail_after(5):
        while not holds((await fetch(client)).high_watermark):
            await trio.sleep(0.01)
    return True
