"""Consumers of a running node: the records that they read, and their positions."""

import os
import sys
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.client import (
    Consumer,
    DeserializationFailed,
    NoOffsetForPartition,
    NotAssigned,
    OffsetOutOfRange,
)
from broker.client.errors import ClientError, ClosedError, ConfigError, KafkaError, TimedOut
from broker.client.serializers import JsonSerializer
from broker.client.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.records import Compression
from tests.support.linux import reads_proc
from tests.support.requests import batch, create_topic, produce
from tests.support.topics_for_consumers import (
    ONE,
    WITHIN_S,
    ZERO,
    consuming,
    fetch_exactly,
    fill,
    fill_node,
    node_with_topic,
    numbered,
    values,
)
from tests.support.wire_client import connected


async def delete_records(port: int, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="topic", partitions=[partition])], timeout_ms=5_000)
    async with connected(port) as client:
        await client.call(request, 2)


async def test_iteration_returns_every_record_in_order(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 700)
        async with consuming(node.port) as consumer:
            found = []
            with trio.fail_after(WITHIN_S):
                async for record in consumer:
                    found.append(record)
                    assert await consumer.position(ZERO) == record.offset + 1
                    if record.offset == 699:
                        break
        assert values(found) == list(range(700))
        first = found[0]
        assert (first.topic, first.partition, first.offset, first.timestamp_ms) == ("topic", 0, 0, 1_000)
        assert (first.key, first.headers, first.leader_epoch) == (None, (), 0)


async def test_fetch_returns_at_most_max_records(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        for index in (0, 1):
            await fill_node(node.port, 300, index=index)
        async with consuming(node.port, [ZERO, ONE], max_poll_records=70) as consumer:
            sizes, found = [], []
            with trio.fail_after(WITHIN_S):
                while len(found) < 600:
                    records = await consumer.fetch()
                    sizes.append(len(records))
                    found += records
            assert max(sizes) == 70
            for partition in (0, 1):
                assert values([each for each in found if each.partition == partition]) == list(range(300))


@pytest.mark.parametrize("compression", list(Compression))
async def test_all_compressions_are_read(tmp_path: Path, compression: Compression) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        await produce(client, numbered(0, 50, compression=compression))
        async with consuming(node.port) as consumer:
            assert values(await fetch_exactly(consumer, 50)) == list(range(50))


async def test_records_that_come_later_are_waited_for(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer:
        assert await consumer.fetch(timeout_s=0.05) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill_node, node.port, 3)
            assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]


