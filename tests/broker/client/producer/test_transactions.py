"""The requests of transactions, and their errors, with a coordinator that answers from a script."""

from contextlib import suppress
from math import inf
from typing import Any

import pyarrow as pa
import pytest
import trio
from trio.testing import MockClock

from broker.client import (
    ClosedError,
    ConfigError,
    GroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    PreparedTransaction,
    Producer,
    ProducerFailed,
    ProducerFenced,
    TimedOut,
    TopicPartition,
    TransactionAbortable,
    TransactionAborted,
    TransactionStateError,
)
from broker.wire.errors import ErrorCode
from tests.support.transaction_coordinator import ScriptedCoordinator, scripted_coordinator

SETTINGS: dict[str, Any] = {
    "transactional_id": "payments",
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "linger_ms": 0,
}
GROUP = GroupMetadata("readers", 3, "member-1")
OFFSETS = {TopicPartition("visits", 0): OffsetAndMetadata(17)}


def producer_of(coordinator: ScriptedCoordinator, **settings: Any) -> Producer:
    return Producer(coordinator.address, **{**SETTINGS, **settings})


async def send(producer: Producer, partition: int = 0) -> None:
    await producer.send("orders", b"value", partition=partition)


async def transact(producer: Producer, *, records: int = 0, offsets: bool = False, timeout_s: float = inf) -> None:
    """A transaction of records and offsets. The commit of the offsets is cancelled after `timeout_s`."""
    async with producer.transaction():
        if offsets:
            with trio.move_on_after(timeout_s):
                await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        for _ in range(records):
            await send(producer)


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


# Errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
@pytest.mark.parametrize(
    "api", ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
)
async def test_retriable_errors_are_retried(api: str, code: ErrorCode) -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next(api, code, code)
        async with producer.transaction():
            await send(producer)
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        names = [each.partition("(")[0] for each in coordinator.seen]
        assert names.count(api) == 3
        is_looked_up_again = code != ErrorCode.CONCURRENT_TRANSACTIONS
        assert names.count("FindCoordinator") == (4 if is_looked_up_again else 2)


async def test_end_whose_response_is_lost_is_sent_again() -> None:
    async with scripted_coordinator(version=2) as coordinator:
        async with producer_of(coordinator, request_timeout_ms=100) as producer:
            coordinator.fail_next("EndTxn", None)
            async with producer.transaction():
                await send(producer)
        assert coordinator.take()[-2:] == ["EndTxn(commit@1)", "EndTxn(commit@1)"]


