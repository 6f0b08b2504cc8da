"""AsyncioProducer, AsyncioConsumer and AsyncioAdmin with a node."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from broker.client import (
    Admin,
    AsyncioAdmin,
    AsyncioConsumer,
    AsyncioProducer,
    AsyncioRebalanceListener,
    BufferFull,
    ClosedError,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    RecordTooLarge,
    TopicPartition,
    UndeliveredRecords,
)
from broker.client.hosted import queued_producer

WITHIN_S = 30
# Parameters that the face replaces, and one that only simulations pass.
OTHERS = {"listener", "environment"}


def run(function: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(WITHIN_S):
            await function()

    asyncio.run(within())


def _parameters(function: object) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    return {name: parameter for name, parameter in parameters.items() if name not in OTHERS}


@pytest.mark.parametrize(
    ("client", "face"), [(Admin, AsyncioAdmin), (Consumer, AsyncioConsumer), (Producer, AsyncioProducer)]
)
def test_every_method_of_a_client_has_one_for_asyncio_with_equal_parameters(client: type[Any], face: type[Any]) -> None:
    methods = [name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) > 5
    for name in methods:
        method = getattr(face, name)
        if (client, name) != (Producer, "wait_for_room"):  # the size of a record is not known to the queue
            assert _parameters(method) == _parameters(getattr(client, name)), name
        assert inspect.iscoroutinefunction(method) or name in ("send_soon", "transaction", "read_range"), name
        assert inspect.getdoc(method), name
    assert _parameters(face) == _parameters(client)


def test_records_are_written_and_read(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioAdmin(bootstrap) as admin:
            (await admin.create_topics([NewTopic("aio", 2)])).raise_first()
        async with AsyncioProducer(bootstrap) as producer:
            first = await producer.send("aio", b"0", partition=0, headers=[("name", b"value")])
            assert (first.partition, first.offset) == (0, 0)
            deliveries = [producer.send_soon("aio", b"%d" % number, partition=0) for number in range(1, 1_000)]
            sent = await asyncio.gather(*deliveries)
            assert [each.offset for each in sent] == list(range(1, 1_000))
            assert deliveries[-1].result() == sent[-1]
            assert [each.partition for each in await producer.partitions_for("aio")] == [0, 1]
        async with AsyncioConsumer(
            bootstrap, topics=["aio"], group_id="aio", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            read = []
            async for record in consumer:
                read.append(record.value)
                if len(read) == 600:
                    break
            while len(read) < 1_000:
                read += [record.value for record in await consumer.fetch()]
            assert read == [b"%d" % number for number in range(1_000)]
            assert await consumer.fetch(timeout_s=0.01) == []
            assert await consumer.assignment() == {TopicPartition("aio", 0), TopicPartition("aio", 1)}
            await consumer.commit()
            await consumer.seek_to_beginning()
            assert (await consumer.fetch_arrow(max_records=3, timeout_s=10, columns=["value"])).num_rows == 3
        async with AsyncioConsumer(bootstrap) as consumer:
            batches = [each async for each in consumer.read_range(TopicPartition("aio", 0), 10, 20)]
            assert sum(batch.num_rows for batch in batches) == 10

    run(clients)


def test_iteration_over_records_that_are_here_lets_other_tasks_run(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioProducer(bootstrap) as producer:
            for number in range(2_000):
                producer.send_soon("aio-many", b"%d" % number)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncioConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition("aio-many", 0)])
            await anext(consumer)
            await asyncio.sleep(0.2)  # more records are fetched ahead
            task = asyncio.create_task(other())
            before = turns
            for _ in range(1_000):
                await anext(consumer)
            task.cancel()
        assert turns - before >= 4

    run(clients)


def test_cancelled_fetch_takes_no_record(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioProducer(bootstrap, linger_ms=0) as producer, AsyncioAdmin(bootstrap) as admin:
            (await admin.create_topics([NewTopic("aio-cancelled", 1)])).raise_first()
            async with AsyncioConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
                await consumer.assign([TopicPartition("aio-cancelled", 0)])
                read: list[bytes | None] = []
                for number in range(60):
                    await producer.send("aio-cancelled", b"%d" % number)
                    task = asyncio.create_task(consumer.fetch(max_records=1))
                    # Some are cancelled before they have begun, some when the record is on its way.
                    await asyncio.sleep(0.0005 * (number % 8))
                    if not task.done():
                        task.cancel()
                    (done,) = await asyncio.gather(task, return_exceptions=True)
                    if isinstance(done, list):
                        read += [record.value for record in done]
                    else:
                        assert isinstance(done, asyncio.CancelledError)
                while len(read) < 60:
                    read += [record.value for record in await consumer.fetch(timeout_s=10)]
                assert read == [b"%d" % number for number in range(60)]

    run(clients)


def test_send_waits_for_room_and_send_soon_says_that_there_is_none(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued_producer, "QUEUED_RECORDS_MAX", 10)

    async def clients() -> None:
        async with AsyncioProducer(bootstrap) as producer:
            await producer.send("aio-full", b"first")

            def send_many() -> None:
                for _ in range(100_000):
                    producer.send_soon("aio-full", b"value")

            with pytest.raises(BufferFull):
                send_many()
            await producer.wait_for_room()
            producer.send_soon("aio-full", b"value")
            sent = await asyncio.gather(*(producer.send("aio-full", b"value") for _ in range(200)))
            assert len({each.offset for each in sent}) == 200

    run(clients)


def test_refused_records_fail_their_sends_deliveries_and_callbacks(bootstrap: str) -> None:
    async def clients() -> None:
        told: list[tuple[RecordMetadata | None, Exception | None, object]] = []

        def note(metadata: RecordMetadata | None, error: Exception | None) -> None:
            told.append((metadata, error, asyncio.current_task() or asyncio.get_running_loop()))

        async with AsyncioProducer(bootstrap, max_request_size=5_000) as producer:
            with pytest.raises(RecordTooLarge):
                await producer.send("aio-refused", bytes(10_000))
            delivery = producer.send_soon("aio-refused", bytes(10_000))
            with pytest.raises(RecordTooLarge):
                await delivery
            with pytest.raises(RecordTooLarge):
                delivery.result()
            producer.send_soon("aio-refused", bytes(10_000), on_delivery=note)
            producer.send_soon("aio-refused", b"right", on_delivery=note)
            with pytest.raises(TypeError):
                await producer.send("aio-refused", "text")  # type: ignore[arg-type]
            with pytest.raises(KafkaError):
                await producer.send("no/topic", b"value")
            await producer.flush()
        assert [(type(metadata), type(error)) for metadata, error, _ in told] == [
            (type(None), RecordTooLarge),
            (RecordMetadata, type(None)),
        ]
        assert {loop for _, _, loop in told} == {asyncio.get_running_loop()}

    run(clients)


def test_unread_failure_is_raised_by_the_block(bootstrap: str) -> None:
    async def clients() -> None:
        with pytest.raises(UndeliveredRecords):
            async with AsyncioProducer(bootstrap, max_request_size=5_000) as producer:
                producer.send_soon("aio-unread", bytes(10_000))

    run(clients)


def test_cancelled_block_gives_up_unsent_records() -> None:
    async def clients() -> None:
        async def block() -> None:
            async with AsyncioProducer("127.0.0.1:9") as producer:
                await producer.send("topic", b"value")

        task = asyncio.create_task(block())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await task

    run(clients)


def test_transactions_and_their_offsets(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioProducer(bootstrap) as producer:
            await producer.send("aio-in", b"input")
        async with (
            AsyncioConsumer(
                bootstrap, topics=["aio-in"], group_id="aio-tx", auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
            AsyncioProducer(bootstrap, transactional_id="aio") as producer,
        ):
            await producer.init_transactions()
            record = await anext(consumer)

            async def fail() -> None:
                async with producer.transaction():
                    await producer.send("aio-out", b"aborted")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            async with producer.transaction():
                producer.send_soon("aio-out", record.value)
                partition = TopicPartition("aio-in", record.partition)
                offsets = {partition: OffsetAndMetadata(await consumer.position(partition))}
                await producer.send_offsets_to_transaction(offsets, await consumer.group_metadata())
            assert (await consumer.committed([partition]))[partition] is not None
        async with AsyncioConsumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as reader:
            await reader.assign([TopicPartition("aio-out", 0)])
            assert (await anext(reader)).value == b"input"

    run(clients)


def test_listener_runs_in_the_task_that_reads_and_may_call_the_consumer(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioProducer(bootstrap) as producer:
            for number in range(10):
                await producer.send("aio-listened", b"%d" % number)
        seen: list[tuple[str, int, bool]] = []
        reading = asyncio.current_task()

        class Listener(AsyncioRebalanceListener):
            async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                seen.append(("assigned", len(partitions), asyncio.current_task() is reading))
                for each in partitions:
                    await consumer.seek(each, 4)

            async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                await consumer.commit()
                seen.append(("revoked", len(partitions), asyncio.current_task() is reading))

        async with AsyncioConsumer(
            bootstrap, topics=["aio-listened"], group_id="aio-listened", listener=Listener(), enable_auto_commit=False
        ) as consumer:
            assert (await anext(consumer)).offset == 4
        assert seen == [("assigned", 1, True), ("revoked", 1, True)]
        async with AsyncioAdmin(bootstrap) as admin:
            partition = TopicPartition("aio-listened", 0)
            offsets = await admin.list_group_offsets({"aio-listened": [partition]})
            committed = offsets.value("aio-listened").value(partition)
            assert committed is not None
            assert committed.offset == 5

    run(clients)


def test_error_of_a_listener_is_raised_by_the_task_that_reads(bootstrap: str) -> None:
    async def clients() -> None:
        class Listener(AsyncioRebalanceListener):
            async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                raise ValueError("as asked")

        async with AsyncioProducer(bootstrap) as producer:
            await producer.send("aio-failing", b"value")
        async with AsyncioConsumer(
            bootstrap, topics=["aio-failing"], group_id="aio-failing", listener=Listener()
        ) as consumer:
            with pytest.raises(ValueError, match="as asked"):
                await consumer.fetch(timeout_s=10)

    run(clients)


def test_listener_that_closes_its_consumer_is_told_that_it_cannot(bootstrap: str) -> None:
    async def clients() -> None:
        class Listener(AsyncioRebalanceListener):
            async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                await consumer.close()

        async with AsyncioProducer(bootstrap) as producer:
            await producer.send("aio-closing", b"value")
        async with AsyncioConsumer(
            bootstrap, topics=["aio-closing"], group_id="aio-closing", listener=Listener()
        ) as consumer:
            with pytest.raises(RuntimeError, match="a callback cannot close its client"):
                await consumer.fetch(timeout_s=10)

    run(clients)


def test_producer_of_another_loop_refuses_to_send(bootstrap: str) -> None:
    async def send(producer: AsyncioProducer[bytes, bytes]) -> None:
        async with asyncio.timeout(WITHIN_S):
            await producer.send("aio-loops", b"value")

    with asyncio.Runner() as first:
        producer = first.run(AsyncioProducer(bootstrap).__aenter__())
        first.run(send(producer))
        with asyncio.Runner() as second, pytest.raises(RuntimeError, match="opened on another asyncio loop"):
            second.run(send(producer))
        first.run(producer.close())


def test_closed_clients_say_so(bootstrap: str) -> None:
    async def clients() -> None:
        async with AsyncioProducer(bootstrap) as producer, AsyncioConsumer(bootstrap) as consumer:
            pass
        for call in (producer.send("topic", b"value"), producer.flush(), consumer.fetch(), consumer.assignment()):
            with pytest.raises(ClosedError):
                await call
        with pytest.raises(ClosedError):
            producer.send_soon("topic", b"value")
        with pytest.raises(ClosedError, match="async with"):
            AsyncioProducer(bootstrap).send_soon("topic", b"value")

    run(clients)
