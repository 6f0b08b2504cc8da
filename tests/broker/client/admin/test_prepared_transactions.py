"""An Admin ends prepared transactions of producers that are gone."""

from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    FeatureUpdate,
    KafkaError,
    NewTopic,
    PreparedTransaction,
    Producer,
    TopicPartition,
    UpgradeType,
)
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node
from tests.support.running_node import running_node

PARTITION = TopicPartition("orders", 0)


async def prepare(servers: str, transactional_id: str, value: bytes) -> PreparedTransaction:
    async with Producer(servers, transactional_id=transactional_id) as producer:
        await producer.begin_transaction()
        producer.send_soon("orders", value)
        return await producer.prepare_transaction(allow_timeout=True)


async def set_version(admin: Admin, version: int) -> None:
    if version == 1:
        down = {"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
        (await admin.update_features(down)).raise_first()


async def read(servers: str, end: int) -> list[bytes | None]:
    """The committed values, once all transactions before the offset `end` have ended."""
    async with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        found = []
        with trio.fail_after(20):
            while await consumer.position(PARTITION) < end:
                found += [record.value for record in await consumer.fetch(timeout_s=0.1)]
        return found


@pytest.mark.parametrize("version", [1, 2])
async def test_prepared_transactions_are_committed_and_aborted_without_their_producers(
    version: int, tmp_path: Path
) -> None:
    async with admin_of_a_node(tmp_path) as first:
        await set_version(first, version)
    async with running_node(tmp_path) as node, Admin(servers := f"127.0.0.1:{node.port}") as admin:
        (await admin.create_topics([NewTopic("orders", num_partitions=1)])).raise_first()
        kept, dropped = await prepare(servers, "kept", b"kept"), await prepare(servers, "dropped", b"dropped")
        (await admin.end_transactions({"kept": kept}, is_commit=True)).raise_first()
        (await admin.end_transactions({"dropped": dropped}, is_commit=False)).raise_first()
        assert await read(servers, end=4) == [b"kept"]

        again = await admin.end_transactions({"kept": kept, "dropped": dropped}, is_commit=True)
        assert again.value("kept") is None
        with pytest.raises(KafkaError) as raised:
            again.value("dropped")
        assert raised.value.code == ErrorCode.INVALID_TXN_STATE


async def test_transaction_of_a_fenced_producer_is_not_committed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, Admin(servers := f"127.0.0.1:{node.port}") as admin:
        (await admin.create_topics([NewTopic("orders", num_partitions=1)])).raise_first()
        prepared = await prepare(servers, "shared", b"value")
        (await admin.fence_producers(["shared"])).raise_first()
        ended = await admin.end_transactions({"shared": prepared}, is_commit=True)
        with pytest.raises(KafkaError) as raised:
            ended.value("shared")
        assert raised.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert await read(servers, end=2) == []