async def test_refused_batch_aborts_the_transaction_and_the_next_one_succeeds() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("Produce", ErrorCode.INVALID_RECORD)
        with pytest.raises(TransactionAbortable, match="INVALID_RECORD"):
            async with producer.transaction():
                delivery = producer.send_soon("orders", b"value", partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await delivery
        async with producer.transaction():
            await send(producer)
    assert coordinator.take()[1:] == [
        "Produce(0@1.0+1)",
        "EndTxn(abort@1)",
        "Produce(0@2.0+1)",
        "EndTxn(commit@2)",
    ]


async def test_kip_360_epoch_is_raised_after_a_failed_transaction_under_version_1() -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("Produce", ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await transact(producer, records=2)
        await transact(producer, records=1)
    assert coordinator.take()[-6:] == [
        "Produce(0@1.1+1)",
        "EndTxn(abort@1)",
        "InitProducerId(@1)",
        "AddPartitionsToTxn(0@2)",
        "Produce(0@2.0+1)",
        "EndTxn(commit@2)",
    ]


async def test_records_after_an_abortable_error_are_refused() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("Produce", ErrorCode.TRANSACTION_ABORTABLE)
        await producer.begin_transaction()
        with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
            await send(producer)
        with pytest.raises(TransactionAbortable):
            producer.send_soon("orders", b"value")
        with pytest.raises(TransactionAbortable):
            await producer.commit_transaction()
        with pytest.raises(TransactionAbortable):
            await producer.begin_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()


async def test_record_for_an_unknown_topic_aborts_the_transaction(jumping_clock: MockClock) -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, max_block_ms=200) as producer:
        await producer.begin_transaction()
        with pytest.raises(TimedOut, match="nowhere"):
            await producer.send("nowhere", b"value")
        with pytest.raises(TransactionAbortable, match="nowhere"):
            await producer.commit_transaction()


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_fenced_producer_fails_for_good(api: str, code: ErrorCode) -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next(api, code)
        with pytest.raises(ProducerFenced, match=code.name):
            await transact(producer, offsets=True, records=1)
        assert "EndTxn(abort@1)" not in coordinator.take()
        with pytest.raises(ProducerFenced):
            await producer.begin_transaction()
        with pytest.raises(ProducerFenced):
            await producer.abort_transaction()
        with pytest.raises(ProducerFenced):
            producer.send_soon("orders", b"value")


async def test_fatal_error_of_a_commit_fails_the_producer() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("EndTxn", ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        with pytest.raises(ProducerFailed, match="open another one") as caught:
            async with producer.transaction():
                await send(producer)
        assert not isinstance(caught.value, ProducerFenced)
        assert isinstance(caught.value.__cause__, KafkaError)


async def test_abortable_error_of_a_commit_aborts() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("EndTxn", ErrorCode.TRANSACTION_ABORTABLE)
        with pytest.raises(TransactionAbortable):
            async with producer.transaction():
                await send(producer)
        assert coordinator.take()[-2:] == ["EndTxn(commit@1)", "EndTxn(abort@1)"]


async def test_refused_initialization_can_be_repeated() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            await producer.init_transactions()
        await producer.init_transactions()
        with pytest.raises(TransactionStateError):
            await producer.init_transactions()


# Timeouts


async def test_unanswered_commit_can_be_waited_for_again(jumping_clock: MockClock) -> None:
    settings = {"max_block_ms": 3_000, "retry_backoff_max_ms": 1_000}
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, **settings) as producer:
        await producer.begin_transaction()
        await send(producer)
        coordinator.fail_next("EndTxn", *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1_000)
        with pytest.raises(TimedOut, match="make the same call again"):
            await producer.commit_transaction()
        with pytest.raises(TransactionStateError, match="being committed"):
            await producer.abort_transaction()
        with pytest.raises(TransactionStateError):
            await producer.begin_transaction()
        coordinator.answers["EndTxn"].clear()
        await producer.commit_transaction()
        await producer.begin_transaction()


async def test_cancelled_commit_goes_on() -> None:
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator) as producer:
        await producer.begin_transaction()
        await send(producer)
        coordinator.fail_next("EndTxn", *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1_000)
        with trio.move_on_after(0.1):
            await producer.commit_transaction()
        coordinator.answers["EndTxn"].clear()
        await producer.commit_transaction()
        assert coordinator.take()[-1] == "EndTxn(commit@1)"


async def test_unanswered_initialization_times_out(jumping_clock: MockClock) -> None:
    settings = {"max_block_ms": 3_000, "retry_backoff_max_ms": 1_000}
    async with scripted_coordinator(version=2) as coordinator, producer_of(coordinator, **settings) as producer:
        coordinator.fail_next("InitProducerId", *[ErrorCode.CONCURRENT_TRANSACTIONS] * 1_000)
        with pytest.raises(TimedOut):
            await producer.begin_transaction()
        coordinator.answers["InitProducerId"].clear()
        await producer.begin_transaction()


async def test_abort_waits_for_batches_on_the_wire() -> None:
    """A batch that arrives after the abort would stay in the log as part of an open transaction (KIP-890)."""
    async with scripted_coordinator(version=1) as coordinator:
        async with producer_of(coordinator, request_timeout_ms=500) as producer:
            await producer.begin_transaction()
            await send(producer)
            coordinator.fail_next("Produce", None)
            producer.send_soon("orders", b"value", partition=0)
            await coordinator.node.wait_for(len(coordinator.node.requests) + 1)
            began = trio.current_time()
            await producer.abort_transaction()
            assert trio.current_time() - began > 0.3, "the request was given up first"
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


# Two-phase commit (KIP-939)

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
