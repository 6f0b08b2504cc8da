"""Errors and timeouts of transactions, with a coordinator that answers from a script."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.client import (
    KafkaError,
    ProducerFailed,
    ProducerFenced,
    TimedOut,
    TransactionAbortable,
    TransactionError,
    TransactionStateError,
)
from broker.wire.errors import ErrorCode
from tests.support.transaction_coordinator import scripted_coordinator
from tests.support.transactional_producers import GROUP, OFFSETS, producer_of, send, transact

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


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_refused_partition_is_not_added_again(code: ErrorCode) -> None:
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator) as producer:
        coordinator.fail_next("AddPartitionsToTxn", *[code] * 5)
        await producer.begin_transaction()
        with pytest.raises(TransactionError, match=code.name):
            await send(producer)
        await wait_all_tasks_blocked(0.01)
        assert [each for each in coordinator.take() if each.startswith("AddPartitionsToTxn")] == [
            "AddPartitionsToTxn(0@1)"
        ]


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


async def test_offsets_wait_for_partitions_that_are_being_added_no_longer_than_max_block_ms(
    jumping_clock: MockClock,
) -> None:
    settings = {"max_block_ms": 3_000}
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator, **settings) as producer:
        await producer.begin_transaction()
        coordinator.fail_next("AddPartitionsToTxn", None)
        producer.send_soon("orders", b"value", partition=0)
        while "AddPartitionsToTxn(0@1)" not in coordinator.seen:
            await trio.sleep(0.01)
        began = trio.current_time()
        with pytest.raises(TransactionAbortable, match="was not answered within 3000 ms"):
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        assert trio.current_time() - began == pytest.approx(3)


async def test_both_requests_for_offsets_share_max_block_ms(jumping_clock: MockClock) -> None:
    settings = {"max_block_ms": 3_000, "request_timeout_ms": 2_000}
    async with scripted_coordinator(version=1) as coordinator, producer_of(coordinator, **settings) as producer:
        await producer.begin_transaction()
        coordinator.fail_next("AddOffsetsToTxn", None)
        coordinator.fail_next("TxnOffsetCommit", None)
        began = trio.current_time()
        with pytest.raises(TransactionAbortable, match="no success within"):
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        assert trio.current_time() - began == pytest.approx(3)
        assert [each.partition("(")[0] for each in coordinator.take()[-2:]] == ["AddOffsetsToTxn", "TxnOffsetCommit"]
