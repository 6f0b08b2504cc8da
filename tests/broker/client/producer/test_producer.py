"""The producer with a running node; confluent-kafka reads back the records."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.client import (
    BadPartition,
    BufferFull,
    ClientFailed,
    ClosedError,
    JsonSerializer,
    KafkaError,
    Producer,
    RecordMetadata,
    RecordTooLarge,
    RoundRobinPartitioner,
    StringSerializer,
    TimedOut,
    TopicPartitions,
    UndeliveredRecords,
)
from broker.wire.errors import ErrorCode
from tests.support.produced import make_topic, read_all
from tests.support.running_node import running_node

WITHIN_S = 30.0
TIMESTAMP_MS = 1_700_000_000_000


@pytest.fixture
async def bootstrap(tmp_path: Path) -> AsyncIterator[str]:
    async with running_node(tmp_path, auto_create_topics_enable="false") as node:
        with trio.fail_after(WITHIN_S):
            yield f"127.0.0.1:{node.port}"


async def test_record_without_key_and_value_is_sent_soon(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap) as producer:
        delivery = await producer.send_soon("orders", None)
        assert delivery.offset == 0


async def test_send_returns_where_the_record_was_written(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap) as producer:
        first = await producer.send("orders", b"value", key=b"key", headers=[("source", b"tour")])
        second = await producer.send("orders", None, timestamp_ms=TIMESTAMP_MS)
    assert (first.topic, first.partition, first.offset) == ("orders", 0, 0)
    assert second == RecordMetadata("orders", 0, 1, TIMESTAMP_MS)
    read = (await read_all(bootstrap, "orders"))[0]
    assert (read[0].key, read[0].value, read[0].headers) == (b"key", b"value", [("source", b"tour")])
    assert (read[0].timestamp_ms, read[1].timestamp_ms) == (first.timestamp_ms, TIMESTAMP_MS)
    assert read[1].value is None


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_is_read_back(bootstrap: str, compression: str) -> None:
    await make_topic(bootstrap, "orders", 2)
    values = [b"%d " % number * (number % 40) for number in range(3_000)]
    async with Producer(bootstrap, compression_type=compression, linger_ms=1) as producer:  # type: ignore[arg-type]
        for number, value in enumerate(values):
            producer.send_soon("orders", value, partition=number % 2, headers=[("n", None)] * (number % 3))
    read = await read_all(bootstrap, "orders", 2)
    assert [record.value for record in read[0]] == values[::2]
    assert [record.value for record in read[1]] == values[1::2]


async def test_records_handed_over_before_the_topic_is_known_keep_their_order(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap) as producer:
        told: list[int] = []

        def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
            told.append(-1 if metadata is None else metadata.offset)

        for number in range(1_000):
            producer.send_soon("orders", b"%d" % number, on_delivery=note)
        last = await producer.send("orders", b"1000")
    assert last.offset == 1_000
    assert told == list(range(1_000))
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [b"%d" % n for n in range(1_001)]


async def test_delivery_can_be_awaited_asked_and_dropped(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, linger_ms=10_000) as producer:
        delivery, dropped = producer.send_soon("orders", b"1"), producer.send_soon("orders", b"2")
        assert not delivery.is_done
        with pytest.raises(RuntimeError, match="no outcome yet"):
            delivery.result()
        del dropped
        await producer.flush()
        assert delivery.is_done
        assert await delivery == delivery.result()
        seen: list[RecordMetadata | None] = []
        delivery.add_callback(lambda metadata, error: seen.append(metadata))
        assert seen == [delivery.result()]
    assert len((await read_all(bootstrap, "orders"))[0]) == 2


async def test_callback_is_told_of_success_and_failure(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", max_message_bytes=2_000)
    told: list[tuple[RecordMetadata | None, Exception | None]] = []
    async with Producer(bootstrap) as producer:
        producer.send_soon("orders", b"small", on_delivery=lambda *outcome: told.append(outcome))
        await producer.flush()
        producer.send_soon("orders", bytes(5_000), on_delivery=lambda *outcome: told.append(outcome))
        await producer.flush()
    (metadata, no_error), (no_metadata, error) = told
    assert (no_error, no_metadata) == (None, None)
    assert metadata is not None
    assert metadata.offset == 0
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_error_of_a_callback_ends_the_block(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")

    def fail(metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise LookupError("of the application")

    async def run() -> None:
        async with Producer(bootstrap) as producer:
            producer.send_soon("orders", b"1", on_delivery=fail)
            await trio.sleep_forever()

    with pytest.raises(ClientFailed, match="LookupError") as raised:
        await run()
    assert isinstance(raised.value.__cause__, LookupError)


WRONG_PARTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"timestamp_ms": 1.5e12}, r"a record for orders: timestamp_ms must be int, not float: int\(time\.time"),
    ({"timestamp_ms": -1}, "a record for orders: a timestamp is a number of milliseconds since 1970"),
    ({"headers": [("a", b""), ("b", "text")]}, r"the value of headers\[1\] \('b'\) must be bytes or None, not str"),
    ({"headers": [(b"a", b"")]}, r"the name of headers\[0\] must be str, not bytes"),
    ({"headers": [("\ud800", b"")]}, r"the name of headers\[0\] cannot be written in UTF-8"),
    ({"headers": {"a": b""}}, r"not a mapping: pass list\(headers\.items\(\)\)"),
    ({"headers": [("a", b"", 1)]}, r"headers\[0\] must be a \(name, value\) pair"),
    ({"partition": "0"}, "partition must be int, not str"),
    ({"partition": True}, "partition must be int, not bool"),
    ({"partition": 2**31}, "a partition is a number from 0"),
    ({"key": "text"}, "orders has str where bytes are needed"),
    ({"topic": b"orders"}, "a record's topic must be str, not bytes"),
    ({"topic": ""}, "topic must not be empty"),
    ({"topic": "\ud800"}, "cannot be written in UTF-8"),
    ({"on_delivery": 1}, "on_delivery must be a function"),
)


async def test_wrong_part_of_a_record_is_refused_at_the_call_and_no_other_record_is_lost(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, linger_ms=30) as producer:
        for wrong, message in WRONG_PARTS:
            producer.send_soon("orders", b"")
            with pytest.raises((TypeError, ValueError), match=message):
                producer.send_soon(**({"topic": "orders", "value": b""} | wrong))
    assert len((await read_all(bootstrap, "orders"))[0]) == len(WRONG_PARTS)


async def test_serializer_that_returns_no_bytes_is_named_and_no_other_record_is_lost(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")

    class Careless:
        def serialize(self, topic: str, value: Any, /) -> Any:
            return value

    async with Producer(bootstrap, value_serializer=Careless(), linger_ms=30) as producer:
        producer.send_soon("orders", b"1")
        with pytest.raises(TypeError, match="orders: the serializer of the value returned str where bytes are needed"):
            producer.send_soon("orders", "2")
        producer.send_soon("orders", bytearray(b"3"))
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [b"1", b"3"]


async def test_headers_may_be_any_iterable_and_may_change_after_the_call(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    headers = [("a", b"1")]
    async with Producer(bootstrap, linger_ms=30) as producer:
        producer.send_soon("orders", b"", headers=headers)
        headers.append(("b", b"2"))
        producer.send_soon("orders", b"", headers=(header for header in [("c", None)]))  # type: ignore[arg-type]
        producer.send_soon("orders", b"", headers=None)  # type: ignore[arg-type]
    assert [list(record.headers) for record in (await read_all(bootstrap, "orders"))[0]] == [
        [("a", b"1")],
        [("c", None)],
        [],
    ]


async def test_block_that_ends_with_records_that_were_not_written_raises(bootstrap: str) -> None:
    async def run() -> None:
        async with Producer(bootstrap, max_block_ms=200) as producer:
            read = producer.send_soon("unknown", b"0")
            producer.send_soon("unknown", b"1")
            producer.send_soon("unknown", b"2")
            producer.send_soon("unknown", b"3", on_delivery=lambda metadata, error: None)
            with pytest.raises(TimedOut):
                await read

    with pytest.raises(UndeliveredRecords, match=r"2 records .*topic unknown does not exist") as raised:
        await run()
    assert isinstance(raised.value.__cause__, TimedOut)
    assert raised.value.count == 2


async def test_records_that_were_not_written_are_told_beside_the_exception_of_the_block(bootstrap: str) -> None:
    async def run(error: BaseException) -> None:
        async with Producer(bootstrap, max_block_ms=200) as producer:
            producer.send_soon("unknown", b"1")
            raise error

    with pytest.raises(UndeliveredRecords, match=r"1 record .*topic unknown does not exist") as raised:
        await run(LookupError("of the application"))
    assert isinstance(raised.value.__context__, LookupError)
    assert not raised.value.__suppress_context__
    assert isinstance(raised.value.first_error, TimedOut)
    with pytest.raises(SystemExit) as ended:
        await run(SystemExit())
    assert "1 record was not written" in ended.value.__notes__[0]


async def test_batch_that_is_too_large_for_the_topic_is_split(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", max_message_bytes=2_000)
    async with Producer(bootstrap) as producer:
        deliveries = [producer.send_soon("orders", b"%3d" % number * 40) for number in range(100)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(100))
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [
        b"%3d" % n * 40 for n in range(100)
    ]


async def test_kip_467_records_that_spoil_a_batch_have_errors_of_their_own(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", cleanup_policy="compact")
    async with Producer(bootstrap) as producer:
        good = producer.send_soon("orders", b"1", key=b"key")
        bad = producer.send_soon("orders", b"2")
        await producer.flush()
        with pytest.raises(KafkaError, match=r"INVALID_RECORD.*another record of its batch"):
            good.result()
        with pytest.raises(KafkaError, match=r"INVALID_RECORD.*key"):
            bad.result()
        again = await producer.send("orders", b"1", key=b"key")
    assert again.offset == 0
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [b"1"]


async def test_full_buffer_is_told_and_room_can_be_awaited(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, buffer_memory=20_000) as producer:
        sent = refused = 0
        while sent < 2_000:
            try:
                producer.send_soon("orders", bytes(100))
                sent += 1
            except BufferFull:
                refused += 1
                await producer.wait_for_room()
    assert refused > 5
    assert len((await read_all(bootstrap, "orders"))[0]) == 2_000


async def test_send_waits_for_room_in_the_order_of_the_calls(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, buffer_memory=2_000) as producer, trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(producer.send, "orders", bytes(100))
    assert len((await read_all(bootstrap, "orders"))[0]) == 200


async def test_record_that_can_never_fit_is_refused_at_once(bootstrap: str) -> None:
    async with Producer(bootstrap, max_request_size=1_000) as producer:
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            producer.send_soon("orders", bytes(1_000))
        with pytest.raises(RecordTooLarge):
            await producer.send("orders", bytes(1_000))


async def test_record_after_one_that_was_refused_before_the_topic_was_known_is_written(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, max_request_size=1_000) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send_soon("orders", bytes(1_000))
        await wait_all_tasks_blocked()  # the producer has seen that there is nothing to do
        assert (await producer.send("orders", b"value")).offset == 0


async def test_partition_that_the_topic_does_not_have_times_out_after_max_block_ms(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, max_block_ms=100) as producer:
        with pytest.raises(TimedOut, match="the partition that was asked for"):
            await producer.send("orders", b"1", partition=1)
        with pytest.raises(BadPartition):
            producer.send_soon("orders", b"1", partition=-1)
        assert (await producer.send("orders", b"1", partition=0)).offset == 0
        await wait_all_tasks_blocked()
        with pytest.raises(TimedOut, match="the partition that was asked for"):
            await producer.send("orders", b"1", partition=1)


@pytest.mark.parametrize("acks", [0, 1])
async def test_without_idempotence_acks_0_has_no_offsets_and_acks_1_has(bootstrap: str, acks: int) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, acks=acks) as producer:  # type: ignore[arg-type]
        deliveries = [producer.send_soon("orders", b"%d" % number) for number in range(1_000)]
        await producer.flush()
        assert [delivery.result().offset for delivery in deliveries] == ([-1] * 1_000 if acks == 0 else [*range(1_000)])
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [b"%d" % n for n in range(1_000)]


async def test_partitioners(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", 4)

    def by_first_byte(topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, /) -> int:
        return (value or b"\0")[0] % partitions.count

    async with Producer(bootstrap) as producer:
        keyed = {(await producer.send("orders", b"", key=b"foobar")).partition for _ in range(3)}
        assert keyed == {(-790332482 & 0x7FFFFFFF) % 4}, "Kafka's hash of the key"
        manual = [
            (await producer.send("orders", b"", key=b"foobar", partition=number)).partition for number in range(4)
        ]
        assert manual == [0, 1, 2, 3]
    async with Producer(bootstrap, partitioner=RoundRobinPartitioner()) as producer:
        assert [(await producer.send("orders", b"", key=b"foobar")).partition for _ in range(5)] == [0, 1, 2, 3, 0]
    async with Producer(bootstrap, partitioner=by_first_byte) as producer:
        assert (await producer.send("orders", b"\6")).partition == 2
    async with Producer(bootstrap, partitioner=lambda *_: 4) as producer:
        with pytest.raises(BadPartition, match="partition 4 for topic orders, which has 4"):
            await producer.send("orders", b"")
    async with Producer(bootstrap, partitioner_ignore_keys=True, linger_ms=0) as producer:
        deliveries = [producer.send_soon("orders", bytes(1_000), key=b"foobar") for _ in range(500)]
        await producer.flush()
        assert {delivery.result().partition for delivery in deliveries} == {0, 1, 2, 3}


async def test_kip_794_records_without_a_key_fill_a_batch_before_the_partition_changes(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", 4)
    async with Producer(bootstrap, linger_ms=100) as producer:
        await producer.partitions_for("orders")
        deliveries = [producer.send_soon("orders", bytes(1_000)) for _ in range(640)]
        await producer.flush()
    partitions = [delivery.result().partition for delivery in deliveries]
    changes = [at for at in range(1, 640) if partitions[at] != partitions[at - 1]]
    assert all(at % 16 == 0 for at in changes), "a batch of 16 KiB takes 16 records"
    assert set(partitions) == {0, 1, 2, 3}


async def test_serializers_turn_keys_and_values_into_bytes(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, key_serializer=StringSerializer(), value_serializer=JsonSerializer()) as producer:
        await producer.send("orders", {"n": 1}, key="key")
        await producer.send("orders", None, key="gone")
    async with Producer(bootstrap) as producer:
        with pytest.raises(TypeError, match="orders has dict where bytes are needed"):
            producer.send_soon("orders", {"n": 1})
        await producer.send("orders", bytearray(b"copied"))
    read = (await read_all(bootstrap, "orders"))[0]
    assert [(record.key, record.value) for record in read] == [(b"key", b'{"n":1}'), (b"gone", None), (None, b"copied")]


async def test_cancelled_send_leaves_its_record_in_the_batch(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, linger_ms=200) as producer:
        with trio.move_on_after(0.01) as scope:
            await producer.send("orders", b"1")
        assert scope.cancelled_caught
        assert (await producer.send("orders", b"2")).offset == 1
    assert [record.value for record in (await read_all(bootstrap, "orders"))[0]] == [b"1", b"2"]


async def test_cancelled_wait_for_room_takes_no_room(bootstrap: str) -> None:
    async with Producer(bootstrap, buffer_memory=200, max_block_ms=200) as producer:
        held = producer.send_soon("unknown", bytes(100))
        with trio.move_on_after(0.01):
            await producer.send("unknown", bytes(100))
        with pytest.raises(TimedOut):
            await held
        there_is_room = producer.send_soon("unknown", bytes(180))
        with pytest.raises(TimedOut):
            await there_is_room


async def test_leaving_the_block_writes_everything_and_closes(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")
    async with Producer(bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send_soon("orders", b"1")
    assert delivery.result().offset == 0
    with pytest.raises(ClosedError, match="open another one"):
        producer.send_soon("orders", b"2")


async def test_close_gives_up_after_its_timeout(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        delivery = producer.send_soon("unknown", b"1")
        with pytest.raises(UndeliveredRecords, match="1 record was not written"):
            await producer.close(timeout_s=0.05)
        with pytest.raises(ClosedError, match="before the record was acknowledged"):
            delivery.result()


async def test_cancelled_block_gives_records_up_instead_of_waiting(bootstrap: str) -> None:
    with trio.move_on_after(0.1):
        async with Producer(bootstrap) as producer:
            delivery = producer.send_soon("unknown", b"1")
            await trio.sleep_forever()
    with pytest.raises(ClosedError):
        delivery.result()


async def test_partitions_for_describes_a_topic_and_refuses_one_that_does_not_come(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders", 3)
    async with Producer(bootstrap, max_block_ms=300) as producer:
        assert [partition.partition for partition in await producer.partitions_for("orders")] == [0, 1, 2]
        with pytest.raises(TimedOut, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.partitions_for("unknown")
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            await producer.partitions_for("no/topic")
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            await producer.send("no/topic", b"1")


async def test_error_of_a_partitioner_is_that_of_its_record(bootstrap: str) -> None:
    await make_topic(bootstrap, "orders")

    def partitioner(topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions, /) -> int:
        return {b"good": 0}[value or b""]

    async with Producer(bootstrap, partitioner=partitioner) as producer:
        early, good = producer.send_soon("orders", b"bad"), producer.send_soon("orders", b"good")
        assert (await good).offset == 0
        with pytest.raises(KeyError):
            early.result()
        with pytest.raises(KeyError):
            producer.send_soon("orders", b"bad")


async def test_producer_outside_its_block_refuses_records(bootstrap: str) -> None:
    with pytest.raises(ClosedError, match="async with"):
        Producer(bootstrap).send_soon("orders", b"1")
