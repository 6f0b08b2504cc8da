"""SyncProducer with a node."""

import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.client import (
    ClientFailed,
    ClosedError,
    ConfigError,
    JsonSerializer,
    KafkaError,
    NewTopic,
    OffsetSpec,
    Producer,
    RecordMetadata,
    RecordTooLarge,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TimedOut,
    TopicPartition,
    UndeliveredRecords,
)
from broker.client.hosted import queued_producer
from broker.client.hosted.queued_producer import QueuedProducer, QueuedRecord
from jepsen.processes.ports import free_ports
from tests.support.scripts import run_script


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions)]).raise_first()


def latest(bootstrap: str, topic: str, partition: int = 0) -> int:
    with SyncAdmin(bootstrap) as admin:
        asked = TopicPartition(topic, partition)
        found = admin.list_offsets({asked: OffsetSpec.LATEST}).value(asked)
        assert found is not None
        return found.offset


def test_every_method_of_producer_has_a_blocking_one_with_equal_parameters() -> None:
    methods = {
        name: inspect.signature(function).parameters
        for name, function in inspect.getmembers(Producer, inspect.isfunction)
        # a thread that calls send_soon waits for room in that call
        if not name.startswith("_") and name != "wait_for_room"
    }
    for name, parameters in methods.items():
        assert inspect.signature(getattr(SyncProducer, name)).parameters == parameters, name
    taken = dict(inspect.signature(Producer).parameters)
    del taken["environment"]
    assert dict(inspect.signature(SyncProducer).parameters) == taken


def test_send_returns_where_the_record_was_written(bootstrap: str) -> None:
    create(bootstrap, "sent", 2)
    with SyncProducer(bootstrap, linger_ms=0) as producer:
        assert len(producer.partitions_for("sent")) == 2
        metadata = producer.send("sent", b"value", key=b"key", headers=[("source", b"test")], partition=1)
        assert (metadata.topic, metadata.partition, metadata.offset) == ("sent", 1, 0)
        assert producer.send("sent", b"value", partition=1, timestamp_ms=5).timestamp_ms == 5


def test_records_of_a_thread_keep_their_order_and_are_written_when_the_block_ends(bootstrap: str) -> None:
    create(bootstrap, "ordered")
    with SyncProducer(bootstrap) as producer:
        deliveries = [producer.send_soon("ordered", b"%d" % number) for number in range(25_000)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(25_000))
    assert latest(bootstrap, "ordered") == 25_000


def test_tables_are_written_after_the_records_handed_over_before(bootstrap: str) -> None:
    create(bootstrap, "tables")
    with SyncProducer(bootstrap) as producer:
        deliveries = [producer.send_soon("tables", b"%d" % number) for number in range(5_000)]
        offsets = producer.produce_arrow("tables", pa.table({"value": ["a", "b"]}))
        assert offsets == {TopicPartition("tables", 0): [range(5_000, 5_002)]}
        assert deliveries[-1].result().offset == 4_999


def test_threads_share_a_producer(bootstrap: str) -> None:
    create(bootstrap, "shared-producer")

    def send(number: int) -> list[int]:
        deliveries = [producer.send_soon("shared-producer", b"%d" % number) for _ in range(500)]
        return [delivery.result().offset for delivery in deliveries]

    with SyncProducer(bootstrap) as producer, ThreadPoolExecutor(4) as threads:
        offsets = list(threads.map(send, range(4)))
    assert sorted(offset for each in offsets for offset in each) == list(range(2_000))
    assert all(each == sorted(each) for each in offsets)


