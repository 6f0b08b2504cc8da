"""Hanging transactions are found and aborted (KIP-664)."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from broker.wire.errors import ErrorCode
from tests.support.hanging_transactions import HOUR_MS, hang_transaction
from tests.support.running_node import RunningNode, running_node

PARTITION = TopicPartition("orders", 0)
LONG_AGO_MS = 2 * HOUR_MS


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, transaction_partition_verification_enable="false") as node:
        yield node


@pytest.fixture
async def admin(node: RunningNode) -> AsyncIterator[Admin]:
    async with Admin(f"127.0.0.1:{node.port}") as admin:
        (await admin.create_topics([NewTopic("orders", num_partitions=2)])).raise_first()
        yield admin


def ago_ms(age_ms: int) -> int:
    return int(time.time() * 1000) - age_ms


async def test_hanging_transactions_are_found_and_aborted(node: RunningNode, admin: Admin) -> None:
    offset = await hang_transaction(node.port, "orders", 4711, timestamp_ms=ago_ms(LONG_AGO_MS))
    partitions = [PARTITION, TopicPartition("orders", 1)]

    (found,) = await admin.find_hanging_transactions(partitions)
    assert found.partition == PARTITION
    assert (found.producer.producer_id, found.producer.epoch, found.producer.coordinator_epoch) == (4711, 0, -1)
    assert found.producer.transaction_start_offset == offset

    await admin.abort_transaction(PARTITION, producer_id=4711, producer_epoch=0, coordinator_epoch=-1)
    assert await admin.find_hanging_transactions(partitions) == []
    servers = f"127.0.0.1:{node.port}"
    async with Producer(servers) as producer:
        await producer.send("orders", b"later", partition=0)
    async with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        with trio.fail_after(10):
            read = [record.value for record in await consumer.fetch(timeout_s=5)]
    assert read == [b"later"]


async def test_recent_transactions_are_not_found(node: RunningNode, admin: Admin) -> None:
    await hang_transaction(node.port, "orders", 4711, timestamp_ms=ago_ms(HOUR_MS))
    assert await admin.find_hanging_transactions([PARTITION], max_transaction_timeout_ms=LONG_AGO_MS) == []
    assert len(await admin.find_hanging_transactions([PARTITION], broker_id=1)) == 1


async def test_transactions_that_a_coordinator_will_end_are_not_found(node: RunningNode, admin: Admin) -> None:
    """Also not if the same producer has a hanging transaction in another partition, which is found."""
    async with Producer(f"127.0.0.1:{node.port}", transactional_id="t") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"open", partition=0)
        (described,) = (await admin.describe_transactions(["t"])).raise_first().values()
        other = TopicPartition("orders", 1)
        await hang_transaction(node.port, "orders", described.producer_id, timestamp_ms=ago_ms(LONG_AGO_MS), index=1)
        with trio.fail_after(10):
            while not await admin.find_hanging_transactions([PARTITION, other], max_transaction_timeout_ms=0):
                await trio.sleep(0.01)
        found = await admin.find_hanging_transactions([PARTITION, other], max_transaction_timeout_ms=0)
        assert [each.partition for each in found] == [other]
        await producer.abort_transaction()


async def test_an_abort_with_an_earlier_epoch_is_refused(node: RunningNode, admin: Admin) -> None:
    await hang_transaction(node.port, "orders", 4711, timestamp_ms=ago_ms(LONG_AGO_MS))
    await admin.abort_transaction(PARTITION, producer_id=4711, producer_epoch=3, coordinator_epoch=5)
    for producer_epoch, coordinator_epoch, code in (
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(KafkaError) as refused:
            await admin.abort_transaction(
                PARTITION,
                producer_id=4711,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        assert refused.value.code == code
