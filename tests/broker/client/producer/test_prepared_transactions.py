"""Transactions that are prepared for a two-phase commit (KIP-939), with a coordinator that answers from a script."""

from typing import Any

import pytest
import trio

from broker.client import (
    ConfigError,
    PreparedTransaction,
    Producer,
    TransactionAbortable,
    TransactionStateError,
)
from broker.wire.errors import ErrorCode
from tests.support.transaction_coordinator import scripted_coordinator
from tests.support.transactional_producers import producer_of, send

TWO_PHASE: dict[str, Any] = {"transaction_two_phase_commit_enable": True}


@pytest.mark.parametrize(("is_decided", "end"), [(True, "EndTxn(commit@1)"), (False, "EndTxn(abort@1)")])
async def test_kip_939_prepared_transaction_is_completed_as_decided(is_decided: bool, end: str) -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator, linger_ms=60_000, **TWO_PHASE) as producer:
            await producer.begin_transaction()
            delivery = producer.send_soon("orders", b"value", partition=0)
            prepared = await producer.prepare_transaction()
            assert delivery.is_done
            assert prepared == PreparedTransaction(77, 1)
            with pytest.raises(TransactionStateError, match="prepared"):
                producer.send_soon("orders", b"value")
            await producer.complete_transaction(prepared if is_decided else PreparedTransaction(77, 0))
        assert coordinator.take() == [f"InitProducerId(@-1 two-phase {2**31 - 1})", "Produce(0@1.0+1)", end]


async def test_kip_939_prepared_transaction_outlives_its_producer() -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator, **TWO_PHASE) as producer:
            await producer.begin_transaction()
            await send(producer)
            prepared = await producer.prepare_transaction()
        assert coordinator.take()[-1] == "Produce(0@1.0+1)"
        coordinator.kept = prepared
        async with producer_of(coordinator, **TWO_PHASE) as producer:
            assert await producer.init_transactions(keep_prepared=True) == prepared
            await producer.complete_transaction(prepared)
        assert coordinator.take() == [f"InitProducerId(@-1 two-phase {2**31 - 1} keep)", "EndTxn(commit@2)"]


async def test_kip_939_nothing_is_kept_where_nothing_is_open() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, **TWO_PHASE) as producer:
        assert await producer.init_transactions(keep_prepared=True) is None
        with pytest.raises(TransactionStateError, match="no transaction is prepared"):
            await producer.complete_transaction(PreparedTransaction(77, 1))


async def test_kip_939_failed_record_prevents_the_preparation() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, **TWO_PHASE) as producer:
        coordinator.fail_next("Produce", ErrorCode.INVALID_RECORD)
        await producer.begin_transaction()
        producer.send_soon("orders", b"value", partition=0)
        with pytest.raises(TransactionAbortable):
            await producer.prepare_transaction()
        await producer.abort_transaction()


async def test_kip_939_cancelled_preparation_leaves_nothing_but_an_abort() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, **TWO_PHASE) as producer:
        coordinator.fail_next("Produce", *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        await producer.begin_transaction()
        producer.send_soon("orders", b"value", partition=0)
        with trio.move_on_after(0.1):
            await producer.prepare_transaction()
        with pytest.raises(TransactionAbortable, match="cancelled"):
            await producer.commit_transaction()


async def test_kip_939_transaction_of_one_phase_is_not_prepared() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        await producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="transaction_two_phase_commit_enable"):
            await producer.prepare_transaction()


async def test_transaction_of_one_phase_is_prepared_where_its_timeout_is_allowed() -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            await producer.begin_transaction()
            producer.send_soon("orders", b"value", partition=0)
            assert await producer.prepare_transaction(allow_timeout=True) == PreparedTransaction(77, 1)
        assert coordinator.take() == ["InitProducerId(@-1)", "Produce(0@1.0+1)"]


def test_kip_939_prepared_transactions_have_no_timeout() -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms"):
        Producer("localhost:9092", transactional_id="payments", transaction_timeout_ms=5_000, **TWO_PHASE)
