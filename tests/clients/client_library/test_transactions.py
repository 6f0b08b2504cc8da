"""Transactions of the client library, with three nodes of ours or of Apache Kafka."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    FeatureUpdate,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFenced,
    SyncProducer,
    TopicPartition,
    TransactionAbortable,
    TransactionError,
    UpgradeType,
)
from broker.wire.errors import ErrorCode
from tests.support.client_peers import WITHIN_S, ClientPeer

pytestmark = pytest.mark.clients

COMMITTED: dict[str, Any] = {"isolation_level": "read_committed"}
FEATURE = "transaction.version"


def producer_of(peer: ClientPeer, transactional_id: str, **settings: Any) -> Producer:
    return Producer(peer.bootstrap, transactional_id=transactional_id, linger_ms=0, **settings)


async def change_version(peer: ClientPeer, level: int, upgrade_type: UpgradeType) -> None:
    async with Admin(peer.bootstrap) as admin:
        (await admin.update_features({FEATURE: FeatureUpdate(level, upgrade_type)})).raise_first()
    with trio.fail_after(WITHIN_S):
        for member in peer.cluster.members:
            async with Admin(member.bootstrap) as admin:
                while (await admin.describe_features()).finalized[FEATURE].highest != level:
                    await trio.sleep(0.02)


@asynccontextmanager
async def transaction_version(peer: ClientPeer, level: int) -> AsyncIterator[None]:
    """Set the cluster's transaction.version to this level within the block; it is 2 before and after."""
    if level == 2:
        yield
        return
    await change_version(peer, level, UpgradeType.SAFE_DOWNGRADE)
    try:
        yield
    finally:
        await change_version(peer, 2, UpgradeType.UPGRADE)


async def read_to_end(peer: ClientPeer, partitions: Iterable[TopicPartition], **settings: Any) -> list[bytes | None]:
    """The values of all records that this consumer can read now."""
    values = []
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign(list(partitions))
        ends = await consumer.end_offsets(consumer.assignment())
        with trio.fail_after(WITHIN_S):
            while any([await consumer.position(each) < end for each, end in ends.items()]):
                values += [record.value for record in await consumer.fetch(timeout_s=0.2)]
    return values


@pytest.mark.parametrize("version", [2, 1])
async def test_committed_records_are_read_and_aborted_ones_are_not(peer: ClientPeer, topic: str, version: int) -> None:
    partitions = await peer.create(topic, 2)
    async with transaction_version(peer, version), producer_of(peer, topic) as producer:
        for number in range(6):
            with suppress(LookupError):
                async with producer.transaction():
                    for partition in range(2):
                        producer.send_soon(topic, b"%d" % number, partition=partition)
                    if number % 2:
                        await producer.flush()
                        raise LookupError
    committed = sorted(await read_to_end(peer, partitions, **COMMITTED), key=str)
    assert committed == [b"0", b"0", b"2", b"2", b"4", b"4"]
    assert len(await read_to_end(peer, partitions)) == 12


async def test_open_transaction_holds_up_readers_of_committed_records(peer: ClientPeer, topic: str) -> None:
    (partition,) = await peer.create(topic)
    async with (
        producer_of(peer, topic) as producer,
        Producer(peer.bootstrap, linger_ms=0) as plain,
        Consumer(peer.bootstrap, auto_offset_reset="earliest", **COMMITTED) as consumer,
    ):
        consumer.assign([partition])
        await plain.send(topic, b"before")
        await producer.begin_transaction()
        await producer.send(topic, b"within")
        await plain.send(topic, b"after")
        assert [record.value for record in await peer.take(consumer, 1)] == [b"before"]
        assert await consumer.end_offsets([partition]) == {partition: 1}
        assert await consumer.fetch(timeout_s=0.3) == []
        await producer.commit_transaction()
        assert [record.value for record in await peer.take(consumer, 2)] == [b"within", b"after"]


async def test_rows_of_tables_are_written_and_read_in_transactions(peer: ClientPeer, topic: str) -> None:
    (partition,) = await peer.create(topic)
    async with producer_of(peer, topic, compression_type="zstd") as producer:
        for number in range(4):
            with suppress(LookupError):
                async with producer.transaction():
                    await producer.produce_arrow(topic, pa.table({"value": [str(number)] * 1_000}))
                    if number % 2:
                        raise LookupError
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest", **COMMITTED) as consumer:
        consumer.assign([partition])
        values: list[bytes] = []
        with trio.fail_after(WITHIN_S):
            while len(values) < 2_000:
                values += (await consumer.fetch_arrow(columns=["value"])).column("value").to_pylist()
    assert values == [b"0"] * 1_000 + [b"2"] * 1_000


