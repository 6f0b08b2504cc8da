"""Quotas set with AlterClientQuotas limit the right clients, and no others."""

from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.handlers.fetch.shortcut import FetchShortcut
from broker.handlers.produce.shortcut import ProduceShortcut
from broker.net.connection import Connection
from broker.server.quotas import Charging
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from tests.broker.handlers.test_client_quotas import alteration, altered, wait_described
from tests.support.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
    records_of,
)
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

ANONYMOUS = {"user": "ANONYMOUS"}
# A client that was idle may use in one second what its quota allows.
WINDOWS = {"quota_window_num": 2, "quota_window_size_seconds": 1}


@pytest.fixture
async def limiting_node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, **WINDOWS) as node:
        yield node


async def set_quota(node: RunningNode, entity: dict[str, str | None], **quotas: float | None) -> None:
    async with connected(node.port) as admin:
        await altered(admin, alteration(entity, **quotas))
        removed = all(value is None for value in quotas.values())
        await wait_described(admin, 0 if removed else 1)


async def throttle_time_ms(client: WireClient, records: bytes) -> int:
    """Produce the records. Returns the throttle time of the response."""
    response = await client.call(produce_request(records), PRODUCE_VERSION)
    assert only(only(response.responses).partition_responses).error_code == ErrorCode.NONE
    throttle_time: int = response.throttle_time_ms
    return throttle_time


async def test_producer_is_throttled_from_its_next_request_until_the_quota_is_removed(
    limiting_node: RunningNode,
) -> None:
    async with connected(limiting_node.port) as client:
        await create_topic(client)
        records = batch(b"x" * 1000)
        for _ in range(3):  # the later ones take the shortcut
            assert await throttle_time_ms(client, records) == 0

        await set_quota(limiting_node, ANONYMOUS, producer_byte_rate=2000)
        throttled = [await throttle_time_ms(client, records) for _ in range(3)]
        assert throttled[0] == 0
        assert all(0 < each <= 1500 for each in throttled[1:])

        await set_quota(limiting_node, ANONYMOUS, producer_byte_rate=None)
        assert [await throttle_time_ms(client, records) for _ in range(3)] == [0, 0, 0]


async def test_consumer_is_throttled_with_empty_responses_and_reads_everything(limiting_node: RunningNode) -> None:
    async with connected(limiting_node.port) as client:
        await create_topic(client)
        values = [bytes([number]) * 1000 for number in range(6)]
        for value in values:
            await produce(client, batch(value))
        await set_quota(limiting_node, ANONYMOUS, consumer_byte_rate=2000)

        begun = trio.current_time()
        read: list[bytes | None] = []
        while len(read) < len(values):
            response = await client.call(fetch_request(len(read), partition_max_bytes=1100), FETCH_VERSION)
            assert bool(response.responses) == (response.throttle_time_ms == 0)
            for topic in response.responses:
                read += [record.value for record in records_of(only(topic.partitions))]
        assert read == values
        assert 1.5 < trio.current_time() - begun < 6


async def test_client_that_ignores_throttle_times_is_held_and_others_are_not(limiting_node: RunningNode) -> None:
    entity: dict[str, str | None] = {"client-id": "greedy"}
    await set_quota(limiting_node, entity, producer_byte_rate=20_000)
    produced: list[float] = []

    def overrun() -> None:
        """Send without pause: librdkafka queues requests regardless of throttle times."""
        settings = {"bootstrap.servers": f"127.0.0.1:{limiting_node.port}", "client.id": "greedy", "linger.ms": 0}
        producer = Producer({**settings, "batch.num.messages": 1})
        for _ in range(40):
            producer.produce("topic", b"x" * 1000)
        assert producer.flush(20) == 0

    async def others() -> None:
        async with connected(limiting_node.port) as client:
            for _ in range(20):
                begun = trio.current_time()
                await client.call(MetadataRequest(topics=[]), 9)
                assert await throttle_time_ms(client, batch(b"x" * 1000)) == 0
                produced.append(trio.current_time() - begun)

    async with connected(limiting_node.port) as client:
        await create_topic(client)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, overrun)
            nursery.start_soon(others)
        elapsed = trio.current_time() - begun
    assert elapsed > 0.8, "40 kB at 20 kB/s, of which one second's are free"
    assert len(produced) == 20


async def test_confluent_consumer_holds_its_rate(limiting_node: RunningNode) -> None:
    size, count, rate = 10_000, 30, 100_000

    def consume(client_id: str) -> float:
        """Read all records from the beginning. Returns the seconds."""
        settings = {"bootstrap.servers": f"127.0.0.1:{limiting_node.port}", "client.id": client_id, "group.id": "none"}
        consumer = Consumer({**settings, "fetch.message.max.bytes": str(2 * size)})
        consumer.assign([TopicPartition("topic", 0, 0)])
        times = []
        while len(times) < count:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            times.append(perf_counter())
        consumer.close()
        return times[-1] - times[0]

    async with connected(limiting_node.port) as client:
        await create_topic(client)
        for _ in range(count):
            await produce(client, batch(b"x" * size))
        await set_quota(limiting_node, {"user": "ANONYMOUS", "client-id": "limited"}, consumer_byte_rate=rate)
        limited = await trio.to_thread.run_sync(consume, "limited")
        free = await trio.to_thread.run_sync(consume, "free")
    at_once = 1  # records of one second
    assert (size * count / rate - at_once) * 0.9 < limited < 12
    assert free < limited


