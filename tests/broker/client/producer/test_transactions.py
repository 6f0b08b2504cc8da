"""The requests of transactions, with a coordinator that answers from a script."""

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
import trio

from broker.client import (
    ClosedError,
    ConfigError,
    Producer,
    TransactionAbortable,
    TransactionAborted,
    TransactionStateError,
)
from broker.wire.errors import ErrorCode
from tests.support.transaction_coordinator import scripted_coordinator
from tests.support.transactional_producers import GROUP, OFFSETS, producer_of, send, transact

# Transactions without errors


async def test_kip_890_batches_add_their_partitions_and_each_transaction_has_its_epoch() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        async with producer.transaction():
            await send(producer)
            await send(producer)
        async with producer.transaction():
            await send(producer)
    assert coordinator.take() == [
        "InitProducerId(@-1)",
        "Produce(0@1.0+1)",
        "Produce(0@1.1+1)",
        "EndTxn(commit@1)",
        "Produce(0@2.0+1)",
        "EndTxn(commit@2)",
    ]


async def test_partitions_are_added_first_and_the_epoch_stays_under_version_1() -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        for _ in range(2):
            async with producer.transaction():
                await send(producer)
                await send(producer)
                await send(producer, 1)
    assert coordinator.take() == [
        "InitProducerId(@-1)",
        "AddPartitionsToTxn(0@1)",
        "Produce(0@1.0+1)",
        "Produce(0@1.1+1)",
        "AddPartitionsToTxn(1@1)",
        "Produce(1@1.0+1)",
        "EndTxn(commit@1)",
        "AddPartitionsToTxn(0@1)",
        "Produce(0@1.2+1)",
        "Produce(0@1.3+1)",
        "AddPartitionsToTxn(1@1)",
        "Produce(1@1.1+1)",
        "EndTxn(commit@1)",
    ]


async def test_commit_sends_batched_records_without_waiting_for_linger_ms() -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            async with producer.transaction():
                deliveries = [producer.send_soon("orders", b"value", partition=0) for _ in range(100)]
            assert all(delivery.is_done for delivery in deliveries)
        assert coordinator.take()[1:] == ["Produce(0@1.0+100)", "EndTxn(commit@1)"]


async def test_rows_of_a_table_belong_to_the_transaction() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        async with producer.transaction():
            await producer.produce_arrow("orders", pa.table({"value": ["1", "2", "3"], "partition": [0, 0, 0]}))
        with pytest.raises(TransactionStateError):
            await producer.produce_arrow("orders", pa.table({"value": ["4"]}))
    assert coordinator.take()[1:] == ["Produce(0@1.0+3)", "EndTxn(commit@1)"]


@pytest.mark.parametrize("version", [0, 2])
async def test_transaction_without_records_costs_no_request(version: int) -> None:
    async with scripted_coordinator(version) as coordinator, producer_of(coordinator) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert coordinator.take() == ["InitProducerId(@-1)"]


async def test_exception_that_leaves_the_block_aborts() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        with suppress(LookupError):
            async with producer.transaction():
                await send(producer)
                raise LookupError
        async with producer.transaction():
            await send(producer)
    assert coordinator.take()[1:] == [
        "Produce(0@1.0+1)",
        "EndTxn(abort@1)",
        "Produce(0@2.0+1)",
        "EndTxn(commit@2)",
    ]


async def test_cancelled_block_aborts() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        with trio.CancelScope() as scope:
            async with producer.transaction():
                await send(producer)
                scope.cancel()
                await trio.sleep_forever()
        assert coordinator.take()[-1] == "EndTxn(abort@1)"


async def test_aborted_records_that_were_not_sent_fail() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, linger_ms=60_000) as producer:
        await producer.begin_transaction()
        delivery = producer.send_soon("orders", b"value", partition=0)
        await producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            await delivery
    assert coordinator.take() == ["InitProducerId(@-1)"]


async def test_open_transaction_is_aborted_when_the_producer_is_closed() -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator) as producer:
            await producer.begin_transaction()
            await send(producer)
        assert coordinator.take()[-1] == "EndTxn(abort@1)"
        with pytest.raises(ClosedError):
            await producer.begin_transaction()


# Offsets of groups


async def test_kip_447_offsets_are_committed_with_the_member_and_its_generation() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        await transact(producer, offsets=True)
    assert coordinator.take()[1:] == ["TxnOffsetCommit(readers 3 member-1 0:17@1)", "EndTxn(commit@1)"]


async def test_group_is_added_first_under_version_1() -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        await transact(producer, offsets=True)
    assert coordinator.take()[1:] == [
        "AddOffsetsToTxn(readers)",
        "TxnOffsetCommit(readers 3 member-1 0:17@1)",
        "EndTxn(commit@1)",
    ]


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
async def test_kip_447_offsets_of_a_former_member_abort_the_transaction(code: ErrorCode) -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("TxnOffsetCommit", code)
        with pytest.raises(TransactionAbortable, match=code.name):
            async with producer.transaction():
                await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        assert coordinator.take()[-1] == "EndTxn(abort@1)"
        async with producer.transaction():
            await send(producer)


async def test_offsets_of_a_cancelled_call_are_never_committed() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("TxnOffsetCommit", None)
        with pytest.raises(TransactionAbortable, match="cancelled"):
            await transact(producer, offsets=True, timeout_s=0.1)
        assert coordinator.take()[-1] == "EndTxn(abort@1)"


# Misuse of the API


async def test_records_are_refused_outside_of_a_transaction() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        with pytest.raises(TransactionStateError, match="begins with"):
            producer.send_soon("orders", b"value")
        assert len(await producer.partitions_for("orders")) == 2
        await producer.begin_transaction()
        with pytest.raises(TransactionStateError):
            await producer.begin_transaction()


async def test_producer_without_a_transactional_id_has_no_transactions() -> None:
    async with scripted_coordinator(version=2) as coordinator, Producer(coordinator.address) as producer:
        with pytest.raises(TransactionStateError, match="transactional_id"):
            await producer.begin_transaction()


@pytest.mark.parametrize(
    "settings", [{"acks": 1}, {"enable_idempotence": False}, {"retries": 0}, {"transactional_id": ""}]
)
def test_settings_that_exclude_transactions_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"transactional\.id|enable\.idempotence"):
        Producer("localhost:9092", **{"transactional_id": "payments", **settings})
