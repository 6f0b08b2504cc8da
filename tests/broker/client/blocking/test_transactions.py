"""Transactions of SyncProducer, with a coordinator in another thread that answers from a script."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from broker.client import (
    GroupMetadata,
    OffsetAndMetadata,
    SyncProducer,
    TopicPartition,
    TransactionAbortable,
    TransactionAborted,
    TransactionStateError,
)
from broker.wire.errors import ErrorCode
from tests.support.transaction_coordinator import ScriptedCoordinator, coordinator_thread


@pytest.fixture
def coordinator() -> Iterator[ScriptedCoordinator]:
    with coordinator_thread(version=2) as coordinator:
        yield coordinator


@pytest.fixture
def producer(coordinator: ScriptedCoordinator) -> Iterator[SyncProducer]:
    with SyncProducer(coordinator.address, transactional_id="payments", linger_ms=0) as producer:
        yield producer


def test_block_is_committed_with_all_records_that_were_handed_over(
    coordinator: ScriptedCoordinator, producer: SyncProducer
) -> None:
    with producer.transaction():
        deliveries = [producer.send_soon("orders", b"value", partition=0) for _ in range(3_000)]
        offsets = {TopicPartition("visits", 0): OffsetAndMetadata(17)}
        producer.send_offsets_to_transaction(offsets, GroupMetadata("readers", 3, "member-1"))
    assert all(delivery.is_done for delivery in deliveries)
    seen = coordinator.take()
    assert seen[-1] == "EndTxn(commit@1)"
    assert sum(int(each.rstrip(")").rpartition("+")[2]) for each in seen if each.startswith("Produce")) == 3_000


def test_block_that_raises_is_aborted_with_all_records_that_were_handed_over(
    coordinator: ScriptedCoordinator, producer: SyncProducer
) -> None:
    with suppress(LookupError), producer.transaction():
        producer.send("orders", b"value", partition=0)
        deliveries = [producer.send_soon("orders", b"value", partition=0) for _ in range(3_000)]
        raise LookupError
    assert coordinator.take()[-1] == "EndTxn(abort@1)"
    with producer.transaction():
        pass
    assert all(delivery.is_done for delivery in deliveries)


def test_failed_commit_aborts(coordinator: ScriptedCoordinator, producer: SyncProducer) -> None:
    coordinator.fail_next("EndTxn", ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(TransactionAbortable), producer.transaction():
        producer.send_soon("orders", b"value", partition=0)
    assert coordinator.take()[-2:] == ["EndTxn(commit@1)", "EndTxn(abort@1)"]


def test_transaction_is_begun_and_ended_by_calls(coordinator: ScriptedCoordinator, producer: SyncProducer) -> None:
    producer.init_transactions()
    outside = producer.send_soon("orders", b"value")
    producer.begin_transaction()
    with pytest.raises(TransactionStateError):
        outside.result()
    producer.send("orders", b"value", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.abort_transaction()
    assert coordinator.take()[1:] == ["Produce(0@1.0+1)", "EndTxn(commit@1)"]


def test_aborted_records_fail(coordinator: ScriptedCoordinator) -> None:
    with SyncProducer(coordinator.address, transactional_id="payments", linger_ms=60_000) as producer:
        producer.begin_transaction()
        delivery = producer.send_soon("orders", b"value", partition=0)
        producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            delivery.result()