@pytest.mark.parametrize("way", ["shortcut", "general"])
async def test_request_quota_slows_down_a_client_and_no_other(limiting_node: RunningNode, way: str) -> None:
    """A hundredth of a percent of the event loop is 100 us per second: some requests of a client that was idle."""

    async def throttled(client_id: str) -> int:
        async with connected(limiting_node.port, client_id) as client:
            indexes = (0,) if way == "shortcut" else (0, 1)
            request = fetch_request(indexes=indexes)
            return sum([(await client.call(request, FETCH_VERSION)).throttle_time_ms > 0 for _ in range(8)])

    async with connected(limiting_node.port) as client:
        await create_topic(client, partitions=2)
        await produce(client, batch(b"x"))
    await set_quota(limiting_node, {"client-id": "limited"}, request_percentage=0.01)
    assert await throttled("free") == 0
    assert await throttled("limited") >= 4
    await set_quota(limiting_node, {"client-id": "limited"}, request_percentage=None)
    assert await throttled("limited") == 0


async def test_time_of_requests_by_shortcut_is_measured_while_the_client_is_far_below_its_quota(
    limiting_node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_s = 0.0
    pumped = Charging.pumped

    def measured(charging: Charging, connection: Connection) -> None:
        nonlocal measured_s
        held_time = connection.session.held_time
        before_s = 0.0 if held_time is None else held_time.seconds
        pumped(charging, connection)
        measured_s += 0.0 if held_time is None else held_time.seconds - before_s

    monkeypatch.setattr(Charging, "pumped", measured)
    async with connected(limiting_node.port, "limited") as client:
        await create_topic(client)
        await set_quota(limiting_node, {"client-id": "limited"}, request_percentage=100)
        for _ in range(100):
            await client.call(produce_request(batch(b"x")), PRODUCE_VERSION)
    assert measured_s > 0


@pytest.mark.parametrize("way", ["shortcut", "general"])
async def test_request_quota_mutes_a_producer_that_gets_no_answers(limiting_node: RunningNode, way: str) -> None:
    """Kafka exempts acks=0 from request quotas, so that such a client could use all of the broker's time."""
    entity: dict[str, str | None] = {"client-id": "limited"}
    request = produce_request(batch(b"x"), acks=0)
    if way == "general":
        request.topic_data += produce_request(batch(b"x"), index=1).topic_data
    async with connected(limiting_node.port) as client:
        await create_topic(client, partitions=2)
    await set_quota(limiting_node, entity, request_percentage=0.01)
    async with connected(limiting_node.port, "limited") as client:
        begun = trio.current_time()
        for _ in range(8):
            await client.send_unanswered(request, PRODUCE_VERSION)
        await client.call(MetadataRequest(topics=[]), 9)
        assert trio.current_time() - begun > 0.9, "muted for a window once"


def value_bytes(response: Any) -> int:
    """The size of the values in a Fetch response."""
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    return sum(len(record.value or b"") for partition in partitions for record in records_of(partition))


@pytest.mark.parametrize("way", ["shortcut", "general"])
@pytest.mark.parametrize("api", ["produce", "fetch"])
async def test_client_that_ignores_throttle_times_gets_no_more_than_its_quota(
    limiting_node: RunningNode, api: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request is sent as soon as the one before is answered. Without a quota, some MB would pass."""
    rate, seconds = 40_000, 2
    served_by_shortcut = 0

    def counting(shortcut: type[ProduceShortcut] | type[FetchShortcut]) -> None:
        serve = shortcut.serve

        def counted(*arguments: Any) -> Any:
            nonlocal served_by_shortcut
            reply = serve(*arguments)
            served_by_shortcut += reply is not False
            return reply

        monkeypatch.setattr(shortcut, "serve", counted)

    counting(ProduceShortcut)
    counting(FetchShortcut)
    indexes = (0,) if way == "shortcut" else (0, 1)
    to_produce = produce_request(batch(b"x" * (4_000 // len(indexes))))
    for index in indexes[1:]:
        to_produce.topic_data += produce_request(batch(b"x" * 2_000), index=index).topic_data
    request, version = to_produce, PRODUCE_VERSION
    async with connected(limiting_node.port) as client:
        await create_topic(client, partitions=2)
        await client.call(to_produce, PRODUCE_VERSION)
        if api == "fetch":
            request, version = fetch_request(indexes=indexes, partition_max_bytes=4_500), FETCH_VERSION
        await set_quota(limiting_node, ANONYMOUS, producer_byte_rate=rate, consumer_byte_rate=rate)
        begun, used, throttled = trio.current_time(), 0, 0
        while (elapsed := trio.current_time() - begun) < seconds:
            response = await client.call(request, version)
            used += 4_000 if api == "produce" else value_bytes(response)
            throttled += response.throttle_time_ms > 0
    assert throttled
    assert (served_by_shortcut > 5) == (way == "shortcut")
    assert used <= rate * (elapsed + 1) + 8_000, "what one second allows at once, and two more requests"
    assert used >= rate * seconds / 2
