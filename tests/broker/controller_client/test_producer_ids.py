"""Blocks of producer ids (KIP-730): unique ids, prefetched blocks, and errors while no controller is reachable."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.controller_client.lifecycle import BrokerLifecycle, LifecycleConfig
from broker.controller_client.producer_ids import ALLOCATE_TIMEOUT_MS, ProducerIds
from broker.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import BrokerRegistration
from metadata.image import MetadataLoader
from tests.support.controller_channel_harness import ME, ControllerChannelHarness, controller_channel_harness
from tests.support.scripted_node import Answer, ScriptedNode, scripted_node

BLOCK = 20


class Controller:
    """Grants blocks, or responds with an error if the test says so."""

    def __init__(self) -> None:
        self.next_id = 0
        self.size = BLOCK
        self.error = ErrorCode.NONE
        self.gate: trio.Event | None = None

    def __call__(self, request: AllocateProducerIdsRequest) -> Answer | Awaitable[Answer]:
        first, self.next_id = self.next_id, self.next_id + self.size
        response = AllocateProducerIdsResponse(
            error_code=self.error, producer_id_start=first, producer_id_len=self.size
        )
        return response if self.gate is None else self._later(self.gate, response)

    async def _later(self, gate: trio.Event, response: Any) -> Any:
        await gate.wait()
        return response


def producer_ids(harness: ControllerChannelHarness) -> ProducerIds:
    registration = BrokerRegistration(
        cluster_id="", broker_id=ME, incarnation_id=bytes(16), end_points=(), features={}, log_dirs=()
    )
    config = LifecycleConfig(
        heartbeat_interval_ms=2_000, registration_timeout_ms=60_000, log_dir_failure_timeout_ms=30_000
    )
    lifecycle = BrokerLifecycle(harness.env, config, registration, harness.channel, MetadataLoader(), list)
    return ProducerIds(harness.channel, lifecycle, ME)


@asynccontextmanager
async def allocating(
    controller: Controller,
) -> AsyncIterator[tuple[ScriptedNode, ControllerChannelHarness, ProducerIds]]:
    async with (
        scripted_node(controller) as node,
        controller_channel_harness() as harness,
        trio.open_nursery() as nursery,
    ):
        ids = producer_ids(harness)
        nursery.start_soon(ids.run)
        harness.announce(1, 1, node.address)
        yield node, harness, ids
        nursery.cancel_scope.cancel()


async def test_ids_are_unique_and_consecutive_without_failures(jumping_clock: MockClock) -> None:
    async with allocating(Controller()) as (node, _, ids), trio.open_nursery() as nursery:
        given = []

        async def take(count: int) -> None:
            for _ in range(count):
                given.append(await ids.allocate())

        for _ in range(7):
            nursery.start_soon(take, 3 * BLOCK)
    assert sorted(given) == list(range(21 * BLOCK))
    assert {request.broker_id for request in node.requests} == {ME}


async def test_next_block_is_prefetched(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with allocating(controller) as (node, harness, ids):
        for _ in range(BLOCK - 2):
            await ids.allocate()
        assert len(node.requests) == 1
        await ids.allocate()
        await trio.sleep(0.1)
        assert len(node.requests) == 2
        harness.announce(None, 2)
        node.drop_connections()
        for _ in range(BLOCK):
            await ids.allocate()


async def test_all_callers_time_out_together_without_a_controller(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with allocating(controller) as (node, _, ids), trio.open_nursery() as nursery:
        controller.gate = trio.Event()
        started = trio.current_time()

        async def refused() -> None:
            with pytest.raises(KafkaError, match="no producer ids"):
                await ids.allocate()
            assert trio.current_time() - started == pytest.approx(ALLOCATE_TIMEOUT_MS / 1000, abs=0.1)

        for _ in range(10):
            nursery.start_soon(refused)
        await trio.sleep(ALLOCATE_TIMEOUT_MS / 1000 + 1)
        assert len(node.requests) == 1
        controller.gate.set()
        controller.gate = None
        assert await ids.allocate() == BLOCK, "the block whose answer came too late is lost"


async def test_refusal_is_raised_and_the_next_caller_retries(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with allocating(controller) as (_, _, ids):
        controller.error = ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError):
            await ids.allocate()
        controller.error = ErrorCode.NONE
        assert await ids.allocate() == BLOCK


async def test_empty_block_is_an_error(jumping_clock: MockClock) -> None:
    controller = Controller()
    async with allocating(controller) as (_, _, ids):
        controller.size = 0
        with pytest.raises(KafkaError):
            await ids.allocate()
