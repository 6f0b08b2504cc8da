"""Two-phase commit of transactions on brokers, as Apache Kafka 4.4 has it (KIP-939)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import Admin, Consumer, KafkaError, NewTopic, PreparedTransaction, Producer, TopicPartition
from broker.client.errors import UnsupportedByBroker
from broker.net.listener_security import ANONYMOUS
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, ResourceType
from tests.support.access import install_access
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected, only

INIT_PRODUCER_ID = 22
PARTITION = TopicPartition("orders", 0)


@asynccontextmanager
async def node_with(directory: Path, *, unstable: bool = True, two_phase: bool = True) -> AsyncIterator[RunningNode]:
    async with running_node(
        directory,
        unstable_api_versions_enable=str(unstable).lower(),
        transaction_two_phase_commit_enable=str(two_phase).lower(),
        transaction_max_timeout_ms="1000",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="50",
    ) as node:
        yield node


def producer_of(node: RunningNode, transactional_id: str, **settings: Any) -> Producer:
    return Producer(f"127.0.0.1:{node.port}", transactional_id=transactional_id, **settings)


def two_phase_producer(node: RunningNode, transactional_id: str = "prepared") -> Producer:
    return producer_of(node, transactional_id, transaction_two_phase_commit_enable=True, max_block_ms=5_000)


async def code_of_init(node: RunningNode, **arguments: Any) -> ErrorCode:
    async with two_phase_producer(node) as producer:
        with pytest.raises(KafkaError) as refused:
            await producer.init_transactions(**arguments)
        return refused.value.code


@pytest.mark.parametrize(("unstable", "highest"), [(False, 5), (True, 6)])
async def test_version_6_of_init_producer_id_is_listed_with_unstable_versions_only(
    tmp_path: Path, unstable: bool, highest: int
) -> None:
    async with node_with(tmp_path, unstable=unstable) as node, connected(node.port) as client:
        listed = (await client.call(ApiVersionsRequest(), 0)).api_keys
        assert only([each.max_version for each in listed if each.api_key == INIT_PRODUCER_ID]) == highest
        if not unstable:
            async with two_phase_producer(node) as producer:
                with pytest.raises(UnsupportedByBroker):
                    await producer.init_transactions()


async def test_it_is_refused_unless_the_brokers_enable_it(tmp_path: Path) -> None:
    async with node_with(tmp_path, two_phase=False) as node:
        assert await code_of_init(node) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_it_needs_an_operation_of_its_own_on_the_transactional_id(tmp_path: Path) -> None:
    async with node_with(tmp_path) as node:
        access = install_access(node)
        access.deny(ANONYMOUS, AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, "prepared")
        assert await code_of_init(node) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        async with producer_of(node, "prepared", transaction_timeout_ms=500) as producer:
            await producer.init_transactions()


async def test_keeping_a_prepared_transaction_is_refused(tmp_path: Path) -> None:
    """As by Kafka 4.4, which has the field and no implementation."""
    async with node_with(tmp_path) as node:
        assert await code_of_init(node, keep_prepared=True) == ErrorCode.UNSUPPORTED_VERSION


async def test_prepared_transaction_outlives_timeouts_its_producer_and_a_restart(tmp_path: Path) -> None:
    """`transaction.max.timeout.ms` ends the transactions of other producers."""
    async with node_with(tmp_path) as node, Admin(f"127.0.0.1:{node.port}") as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        async with two_phase_producer(node) as producer:
            await producer.begin_transaction()
            producer.send_soon("orders", b"prepared", partition=0)
            prepared = await producer.prepare_transaction()
        async with producer_of(node, "other", transaction_timeout_ms=100) as producer:
            await producer.begin_transaction()
            producer.send_soon("orders", b"other", partition=0)
            await producer.prepare_transaction(allow_timeout=True)
        with trio.fail_after(10):
            while (await admin.describe_transactions(["other"])).value("other").state != "CompleteAbort":
                await trio.sleep(0.05)
        described = (await admin.describe_transactions(["prepared"])).value("prepared")
        assert (described.state, described.timeout_ms) == ("Ongoing", 2**31 - 1)
    async with node_with(tmp_path) as node:
        assert await committed_after_end(node, prepared) == [b"prepared"]


async def committed_after_end(node: RunningNode, prepared: PreparedTransaction) -> list[bytes | None]:
    """The committed values of the topic, once the prepared transaction is committed."""
    servers = f"127.0.0.1:{node.port}"
    async with Admin(servers) as admin:
        (await admin.end_transactions({"prepared": prepared}, is_commit=True)).raise_first()
    found: list[bytes | None] = []
    async with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        with trio.fail_after(10):
            while not found:
                found = [record.value for record in await consumer.fetch(timeout_s=0.1)]
    return found