def test_flush_waits_for_every_record_that_was_handed_over(bootstrap: str) -> None:
    create(bootstrap, "flushed")
    with SyncProducer(bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        deliveries = [producer.send_soon("flushed", b"value") for _ in range(10)]
        with pytest.raises(TimedOut, match="may still be written"):
            deliveries[0].result(timeout_s=0.05)
        producer.flush()
        assert all(delivery.is_done for delivery in deliveries)


def test_a_record_that_is_refused_fails_its_delivery_and_its_callback(bootstrap: str) -> None:
    create(bootstrap, "refused")
    outcomes = []
    with SyncProducer(bootstrap, value_serializer=JsonSerializer(), max_request_size=10_000) as producer:
        large = producer.send_soon("refused", "x" * 20_000, on_delivery=lambda *outcome: outcomes.append(outcome))
        unserializable = producer.send_soon("refused", {1, 2})
        written = producer.send_soon("refused", [1, 2], on_delivery=lambda *outcome: outcomes.append(outcome))
        for _ in range(2):
            with pytest.raises(RecordTooLarge):
                large.result()
        with pytest.raises(TypeError):
            unserializable.result()
        metadata = written.result()
        with pytest.raises(KafkaError):
            producer.send("not/allowed", 1)
    (refused, accepted) = outcomes
    assert refused[0] is None
    assert isinstance(refused[1], RecordTooLarge)
    assert accepted == (metadata, None)


def test_a_callback_may_hand_over_further_records(bootstrap: str) -> None:
    create(bootstrap, "chained")
    last: list[int] = []
    with SyncProducer(bootstrap, linger_ms=0) as producer:

        def send_next(metadata: RecordMetadata | None, error: Exception | None) -> None:
            assert metadata is not None, error
            last.append(metadata.offset)
            if metadata.offset < 5:
                producer.send_soon("chained", b"value", on_delivery=send_next)

        producer.send_soon("chained", b"value", on_delivery=send_next)
        deadline = time.monotonic() + 30
        while len(last) < 6:
            assert time.monotonic() < deadline, last
            producer.flush()
    assert last == [0, 1, 2, 3, 4, 5]


def test_records_for_which_there_is_no_room_time_out_together() -> None:
    (port,) = free_ports(1)
    with SyncProducer(f"127.0.0.1:{port}", buffer_memory=50_000, batch_size=1_000, max_block_ms=300) as producer:
        deliveries = [producer.send_soon("topic", b"x" * 1_000, partition=0) for _ in range(200)]
        started = time.monotonic()
        with pytest.raises(TimedOut):
            deliveries[-1].result(timeout_s=30)
        assert time.monotonic() - started < 30
        with pytest.raises(UndeliveredRecords, match="199 records were not written"):
            producer.close(timeout_s=0)
        with pytest.raises((ClosedError, TimedOut)):
            deliveries[0].result()


@pytest.mark.parametrize("wrong", [{"timestamp_ms": 1.5}, {"headers": [("a", "text")]}, {"key": "k"}], ids=str)
def test_wrong_part_of_a_record_is_refused_at_the_call_and_no_other_record_is_lost(
    bootstrap: str, wrong: dict[str, Any]
) -> None:
    topic = f"wrong-{next(iter(wrong))}"
    create(bootstrap, topic)
    with SyncProducer(bootstrap, linger_ms=30) as producer:
        for number in range(10):
            if number == 5:
                with pytest.raises(TypeError, match=f"a record for {topic}"):
                    producer.send_soon(topic, b"", **wrong)
            else:
                producer.send_soon(topic, b"")
    with SyncConsumer(bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        assert consumer.end_offsets([partition]) == {partition: 9}


def test_record_that_its_serializer_refuses_is_told_at_the_end_of_the_block(bootstrap: str) -> None:
    topic = "refused-by-serializer"
    create(bootstrap, topic)

    def run(error: Exception | None) -> None:
        with SyncProducer(bootstrap, value_serializer=JsonSerializer()) as producer:
            producer.send_soon(topic, b"no JSON")
            producer.send_soon(topic, "JSON")
            with pytest.raises(TypeError):
                producer.send_soon(topic, b"no JSON").result()
            if error is not None:
                raise error

    with pytest.raises(UndeliveredRecords, match="1 record was not written: Object of type bytes") as raised:
        run(None)
    assert isinstance(raised.value.__cause__, TypeError)
    with pytest.raises(UndeliveredRecords) as raised:
        run(LookupError("of the application"))
    assert isinstance(raised.value.__context__, LookupError)
    assert latest(bootstrap, topic) == 2


def test_error_of_a_callback_ends_its_producer_alone_and_the_records_it_holds(bootstrap: str) -> None:
    topic = "failing-callback"
    create(bootstrap, topic)

    def fail(metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise LookupError("of the application")

    with SyncProducer(bootstrap) as other:
        producer = SyncProducer(bootstrap)
        waiting = producer.send_soon(topic, b"held", partition=5)
        producer.send_soon(topic, b"1", on_delivery=fail)
        with pytest.raises(ClosedError) as raised:
            waiting.result(timeout_s=30)
        assert isinstance(_root_cause(raised.value), LookupError)
        with pytest.raises(ClosedError) as raised:
            producer.send(topic, b"2")
        assert isinstance(_root_cause(raised.value), LookupError)
        with pytest.raises(ClientFailed):
            producer.close()
        assert other.send(topic, b"3").offset > 0


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def test_a_closed_producer_says_so(bootstrap: str) -> None:
    producer = SyncProducer(bootstrap)
    producer.close()
    producer.close()
    with pytest.raises(ClosedError, match="open another one"):
        producer.send_soon("topic", b"value")
    with pytest.raises(ConfigError, match=r"did you mean linger\.ms"):
        SyncProducer(bootstrap, config={"linger": 5})


def test_records_that_a_producer_has_when_the_process_ends_are_written(bootstrap: str) -> None:
    create(bootstrap, "at-exit")
    script = """
import sys
from broker.client import SyncProducer
producer = SyncProducer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
for _ in range(100):
    producer.send_soon("at-exit", b"value")
"""
    run_script(script, bootstrap)
    assert latest(bootstrap, "at-exit") == 100


def test_a_forked_process_writes_with_a_producer_of_its_own(bootstrap: str) -> None:
    create(bootstrap, "forked")
    script = """
import os, sys
from broker.client import SyncProducer
with SyncProducer(sys.argv[1]) as producer:
    producer.send("forked", b"parent")
    child = os.fork()
    if not child:
        with SyncProducer(sys.argv[1]) as own:
            own.send("forked", b"child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(10):
        producer.send("forked", b"parent")
"""
    run_script(script, bootstrap)
    assert latest(bootstrap, "forked") == 12


async def test_queue_of_a_producer_that_has_closed_takes_no_record() -> None:
    producer: Producer[bytes, bytes] = Producer("127.0.0.1:1")
    queued = QueuedProducer(producer, None, None)
    async with queued.open():
        pass
    record = QueuedRecord()
    with pytest.raises(ClosedError, match="it was not written"):
        queued.put(record, queued.entry("topic", b"value", None, (), None, None, None), queued.wake)


@pytest.mark.parametrize("limit", ["records", "bytes"])
async def test_wait_for_room_ends_when_the_queue_is_half_empty(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queued = QueuedProducer(Producer("127.0.0.1:1"), None, None)
    entry = queued.entry("topic", b"value", None, (), None, None, None)
    if limit == "records":
        monkeypatch.setattr(queued_producer, "QUEUED_RECORDS_MAX", 12)
    else:
        monkeypatch.setattr(queued_producer, "QUEUED_BYTES_MAX", 12 * entry.size)
    for _ in range(6):
        queued.put(QueuedRecord(), entry, queued.wake)
    with trio.move_on_after(0) as half:
        await queued.wait_for_room()
    queued.put(QueuedRecord(), entry, queued.wake)
    with trio.move_on_after(0) as more:
        await queued.wait_for_room()
    assert (half.cancelled_caught, more.cancelled_caught) == (False, True)


async def test_records_are_handed_over_after_a_caller_was_interrupted_before_it_woke_the_loop() -> None:
    queued = QueuedProducer(Producer("127.0.0.1:1"), None, None)
    records = [QueuedRecord() for _ in range(3)]
    entry = queued.entry("topic", b"value", None, (), None, None, None)

    def interrupted() -> None:
        raise KeyboardInterrupt

    async with queued.open():
        with pytest.raises(KeyboardInterrupt):
            queued.put(records[0], entry, interrupted)
        queued.put(records[1], entry, queued.wake)
        await wait_all_tasks_blocked()
        assert records[0].delivery is not None
        assert records[1].delivery is not None
        with pytest.raises(KeyboardInterrupt):
            queued.put(records[2], entry, interrupted)
        with trio.fail_after(5):
            await queued.wait_until_empty()
        assert records[2].delivery is not None
        with pytest.raises(UndeliveredRecords, match="3 records"):
            await queued.close(0)


async def test_every_record_has_one_outcome_if_the_callback_of_a_refused_one_raises() -> None:
    queued = QueuedProducer(Producer("127.0.0.1:1", max_request_size=1_000), None, None)
    outcomes: list[tuple[int, type[Exception]]] = []

    def note(number: int, metadata: RecordMetadata | None, error: Exception | None) -> None:
        assert error is not None, "no broker takes the record"
        outcomes.append((number, type(error)))
        if number == 0:
            raise ValueError("the callback")

    records = [QueuedRecord() for _ in range(3)]

    async def put_all() -> None:
        async with queued.open():
            for number, record in enumerate(records):
                value = b"x" * (2_000 if number == 0 else 10)
                entry = queued.entry("topic", value, None, (), None, None, partial(note, number))
                queued.put(record, entry, queued.wake)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup):
        await put_all()
    assert outcomes == [(0, RecordTooLarge), (1, ClosedError), (2, ClosedError)]
    assert all(record.is_done for record in records)
