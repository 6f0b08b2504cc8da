"""The requests of a producer, and its handling of errors, with nodes that answer from scripts."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest
import trio
from trio.testing import MockClock

from broker.client import KafkaError, Producer, TimedOut, TopicPartition
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.api.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import read_header
from tests.support.scripted_node import ScriptedNode, scripted_node

TOPIC_ID = b"o" * 16
FAST: dict[str, Any] = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "linger_ms": 0}

# The answer to the nth Produce request; None for no response.
Answers = Callable[[int, ProduceRequest], ProduceResponse | None]


def answer(code: ErrorCode = ErrorCode.NONE, *, base_offset: int = 0, **fields: Any) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=base_offset, **fields)
    return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[partition])])


@asynccontextmanager
async def leader(answers: Answers) -> AsyncIterator[tuple[ScriptedNode, list[ProduceRequest]]]:
    """A node that leads the one partition of the one topic, and the Produce requests that it has received."""
    produced: list[ProduceRequest] = []

    def script(request: Any) -> Any:
        if isinstance(request, MetadataRequest):
            return described([node], leader_id=1)
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=77, producer_epoch=0)
        produced.append(request)
        return answers(len(produced), request)

    node: ScriptedNode
    async with scripted_node(script) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        with trio.fail_after(10):
            yield node, produced


def described(nodes: list[ScriptedNode], leader_id: int, leader_epoch: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader_id, leader_epoch=leader_epoch)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=node.port)
            for number, node in enumerate(nodes, start=1)
        ],
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=[partition])],
    )


def sequences(requests: list[ProduceRequest]) -> list[tuple[int, int, int]]:
    """Producer epoch, base sequence and number of records of each request's batch."""
    headers = [read_header(bytes(request.topic_data[0].partition_data[0].records or b""), 0) for request in requests]
    assert all(header.producer_id == 77 for header in headers)
    return [(header.producer_epoch, header.base_sequence, header.count) for header in headers]


async def test_retriable_error_is_retried_with_the_same_sequence() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.NOT_ENOUGH_REPLICAS) if number == 2 else answer(base_offset=number)

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        assert (await producer.send("orders", b"2")).offset == 3
    assert sequences(produced) == [(0, 0, 1), (0, 1, 1), (0, 1, 1)]


async def test_rows_of_a_table_are_retried_with_their_sequence_and_renumbered_under_the_next_epoch_kip_360() -> None:
    codes = {2: ErrorCode.NOT_ENOUGH_REPLICAS, 3: ErrorCode.NOT_LEADER_OR_FOLLOWER, 4: ErrorCode.UNKNOWN_PRODUCER_ID}

    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(codes.get(number, ErrorCode.NONE), base_offset=number, log_start_offset=number)

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        offsets = await producer.produce_arrow("orders", pa.table({"value": ["2", "3", "4"]}))
    assert offsets == {TopicPartition("orders", 0): [range(5, 8)]}
    assert sequences(produced) == [(0, 0, 1), (0, 1, 3), (0, 1, 3), (0, 1, 3), (1, 0, 3)]


async def test_rows_of_a_table_are_given_up_after_the_delivery_timeout(jumping_clock: MockClock) -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.NOT_ENOUGH_REPLICAS)

    settings: dict[str, Any] = {**FAST, "delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000}
    async with leader(answers) as (node, _), Producer(node.address, **settings) as producer:
        with pytest.raises(TimedOut, match=r"3 records for partition 0 of orders .* NOT_ENOUGH_REPLICAS"):
            await producer.produce_arrow("orders", pa.table({"value": ["2", "3", "4"]}))
        await producer.wait_for_room(producer.config.buffer_memory)


async def test_request_whose_connection_is_lost_is_sent_again_with_the_same_sequence() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse | None:
        if number == 1:
            node.drop_connections()
            return None
        return answer()

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
    assert sequences(produced) == [(0, 0, 1), (0, 0, 1)]


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
async def test_kip_360_rejected_sequence_is_sent_again_under_the_next_epoch(code: ErrorCode) -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(code, log_start_offset=5) if number == 2 else answer()

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        await producer.send("orders", b"2")
        await producer.send("orders", b"3")
    assert sequences(produced) == [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]


async def test_unknown_producer_id_without_a_log_start_is_sent_again_as_it_was() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=-1) if number == 2 else answer()

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        await producer.send("orders", b"2")
    assert sequences(produced) == [(0, 0, 1), (0, 1, 1), (0, 1, 1)]


async def test_refused_batch_leaves_a_gap_that_the_next_epoch_closes() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.INVALID_RECORD) if number == 2 else answer()

    async with leader(answers) as (node, produced), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send("orders", b"2")
        await producer.send("orders", b"3")
    assert sequences(produced) == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]


async def test_retries_bounds_the_attempts() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.NOT_ENOUGH_REPLICAS)

    async with leader(answers) as (node, produced), Producer(node.address, retries=2, **FAST) as producer:
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            await producer.send("orders", b"1")
    assert len(produced) == 3


