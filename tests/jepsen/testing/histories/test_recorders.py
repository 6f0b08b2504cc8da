"""Each recorder with its real client, against one node: the client behaves as before, and the history has all of it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition

from broker.client import (
    AsyncioConsumer,
    AsyncioProducer,
    AsyncioRebalanceListener,
    AsyncioShareConsumer,
    Consumer,
    Producer,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
    UndeliveredRecords,
)
from jepsen.history import History, Operation, Outcome
from jepsen.testing import Cluster
from jepsen.testing.histories import Promise, Recorder, check, load_history

pytestmark = pytest.mark.clients

VALUES = [b"one", b"two", b"\xff\x00", None]
NAMES = {"k: one", "k: two", "k: 0xff00", "k: null"}


def verified(recorder: Recorder, node: Cluster) -> History:
    """The history with a final read, in which all promises are kept as far as there is something to check."""
    recorder.read_to_end(node.config("kraft"))
    history = load_history(recorder.directory)
    promises = list(Promise)
    if not any(history.of("poll", "poll-group", "commit")):
        promises.remove(Promise.OFFSETS_NEVER_BACK)
    assert check(history, promises)
    return history


def expect_a_group_that_read_all(history: History, topic: str, group: str) -> None:
    """The history of a test that sends VALUES with one key, and reads and commits them in a group."""
    sends = list(history.of("send"))
    assert {each.value.values[0] for each in sends} == NAMES
    assert [each.outcome for each in sends] == [Outcome.OK] * 4
    assert [each.result for each in sends] == [0, 1, 2, 3]
    polled = [record for each in history.of("poll-group") for record in each.result]
    assert [name for _, name in polled] == [each.value.values[0] for each in sends]
    [assigned] = history.of("assign")
    assert (assigned.value.group, assigned.value.partitions) == (group, ((topic, 0),))
    commit = last(history.of("commit", outcome=Outcome.OK))
    assert commit.value.offsets == ((topic, 0, 4),)
    assert len(list(history.of("revoke"))) == 1
    assert len({each.client for each in history.operations}) == 3


def last(operations: Iterator[Operation]) -> Operation:
    *_, found = operations
    return found


def test_confluent_kafka(node: Cluster, recorder: Recorder) -> None:
    topic, group, told = node.topic(), node.group(), []
    producer = recorder.wrap(confluent_kafka.Producer(node.config()))
    assert isinstance(producer, confluent_kafka.Producer)
    for value in VALUES:
        producer.produce(topic, value, "k", on_delivery=lambda error, message: told.append(message.offset()))
    assert len(producer) == 4
    assert producer.flush(30) == 0
    assert told == [0, 1, 2, 3]
    seen: list[Any] = []
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with recorder.wrap(confluent_kafka.Consumer({**node.config(), **settings})) as consumer:
        consumer.subscribe([topic], on_assign=lambda *arguments: seen.append(arguments[0]))
        values: list[bytes | None] = []
        while len(values) < 3:
            values += [each.value() for each in consumer.consume(3 - len(values), 1)]
        while len(values) < 4:
            message = consumer.poll(1)
            values += [] if message is None else [message.value()]
        assert values == VALUES
        committed = consumer.commit(asynchronous=False)
        assert committed is not None
        assert [each.offset for each in committed] == [4]
    assert seen == [consumer]
    expect_a_group_that_read_all(verified(recorder, node), topic, group)


def test_confluent_kafka_commits_are_those_that_the_client_has_made(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(partitions=2), node.group()
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with recorder.wrap(confluent_kafka.Consumer({**node.config(), **settings})) as consumer:
        consumer.subscribe([topic])
        for partitions in ((0, 1), (0,)):
            node.produce(topic, [{"value": "one", "partition": partition} for partition in partitions])
            received: list[Any] = []
            while len(received) < len(partitions):
                received += consumer.consume(1, 1)
            consumer.commit(asynchronous=False)
    history = load_history(recorder.directory)
    assert [each.value.offsets for each in history.of("commit", outcome=Outcome.OK)] == [
        ((topic, 0, 1), (topic, 1, 1)),
        ((topic, 0, 2),),
    ]
    assert not any(history.of("commit", outcome=Outcome.INFO))


def test_confluent_kafka_transactions_decide_the_outcomes_of_sends(node: Cluster, recorder: Recorder) -> None:
    topic, source, group = node.topic(), node.topic(), node.group()
    producer = recorder.wrap(confluent_kafka.Producer({**node.config(), "transactional.id": node.group()}))
    consumer = recorder.wrap(confluent_kafka.Consumer({**node.config(), "group.id": group}))
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    offsets = [confluent_kafka.TopicPartition(source, 0, 0)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.flush()
    assert not any(load_history(recorder.directory).of("send", outcome=Outcome.OK))
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush()
    producer.abort_transaction()
    consumer.close()
    history = verified(recorder, node)
    assert [(each.value.values[0], each.outcome) for each in history.of("send")] == [
        ("committed", Outcome.OK),
        ("aborted", Outcome.FAIL),
    ]
    [commit] = history.of("commit")
    assert (commit.outcome, commit.value.group, commit.value.offsets) == (Outcome.OK, group, ((source, 0, 0),))


def test_confluent_kafka_serializers(node: Cluster, recorder: Recorder) -> None:
    topic = node.topic()
    serializer = confluent_kafka.serialization.StringSerializer()
    config = {**node.config(), "key.serializer": serializer, "value.serializer": serializer}
    producer = recorder.wrap(confluent_kafka.SerializingProducer(config), name="orders")
    producer.produce(topic, "the key", "the value")
    assert producer.flush(30) == 0
    [send] = verified(recorder, node).of("send")
    assert send.value.values == ("the key: the value",)
    assert send.client.startswith("orders@")


def test_aiokafka(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(), node.group()

    async def run() -> None:
        config = node.config("aiokafka")
        async with recorder.wrap(AIOKafkaProducer(**config)) as producer:
            assert isinstance(producer, AIOKafkaProducer)
            for offset, value in enumerate(VALUES[:3]):
                assert (await producer.send_and_wait(topic, value, b"k")).offset == offset
            future = await producer.send(topic, VALUES[3], key=b"k")
            assert (await future).offset == 3
        settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with recorder.wrap(AIOKafkaConsumer(topic, **settings, **config)) as consumer:
            values = [(await consumer.getone()).value]
            async for record in consumer:
                values.append(record.value)
                break
            while len(values) < 4:
                found = await consumer.getmany(timeout_ms=1000)
                values += [each.value for records in found.values() for each in records]
            assert values == VALUES
            await consumer.commit()

    asyncio.run(run())
    expect_a_group_that_read_all(verified(recorder, node), topic, group)


def test_aiokafka_transactions_and_seeks(node: Cluster, recorder: Recorder) -> None:
    topic = node.topic()

    async def run() -> None:
        config = node.config("aiokafka")
        async with recorder.wrap(AIOKafkaProducer(transactional_id=node.group(), **config)) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"committed")
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"aborted")
                    raise ZeroDivisionError
        async with recorder.wrap(AIOKafkaConsumer(isolation_level="read_committed", **config)) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).value == b"committed"

    asyncio.run(run())
    history = verified(recorder, node)
    assert [each.outcome for each in history.of("send")] == [Outcome.OK, Outcome.FAIL]
    [poll] = history.of("poll")
    assert poll.result == ((0, "committed"),)
    assert len(list(history.of("seek"))) == 2


def test_kafka_python(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(), node.group()
    config = node.config("kafka-python")
    with recorder.wrap(kafka.KafkaProducer(**config)) as producer:
        assert isinstance(producer, kafka.KafkaProducer)
        futures = [producer.send(topic, value, b"k") for value in VALUES]
        assert [each.get(30).offset for each in futures] == [0, 1, 2, 3]
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with recorder.wrap(kafka.KafkaConsumer(topic, **settings, **config)) as consumer:
        values = [next(consumer).value]
        while len(values) < 4:
            found = consumer.poll(1000)
            values += [each.value for records in found.values() for each in records]
        assert values == VALUES
        consumer.commit()
    expect_a_group_that_read_all(verified(recorder, node), topic, group)


def test_kafka_python_transactions(node: Cluster, recorder: Recorder) -> None:
    topic, source, group = node.topic(), node.topic(), node.group()
    config = node.config("kafka-python")
    with (
        recorder.wrap(kafka.KafkaProducer(transactional_id=node.group(), **config)) as producer,
        recorder.wrap(kafka.KafkaConsumer(group_id=group, **config)) as consumer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"committed")
        offsets = {kafka.TopicPartition(source, 0): kafka.OffsetAndMetadata(3, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"aborted").get(30)
        producer.abort_transaction()
    history = verified(recorder, node)
    assert [each.outcome for each in history.of("send")] == [Outcome.OK, Outcome.FAIL]
    [commit] = history.of("commit")
    assert (commit.outcome, commit.value.group, commit.value.offsets) == (Outcome.OK, group, ((source, 0, 3),))


async def test_kraft(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(), node.group()
    async with recorder.wrap(Producer(node.bootstrap_servers)) as producer:
        assert isinstance(producer, Producer)
        for offset, value in enumerate(VALUES[:3]):
            assert (await producer.send(topic, value, key=b"k")).offset == offset
        assert (await producer.send_soon(topic, VALUES[3], key=b"k")).offset == 3
    settings: Any = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with recorder.wrap(Consumer(node.bootstrap_servers, topics=[topic], **settings)) as consumer:
        values = [(await anext(consumer)).value]
        while len(values) < 4:
            values += [each.value for each in await consumer.fetch()]
        assert values == VALUES
        await consumer.commit()
    history = await trio.to_thread.run_sync(verified, recorder, node)
    expect_a_group_that_read_all(history, topic, group)


async def test_kraft_transactions(node: Cluster, recorder: Recorder) -> None:
    topic = node.topic()
    async with recorder.wrap(Producer(node.bootstrap_servers, transactional_id=node.group())) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed")
        with suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send(topic, b"aborted")
                raise ZeroDivisionError
    history = await trio.to_thread.run_sync(verified, recorder, node)
    assert [each.outcome for each in history.of("send")] == [Outcome.OK, Outcome.FAIL]


def test_blocking_kraft(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(), node.group()
    with recorder.wrap(SyncProducer(node.bootstrap_servers)) as producer:
        assert isinstance(producer, SyncProducer)
        assert [producer.send(topic, value, key=b"k").offset for value in VALUES] == [0, 1, 2, 3]
    settings: Any = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with recorder.wrap(SyncConsumer(node.bootstrap_servers, topics=[topic], **settings)) as consumer:
        values = [next(consumer).value]
        while len(values) < 4:
            values += [each.value for each in consumer.fetch()]
        assert values == VALUES
        consumer.commit()
    expect_a_group_that_read_all(verified(recorder, node), topic, group)


def test_asyncio_kraft(node: Cluster, recorder: Recorder) -> None:
    topic, group, assigned = node.topic(), node.group(), []

    class Listener(AsyncioRebalanceListener):
        async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            assigned.append((asyncio.current_task(), list(partitions)))

    async def run() -> None:
        async with recorder.wrap(AsyncioProducer(node.bootstrap_servers)) as producer:
            assert isinstance(producer, AsyncioProducer)
            for offset, value in enumerate(VALUES[:3]):
                assert (await producer.send(topic, value, key=b"k")).offset == offset
            assert (await producer.send_soon(topic, VALUES[3], key=b"k")).offset == 3
        settings: Any = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        inner = AsyncioConsumer(node.bootstrap_servers, topics=[topic], listener=Listener(), **settings)
        async with recorder.wrap(inner) as consumer:
            values = [(await anext(consumer)).value]
            while len(values) < 4:
                values += [each.value for each in await consumer.fetch()]
            assert values == VALUES
            await consumer.commit()
        assert assigned == [(asyncio.current_task(), [TopicPartition(topic, 0)])]

    asyncio.run(run())
    expect_a_group_that_read_all(verified(recorder, node), topic, group)


def test_asyncio_kraft_transactions_seeks_and_commits_without_waiting(node: Cluster, recorder: Recorder) -> None:
    topic, group = node.topic(), node.group()

    async def run() -> None:
        async with recorder.wrap(AsyncioProducer(node.bootstrap_servers, transactional_id=node.group())) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                producer.send_soon(topic, b"committed")
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    raise ZeroDivisionError
        committed = asyncio.Event()
        loop = asyncio.get_running_loop()
        consumer = AsyncioConsumer(node.bootstrap_servers, group_id=group, isolation_level="read_committed")
        async with recorder.wrap(consumer) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_end()
            await consumer.seek(TopicPartition(topic, 0), 0)
            assert (await anext(consumer)).value == b"committed"
            await consumer.commit_soon(callback=lambda *told: loop.call_soon_threadsafe(committed.set))
            await committed.wait()

    asyncio.run(run())
    history = verified(recorder, node)
    assert [each.outcome for each in history.of("send")] == [Outcome.OK, Outcome.FAIL]
    [poll] = history.of("poll")
    assert poll.result == ((0, "committed"),)
    assert [each.value.offset for each in history.of("seek")] == [-1, -1, 0]
    [commit] = history.of("commit")
    assert (commit.outcome, commit.value.offsets) == (Outcome.OK, ((topic, 0, 1),))


def test_recorded_producers_of_kraft_tell_of_records_that_were_not_written(node: Cluster, recorder: Recorder) -> None:
    """The callback of the recorder does not count as one of the application, which would hide the failures."""
    topic = node.topic()

    async def send_by_asyncio() -> None:
        async with recorder.wrap(AsyncioProducer(node.bootstrap_servers)) as producer:
            producer.send_soon(topic, b"one")

    async def send_by_trio() -> None:
        async with recorder.wrap(Producer(node.bootstrap_servers)) as producer:
            producer.send_soon(topic, b"one")

    def send_by_thread() -> None:
        with recorder.wrap(SyncProducer(node.bootstrap_servers)) as producer:
            producer.send_soon(topic, b"one")

    sends = partial(asyncio.run, send_by_asyncio()), partial(trio.run, send_by_trio), send_by_thread
    with node.fault(api="Produce", topic=topic, error="INVALID_RECORD"):
        for send in sends:
            with pytest.RaisesGroup(UndeliveredRecords, allow_unwrapped=True, flatten_subgroups=True):
                send()
    assert [each.outcome for each in load_history(recorder.directory).of("send")] == [Outcome.FAIL] * 3


def test_records_of_arrow_leave_the_promises_unknown(node: Cluster, recorder: Recorder) -> None:
    topic = node.topic()
    node.produce(topic, ["one"])
    with recorder.wrap(SyncConsumer(node.bootstrap_servers)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        assert consumer.fetch_arrow(timeout_s=30).num_rows == 1
    verdict = check(recorder, ["nothing lost"])
    assert not verdict.is_broken
    assert "called fetch_arrow" in str(verdict)


def test_client_of_another_kind_is_refused(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="str is no producer or consumer"):
        recorder.wrap("a client")
    with pytest.raises(TypeError, match="AsyncioShareConsumer is not recorded: histories have no share groups"):
        recorder.wrap(AsyncioShareConsumer("localhost:1", topics=["orders"], group_id="billing"))


def test_versions_of_the_libraries_are_those_of_the_documentation() -> None:
    assert confluent_kafka.__version__ >= "2.10"
    assert aiokafka.__version__ >= "0.12"
    assert kafka.__version__ >= "2.2"
