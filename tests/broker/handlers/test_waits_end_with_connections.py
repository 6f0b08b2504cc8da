"""Requests that wait when their connection closes: nothing of them stays, nor of the connection and its buffers."""

import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.net.connection import Connection
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.requests import batch, fetch_request, produce, produce_request
from tests.support.running_node import RunningNode, running_node
from tests.support.scripted_follower import scripted_follower
from tests.support.wire_client import WireClient, connected

pytestmark = pytest.mark.usefixtures("few_objects")

LEADER, FOLLOWER = 1, 2
FOREVER_MS = 600_000
COMMITTED = 3
PRODUCE = (produce_request(batch(b"value"), timeout_ms=FOREVER_MS), 9)
DELETE_RECORDS = (
    DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="topic", partitions=[DeleteRecordsPartition(partition_index=0, offset=COMMITTED - 1)]
            )
        ],
        timeout_ms=FOREVER_MS,
    ),
    2,
)
FETCH = (fetch_request(COMMITTED, max_wait_ms=FOREVER_MS), 12)
JOIN = JoinGroupRequest(
    group_id="group",
    session_timeout_ms=FOREVER_MS,
    rebalance_timeout_ms=FOREVER_MS,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)
# The last version in which a new member need not ask for its id first.
JOIN_VERSION = 3
# Connections that each test closes.
LEAVING = 3
FETCH_IN_A_SESSION = (fetch_request(COMMITTED, max_wait_ms=FOREVER_MS, session_epoch=0), 12)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node that leads a topic with a follower, which has fetched three records and fetches no more."""
    async with running_node(tmp_path, replica_lag_time_max_ms=FOREVER_MS) as node:
        async with scripted_follower(node, FOLLOWER) as follower:
            await follower.create_topic([LEADER, FOLLOWER])
            async with connected(node.port) as producer:
                assert (await produce(producer, batch(b"a", b"b", b"c"), acks=1)).error_code == 0
            assert (await follower.fetch(COMMITTED)).high_watermark == COMMITTED
            yield node
        assert not node.traced.of("handler_failed")


def connections() -> int:
    """The number of instances in memory, wherever they are referenced."""
    gc.collect()
    return sum(isinstance(thing, Connection) for thing in gc.get_objects())


@asynccontextmanager
async def connections_that_close(node: RunningNode) -> AsyncIterator[list[WireClient]]:
    """Some connections, which are closed after the block. Waits until none but the last of them is in memory.

    The reactor refers to the last one that it has served until it serves another.
    """
    before = connections()
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(node.port)) for _ in range(LEAVING)]
        assert connections() >= before + LEAVING
    with trio.fail_after(20):
        while connections() > before + 1:
            # Each look holds the node's loop: leave it some time.
            await trio.sleep(0.1)


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([PRODUCE], id="Produce"),
        pytest.param([PRODUCE] * 3, id="Produce by its shortcut"),
        pytest.param([DELETE_RECORDS], id="DeleteRecords"),
        pytest.param([FETCH], id="Fetch"),
        pytest.param([FETCH_IN_A_SESSION], id="Fetch in a session"),
        pytest.param([PRODUCE, FETCH, DELETE_RECORDS, FETCH_IN_A_SESSION, PRODUCE], id="all of them"),
    ],
)
async def test_wait_for_a_partition_ends_with_its_connection(
    node: RunningNode, requests: list[tuple[Any, int]]
) -> None:
    async with connections_that_close(node) as clients:
        for client in clients:
            await client.pipeline(*requests)
            await client.expect_silence(0.05)
    broker = node.node.broker
    assert broker is not None
    waiters = broker.partitions.get("topic", 0).waiters
    assert not waiters.for_commit.waiting
    assert not waiters.for_deletions
    if FETCH_IN_A_SESSION not in requests:  # the session outlives its connection
        assert not waiters.for_high_watermark


async def test_wait_for_a_group_ends_with_its_connection(tmp_path: Path) -> None:
    """The group keeps the member until its session expires; before the fix it kept the connection for as long."""
    overrides = {"group_max_session_timeout_ms": str(FOREVER_MS), "group_initial_rebalance_delay_ms": "0"}
    async with running_node(tmp_path, **overrides) as node, connected(node.port) as leader:
        await leader.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        joined = await leader.call(JOIN, JOIN_VERSION)
        assert (joined.error_code, joined.leader) == (0, joined.member_id)
        async with connections_that_close(node) as clients:
            for client in clients:
                await client.send(JOIN, JOIN_VERSION)  # waits until the leader joins again
                await client.expect_silence(0.05)
        assert not node.traced.of("handler_failed")