async def test_delivery_timeout_tells_the_last_failure(jumping_clock: MockClock) -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.NOT_ENOUGH_REPLICAS)

    settings: dict[str, Any] = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000, **FAST}
    async with leader(answers) as (node, _), Producer(node.address, **settings) as producer:
        with pytest.raises(TimedOut, match=r"delivery\.timeout\.ms\): NOT_ENOUGH_REPLICAS") as caught:
            await producer.send("orders", b"1")
    assert isinstance(caught.value.__cause__, KafkaError)


async def test_send_gives_up_waiting_for_room_after_max_block_ms(jumping_clock: MockClock) -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        return answer(ErrorCode.NOT_ENOUGH_REPLICAS)

    settings: dict[str, Any] = {**FAST, "delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000}
    limits: dict[str, Any] = {"buffer_memory": 200, "max_block_ms": 1_000}
    async with leader(answers) as (node, _), Producer(node.address, **settings, **limits) as producer:
        await producer.partitions_for("orders")
        held = producer.send_soon("orders", bytes(100))
        with pytest.raises(TimedOut, match=r"buffer\.memory .*max\.block\.ms"):
            await producer.send("orders", bytes(100))
        with pytest.raises(TimedOut, match="NOT_ENOUGH_REPLICAS"):
            await held


async def test_silent_leader_is_given_up_after_the_request_timeout() -> None:
    def answers(number: int, request: ProduceRequest) -> ProduceResponse | None:
        return None if number == 1 else answer()

    async with (
        leader(answers) as (node, produced),
        Producer(node.address, request_timeout_ms=100, **FAST) as producer,
    ):
        await producer.send("orders", b"1")
    assert sequences(produced) == [(0, 0, 1), (0, 0, 1)]


async def test_kip_951_new_leader_named_by_the_old_one_is_used_at_once() -> None:
    def old(number: int, request: ProduceRequest) -> ProduceResponse:
        told = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9))
        told.node_endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=other.port)]
        return told

    settings: dict[str, Any] = {**FAST, "retry_backoff_ms": 5_000, "retry_backoff_max_ms": 5_000}
    async with (
        leader(lambda number, request: answer(base_offset=42)) as (other, taken),
        leader(old) as (node, _),
        Producer(node.address, **settings) as producer,
    ):
        with trio.fail_after(4):
            assert (await producer.send("orders", b"1")).offset == 42
    assert len(taken) == 1


async def test_refused_producer_id_ends_the_producer() -> None:
    def script(request: Any) -> Any:
        if isinstance(request, MetadataRequest):
            return described([node], leader_id=1)
        return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async with scripted_node(script) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        async with Producer(node.address, **FAST) as producer:
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await producer.send("orders", b"1")
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                producer.send_soon("orders", b"2")


async def test_throttled_producer_waits_before_its_next_request() -> None:
    times: list[float] = []

    def answers(number: int, request: ProduceRequest) -> ProduceResponse:
        times.append(trio.current_time())
        told = answer()
        told.throttle_time_ms = 200
        return told

    async with leader(answers) as (node, _), Producer(node.address, **FAST) as producer:
        await producer.send("orders", b"1")
        await producer.send("orders", b"2")
    assert times[1] - times[0] >= 0.19


async def test_leader_without_an_address_is_waited_for_without_spinning() -> None:
    asked = 0

    def script(request: Any) -> Any:
        nonlocal asked
        if isinstance(request, MetadataRequest):
            asked += 1
            return described([node], leader_id=2 if asked < 6 else 1, leader_epoch=asked)
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=77, producer_epoch=0)
        return answer()

    async with scripted_node(script) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        steps = CountedSteps()
        settings: dict[str, Any] = {**FAST, "retry_backoff_ms": 50}
        trio.lowlevel.add_instrument(steps)
        with trio.fail_after(10):
            async with Producer(node.address, **settings) as producer:
                await producer.send("orders", b"1")
        trio.lowlevel.remove_instrument(steps)
    assert steps.count < 1_000


class CountedSteps(trio.abc.Instrument):
    """Counts the steps of tasks."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_idle_topic_is_forgotten_and_asked_for_again(jumping_clock: MockClock) -> None:
    asked: list[list[str]] = []

    def script(request: Any) -> Any:
        if isinstance(request, MetadataRequest):
            asked.append([topic.name or "" for topic in request.topics or []])
            told = described([node], leader_id=1)
            told.topics = told.topics if asked[-1] else []
            return told
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=77, producer_epoch=0)
        return answer()

    async with scripted_node(script) as node:
        node.api_versions = [ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        settings: dict[str, Any] = {**FAST, "metadata_max_idle_ms": 10_000, "metadata_max_age_ms": 4_000}
        async with Producer(node.address, **settings) as producer:
            await producer.send("orders", b"1")
            await trio.sleep(9)
            assert asked[-1] == ["orders"]
            await trio.sleep(20)
            assert asked[-1] == []
            await producer.send("orders", b"2")
            assert asked[-1] == ["orders"]