@pytest.mark.parametrize("version", [2, 1])
async def test_second_producer_fences_the_first_and_aborts_its_transaction(
    peer: ClientPeer, topic: str, version: int
) -> None:
    partitions = await peer.create(topic)
    async with transaction_version(peer, version), producer_of(peer, topic) as first:
        await first.begin_transaction()
        await first.send(topic, b"zombie")
        async with producer_of(peer, topic) as second:
            await second.init_transactions()
            with pytest.raises((KafkaError, ProducerFenced)):
                await first.send(topic, b"zombie")
            with pytest.raises(TransactionError):
                await first.commit_transaction()
            with suppress(ProducerFenced):
                await first.abort_transaction()
            async with second.transaction():
                await second.send(topic, b"second")
    assert await read_to_end(peer, partitions, **COMMITTED) == [b"second"]


async def test_coordinator_aborts_a_transaction_after_its_timeout(peer: ClientPeer, topic: str) -> None:
    partitions = await peer.create(topic)
    async with producer_of(peer, topic, transaction_timeout_ms=1_000) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"late")
        async with Admin(peer.bootstrap) as admin:
            with trio.fail_after(WITHIN_S):
                while (await admin.describe_transactions([topic])).value(topic).state != "CompleteAbort":
                    await trio.sleep(0.1)
        with pytest.raises(TransactionError):
            await producer.commit_transaction()
    async with producer_of(peer, topic) as producer, producer.transaction():
        await producer.send(topic, b"in time")
    assert await read_to_end(peer, partitions, **COMMITTED) == [b"in time"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("version", [2, 1])
async def test_consumed_offsets_are_committed_with_the_output(
    peer: ClientPeer, topic: str, group: str, protocol: str, version: int
) -> None:
    sources = await peer.create(topic, 2)
    outputs = await peer.create(f"{topic}-output")
    async with Producer(peer.bootstrap) as plain:
        for number in range(100):
            plain.send_soon(topic, b"%d" % number, partition=number % 2)
    settings: dict[str, Any] = {
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(transaction_version(peer, version))
        producer = await stack.enter_async_context(producer_of(peer, topic))
        for attempt in range(2):
            # The first consumer's transaction is aborted, so that the second one starts at the same position.
            async with Consumer(peer.bootstrap, topics=[topic], group_id=group, **settings) as consumer:
                with suppress(LookupError):
                    async with producer.transaction():
                        records = await peer.take(consumer, 100)
                        for record in records:
                            producer.send_soon(outputs[0].topic, record.value)
                        offsets = {each: OffsetAndMetadata(50) for each in sources}
                        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                        if attempt == 0:
                            raise LookupError
                committed = await consumer.committed(sources)
                assert [each and each.offset for each in committed.values()] == [50 if attempt else None] * 2
    output = await read_to_end(peer, outputs, **COMMITTED)
    assert sorted(int(value or b"") for value in output) == list(range(100))


async def test_kip_447_offsets_of_a_former_generation_are_refused(peer: ClientPeer, topic: str, group: str) -> None:
    (source,) = await peer.create(topic)
    async with Producer(peer.bootstrap) as plain:
        await plain.send(topic, b"value")
    async with (
        Consumer(peer.bootstrap, topics=[topic], group_id=group, auto_offset_reset="earliest") as consumer,
        producer_of(peer, topic) as producer,
    ):
        await peer.take(consumer, 1)
        former = consumer.group_metadata()._replace(generation_id=consumer.group_metadata().generation_id + 7)
        await producer.begin_transaction()
        with pytest.raises(TransactionAbortable) as caught:
            await producer.send_offsets_to_transaction({source: OffsetAndMetadata(1)}, former)
        assert isinstance(caught.value.__cause__, KafkaError)
        assert caught.value.__cause__.code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"another value")


async def test_transactions_of_the_library_and_of_confluent_kafka_are_read_by_either(
    peer: ClientPeer, topic: str
) -> None:
    partitions = await peer.create(topic)

    def produce_by_confluent() -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": peer.bootstrap, "transactional.id": f"{topic}-c"})
        producer.init_transactions(WITHIN_S)
        for value, is_commit in ((b"aborted", False), (b"confluent", True)):
            producer.begin_transaction()
            producer.produce(topic, value)
            producer.flush(WITHIN_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(WITHIN_S)

    def consume_by_confluent() -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": peer.bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < 2:
            message = consumer.poll(WITHIN_S)
            assert message is not None
            values.append(message.value())
        consumer.close()
        return values

    def produce_blocking() -> None:
        with SyncProducer(peer.bootstrap, transactional_id=topic) as producer:
            with producer.transaction():
                producer.send_soon(topic, b"blocking")
            producer.begin_transaction()
            producer.send(topic, b"aborted")
            producer.abort_transaction()

    await trio.to_thread.run_sync(produce_by_confluent)
    await trio.to_thread.run_sync(produce_blocking)
    assert await read_to_end(peer, partitions, **COMMITTED) == [b"confluent", b"blocking"]
    assert await trio.to_thread.run_sync(consume_by_confluent) == [b"confluent", b"blocking"]