async def test_a_cancelled_fetch_and_a_cancelled_iteration_lose_nothing(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer, connected(node.port) as client:
        found = []
        for first in range(0, 60, 3):
            with trio.move_on_after(0.002 * (first % 4)):
                if first % 2:
                    found += await consumer.fetch()
                else:
                    async for record in consumer:
                        found.append(record)
            await fill(client, 3, first=first)
        found += await fetch_exactly(consumer, 60 - len(found))
        assert values(found) == list(range(60))


async def test_consumption_goes_on_where_a_break_has_left_it(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        async with consuming(node.port) as consumer:
            found = []
            with trio.fail_after(WITHIN_S):
                for count in (1, 9, 40):
                    async for record in consumer:
                        found.append(record)
                        if len(found) % 50 >= count or len(found) == 50:
                            break
            found += await fetch_exactly(consumer, 100 - len(found))
            assert values(found) == list(range(100))


# Positions


async def test_latest_starts_with_records_written_after_the_position_is_known(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 10)
        async with consuming(node.port, auto_offset_reset="latest") as consumer:
            assert await consumer.position(ZERO) == 10
            await fill_node(node.port, 5, first=10)
            assert values(await fetch_exactly(consumer, 5)) == list(range(10, 15))


async def test_a_duration_begins_with_the_records_as_new_as_that_kip_1106(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        await produce(client, numbered(0, 1))
        async with consuming(node.port, auto_offset_reset="by_duration:PT1H") as consumer:
            assert await consumer.position(ZERO) == 1
        await produce(client, numbered(1, 1, timestamp=time.time_ns() // 1_000_000 - 60_000))
        async with consuming(node.port, auto_offset_reset="by_duration:PT1H") as consumer:
            assert await consumer.position(ZERO) == 1
        async with consuming(node.port, auto_offset_reset="by_duration:P30000D") as consumer:
            assert values(await fetch_exactly(consumer, 2)) == [0, 1]


async def test_without_a_policy_the_missing_offset_is_an_error_until_the_user_seeks(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 5)
        async with consuming(node.port, auto_offset_reset="none") as consumer:
            for _ in range(2):
                with pytest.raises(NoOffsetForPartition, match=r"topic-0 .*seek\(\)"), trio.fail_after(WITHIN_S):
                    await consumer.fetch()
            consumer.seek(ZERO, 3)
            assert values(await fetch_exactly(consumer, 2)) == [3, 4]


async def test_seeks_move_the_position_and_drop_prefetched_records(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 200)
        async with consuming(node.port) as consumer:
            await fetch_exactly(consumer, 10)
            consumer.seek(ZERO, 150)
            assert values(await fetch_exactly(consumer, 10)) == list(range(150, 160))
            async for record in consumer:
                if record.offset == 170:
                    consumer.seek(ZERO, 20)
                if record.offset == 21:
                    break
            consumer.seek_to_beginning()
            assert values(await fetch_exactly(consumer, 2)) == [0, 1]
            consumer.seek_to_end([ZERO])
            assert await consumer.position(ZERO) == 200
            consumer.seek(ZERO, OffsetAndMetadata(100, leader_epoch=0))
            assert values(await fetch_exactly(consumer, 1)) == [100]


async def test_an_offset_out_of_range_is_reset_by_the_policy(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        await delete_records(node.port, before=40)
        async with consuming(node.port) as consumer:
            consumer.seek(ZERO, 10)
            assert values(await fetch_exactly(consumer, 60)) == list(range(40, 100))
            consumer.seek(ZERO, 500)
            assert values(await fetch_exactly(consumer, 1)) == [40]


async def test_an_offset_out_of_range_is_an_error_without_a_policy(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 10)
        async with consuming(node.port, auto_offset_reset="none") as consumer:
            consumer.seek(ZERO, 500)
            for _ in range(2):
                with (
                    pytest.raises(OffsetOutOfRange, match="offset 500 of topic-0") as raised,
                    trio.fail_after(WITHIN_S),
                ):
                    await consumer.fetch()
                assert raised.value.offset == 500
            consumer.seek(ZERO, 8)
            assert values(await fetch_exactly(consumer, 2)) == [8, 9]


async def test_paused_partitions_are_not_returned_and_not_lost(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        for index in (0, 1):
            await fill_node(node.port, 100, index=index)
        async with consuming(node.port, [ZERO, ONE]) as consumer:
            found = await fetch_exactly(consumer, 10)  # the rest is fetched in advance
            consumer.pause([ZERO])
            assert consumer.paused() == {ZERO}
            with trio.move_on_after(0.3):
                while records := await consumer.fetch():
                    assert {record.partition for record in records} == {1}
                    found += records
            assert len([record for record in found if record.partition == 1]) == 100
            consumer.resume([ZERO])
            assert not consumer.paused()
            found += await fetch_exactly(consumer, 200 - len(found))
            for partition in (0, 1):
                assert values([each for each in found if each.partition == partition]) == list(range(100))


async def test_prefetching_is_bounded_and_a_paused_partition_does_not_starve_others(tmp_path: Path) -> None:
    limits = {"fetch_buffer_bytes": 40_000, "max_partition_fetch_bytes": 10_000, "fetch_max_wait_ms": 20}
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        for index in (0, 1):
            for start in range(0, 20_000, 500):
                await produce(client, numbered(start, 500), index=index)
        async with consuming(node.port, [ZERO, ONE], **limits) as consumer:
            engine = consumer._opened()
            await fetch_exactly(consumer, 1)
            consumer.pause([ZERO])
            found, most = [], 0
            with trio.fail_after(WITHIN_S):
                while len(found) < 20_000:
                    found += [record for record in await consumer.fetch() if record.partition == 1]
                    most = max(most, engine.buffer.size)
            assert values(found) == list(range(20_000))
            assert most <= 40_000 + 10_000


async def test_deserializers_make_keys_and_values(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, connected(node.port) as client:
        await produce(client, batch(b'{"a": 1}', None, key=b"[2]"))
        json = JsonSerializer()
        async with consuming(node.port, key_deserializer=json, value_deserializer=json) as consumer:
            records = await fetch_exactly(consumer, 2)
            assert [(record.key, record.value) for record in records] == [([2], {"a": 1}), ([2], None)]
            await produce(client, batch(b"{"))
            with pytest.raises(DeserializationFailed, match="value of offset 2 of topic-0"), trio.fail_after(WITHIN_S):
                await anext(consumer)
            assert await consumer.position(ZERO) == 2


# Lookups


async def test_offsets_are_looked_up_at_the_leaders(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 100)
        await delete_records(node.port, before=30)
        async with consuming(node.port, [ZERO, ONE]) as consumer:
            assert await consumer.beginning_offsets([ZERO, ONE]) == {ZERO: 30, ONE: 0}
            assert await consumer.end_offsets([ZERO, ONE]) == {ZERO: 100, ONE: 0}
            times = await consumer.offsets_for_times({ZERO: 1_050, ONE: 1_050})
            assert times == {ZERO: OffsetAndTimestamp(50, 1_050, 0), ONE: None}
            assert await consumer.lag() == {ZERO: 70, ONE: 0}
            await fetch_exactly(consumer, 10)
            assert consumer.current_lag(ZERO) == 60
            with pytest.raises(ValueError, match="is not a time"):
                await consumer.offsets_for_times({ZERO: -1})


async def test_topics_and_their_partitions_are_described(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer:
        assert [each.leader_id for each in await consumer.partitions_for("topic")] == [1, 1]
        assert await consumer.partitions_for("missing") == []
        assert list(await consumer.topics()) == ["topic"]


async def test_lookups_of_missing_topics_time_out_with_the_reason(tmp_path: Path) -> None:
    settings = {"default_api_timeout_ms": 100, "allow_auto_create_topics": False}
    async with node_with_topic(tmp_path) as node, consuming(node.port, **settings) as consumer:
        with pytest.raises(TimedOut) as raised:
            await consumer.end_offsets([TopicPartition("missing", 0)])
        assert isinstance(raised.value.__cause__, KafkaError)


async def test_a_topic_that_comes_later_is_read_once_it_is_there(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path, auto_create_topics_enable="false") as node:
        later = TopicPartition("later", 0)
        async with consuming(node.port, [later]) as consumer, connected(node.port) as client:
            assert await consumer.fetch(timeout_s=0.05) == []
            await create_topic(client, "later")
            await produce(client, numbered(0, 3), topic="later")
            assert values(await fetch_exactly(consumer, 3)) == [0, 1, 2]


# Errors and closing


async def test_calls_that_make_no_sense_say_so(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        async with Consumer(f"127.0.0.1:{node.port}") as consumer:
            with pytest.raises(ClientError, match=r"subscribe\(\) to topics or assign\(\) partitions"):
                await consumer.fetch()
            consumer.assign([ZERO])
            for call in (
                lambda: consumer.seek(ONE, 0),
                lambda: consumer.pause([ONE]),
                lambda: consumer.current_lag(ONE),
            ):
                with pytest.raises(NotAssigned, match="topic-1"):
                    call()
            with pytest.raises(ValueError, match="negative"):
                consumer.seek(ZERO, -1)
        for call in (consumer.assignment, consumer.paused):
            with pytest.raises(ClosedError, match="async with"):
                call()
        with pytest.raises(ClosedError):
            await consumer.fetch()
        with pytest.raises(ConfigError, match=r"did you mean max\.poll\.records"):
            Consumer("localhost:9092", config={"max.pol.records": 1})


async def test_the_users_exception_leaves_the_block_as_it_is(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 1)
        with pytest.raises(LookupError, match="mine"):  # noqa: PT012 - the block is what is tested
            async with consuming(node.port) as consumer:
                async for _ in consumer:
                    raise LookupError("mine")


@reads_proc
async def test_nothing_is_left_after_the_block(tmp_path: Path) -> None:
    def sockets() -> int:
        links = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
        return sum(os.path.exists(link) and os.readlink(link).startswith("socket:") for link in links)

    async with node_with_topic(tmp_path) as node:
        await fill_node(node.port, 10)
        await trio.testing.wait_all_tasks_blocked(0.05)
        sockets_before, tasks_before = sockets(), trio.lowlevel.current_statistics().tasks_living
        for is_cancelled in (False, True):
            with trio.CancelScope() as scope:
                async with consuming(node.port) as consumer:
                    await fetch_exactly(consumer, 10)
                    if is_cancelled:
                        scope.cancel()
                        await consumer.fetch()
            with trio.fail_after(WITHIN_S):
                while sockets() > sockets_before:
                    await trio.sleep(0.01)
            assert trio.lowlevel.current_statistics().tasks_living == tasks_before


async def test_a_task_that_reads_while_another_one_closes_the_consumer_is_told(tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def read(consumer: Consumer) -> None:
        try:
            await consumer.fetch()
        except ClosedError as error:
            outcomes.append(str(error))

    async with node_with_topic(tmp_path) as node, trio.open_nursery() as nursery:
        async with consuming(node.port) as consumer:
            nursery.start_soon(read, consumer)
            await trio.testing.wait_all_tasks_blocked(0.02)
        nursery.cancel_scope.deadline = trio.current_time() + WITHIN_S
    assert outcomes == ["the consumer was closed while a task was reading"]


async def test_a_batch_of_less_than_one_record_is_refused(tmp_path: Path) -> None:
    async with node_with_topic(tmp_path) as node, consuming(node.port) as consumer:
        with pytest.raises(ValueError, match="at least 1"):
            await consumer.fetch(0)


async def test_a_seek_costs_the_same_however_many_partitions_are_assigned(tmp_path: Path) -> None:
    partitions = [TopicPartition("topic", index) for index in range(200)]
    async with node_with_topic(tmp_path, partitions=200) as node, consuming(node.port, partitions) as consumer:
        for partition in partitions:
            await consumer.position(partition)
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            for partition in partitions:
                consumer.seek(partition, 0)
                consumer.pause([partition])
        finally:
            sys.setprofile(None)
        assert calls < 200 * 200
