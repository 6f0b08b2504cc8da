"""The states of a transactional producer, by example and by random walks (KIP-360, KIP-890, KIP-939, KIP-1050)."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import (
    KafkaError,
    PreparedTransaction,
    ProducerFailed,
    ProducerFenced,
    TimedOut,
    TopicPartition,
    TransactionAbortable,
    TransactionError,
    TransactionStateError,
)
from broker.client.producer.transaction_state import (
    Event,
    ProducerTransaction,
    Request,
    Severity,
    State,
    severity,
)
from broker.client.transaction_versions import end_versions
from broker.wire.errors import ErrorCode

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ready(*, is_v2: bool = True) -> ProducerTransaction:
    transaction = ProducerTransaction("payments")
    transaction.apply(Event.INITIALIZE)
    transaction.initialized(is_v2=is_v2)
    return transaction


def begun(*, is_v2: bool = True) -> ProducerTransaction:
    transaction = ready(is_v2=is_v2)
    transaction.apply(Event.BEGIN)
    return transaction


def error(code: ErrorCode) -> KafkaError:
    return KafkaError(code)


def test_records_are_taken_within_a_transaction_only() -> None:
    transaction = ProducerTransaction("payments")
    assert isinstance(transaction.refusal, TransactionStateError)
    transaction = begun()
    assert transaction.refusal is None
    transaction.apply(Event.COMMIT)
    assert "committing" in str(transaction.refusal)
    transaction.ended()
    assert transaction.state is State.READY
    assert isinstance(transaction.refusal, TransactionStateError)


@pytest.mark.parametrize("event", [Event.COMMIT, Event.ABORT, Event.PREPARE, Event.ENDED, Event.ADD_OFFSETS])
def test_event_that_the_state_does_not_allow_changes_nothing(event: Event) -> None:
    transaction = ready()
    with pytest.raises(TransactionStateError, match="the producer is ready to begin a transaction"):
        transaction.apply(event)
    assert transaction.state is State.READY


def test_kip_890_end_txn_5_belongs_to_transaction_version_2() -> None:
    """A broker takes it for the end of a transaction whose epoch increases with each transaction."""
    assert end_versions(is_v2=False) == (0, 4)
    assert end_versions(is_v2=True) == (5, None)


def test_kip_890_partition_joins_the_transaction_by_its_first_batch_under_version_2() -> None:
    transaction = begun(is_v2=True)
    assert not transaction.is_started
    assert transaction.may_send(FIRST)
    assert transaction.is_started
    assert not transaction.partitions_to_add()


def test_partition_has_to_be_added_before_its_first_batch_under_version_1() -> None:
    transaction = begun(is_v2=False)
    assert not transaction.may_send(FIRST)
    assert not transaction.may_send(SECOND)
    assert transaction.partitions_to_add() == [FIRST, SECOND]
    assert not transaction.is_started
    transaction.added([FIRST])
    assert transaction.may_send(FIRST)
    assert not transaction.may_send(SECOND)
    assert transaction.is_started


@pytest.mark.parametrize("is_v2", [False, True])
def test_next_transaction_begins_without_partitions(is_v2: bool) -> None:
    transaction = begun(is_v2=is_v2)
    transaction.may_send(FIRST)
    transaction.added([FIRST])
    transaction.apply(Event.COMMIT)
    assert transaction.may_send(FIRST), "batched records are sent during a commit"
    transaction.ended()
    assert not transaction.is_started
    transaction.apply(Event.BEGIN)
    assert transaction.may_send(FIRST) is is_v2


def test_nothing_is_sent_during_an_abort() -> None:
    transaction = begun()
    transaction.apply(Event.ABORT)
    assert not transaction.may_send(FIRST)


def test_kip_360_epoch_is_raised_after_an_error_under_version_1_and_by_every_end_under_version_2() -> None:
    old, new = begun(is_v2=False), begun(is_v2=True)
    for transaction in (old, new):
        transaction.stop(TimedOut("a record"))
    assert old.must_bump_epoch
    assert not new.must_bump_epoch
    old.apply(Event.ABORT)
    old.ended()
    assert not old.must_bump_epoch


def test_kip_890_first_transaction_under_version_2_gets_an_epoch_of_its_own() -> None:
    transaction = begun(is_v2=False)
    transaction.apply(Event.COMMIT)
    transaction.negotiate(is_v2=True)
    assert transaction.must_bump_epoch
    transaction.ended()
    assert transaction.is_v2


def test_abortable_error_leaves_nothing_but_an_abort() -> None:
    transaction = begun()
    transaction.batch_failed(error(ErrorCode.TRANSACTION_ABORTABLE))
    assert isinstance(transaction.refusal, TransactionAbortable)
    assert transaction.is_open
    with pytest.raises(TransactionAbortable):
        transaction.apply(Event.COMMIT)
    transaction.apply(Event.ABORT)
    assert transaction.error is None
    transaction.ended()
    transaction.apply(Event.BEGIN)


@pytest.mark.parametrize("end", [Event.COMMIT, Event.ABORT])
def test_failed_batch_stops_a_commit_and_not_an_abort(end: Event) -> None:
    transaction = begun()
    transaction.apply(end)
    transaction.batch_failed(TimedOut("delivery.timeout.ms"))
    assert transaction.state is (State.ABORTABLE_ERROR if end is Event.COMMIT else State.ABORTING)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_fenced_producer_cannot_go_on(code: ErrorCode) -> None:
    transaction = begun()
    transaction.refuse(error(code), Request.COMMIT)
    assert isinstance(transaction.error, ProducerFenced)
    assert isinstance(transaction.error.__cause__, KafkaError)
    for event in Event:
        with pytest.raises(ProducerFenced):
            transaction.apply(event)


def test_first_fatal_error_stays() -> None:
    transaction = begun()
    transaction.fail(error(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    transaction.refuse(error(ErrorCode.PRODUCER_FENCED), Request.COMMIT)
    transaction.stop(TimedOut("a record"))
    assert type(transaction.error) is ProducerFailed


def test_kip_939_prepared_transaction_takes_no_records_and_is_committed_or_aborted() -> None:
    for end in (Event.COMMIT, Event.ABORT):
        transaction = begun()
        transaction.prepare(PreparedTransaction(7, 3))
        assert transaction.refusal is not None
        assert not transaction.is_open, "closing the producer leaves it to the next one"
        transaction.apply(end)
        transaction.ended()
        assert transaction.prepared is None


def test_kip_939_kept_transaction_can_be_ended() -> None:
    transaction = ProducerTransaction("payments")
    transaction.apply(Event.INITIALIZE)
    transaction.initialized(is_v2=True, kept=PreparedTransaction(7, 3))
    assert transaction.state is State.PREPARED
    assert transaction.is_started


def test_prepared_transaction_is_written_and_read_as_text() -> None:
    prepared = PreparedTransaction(4_000, 12)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    for text in ("", "7", "7:", ":3", "7:-1", "a:b"):
        with pytest.raises(ValueError, match="producer-id:epoch"):
            PreparedTransaction.parse(text)


@pytest.mark.parametrize(
    ("request_kind", "code", "expected"),
    [
        (Request.COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, Severity.RETRIABLE),
        (Request.COMMIT, ErrorCode.NOT_COORDINATOR, Severity.RETRIABLE),
        (Request.COMMIT, ErrorCode.TRANSACTION_ABORTABLE, Severity.ABORTABLE),
        (Request.COMMIT, ErrorCode.INVALID_TXN_STATE, Severity.FATAL),
        (Request.ABORT, ErrorCode.TRANSACTION_ABORTABLE, Severity.FATAL),
        (Request.ABORT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Severity.RETRIABLE),
        (Request.ADD_PARTITIONS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Severity.ABORTABLE),
        (Request.ADD_PARTITIONS, ErrorCode.INVALID_TXN_STATE, Severity.FATAL),
        (Request.ADD_PARTITIONS, ErrorCode.INVALID_PRODUCER_EPOCH, Severity.FATAL),
        (Request.ADD_PARTITIONS, ErrorCode.UNKNOWN_SERVER_ERROR, Severity.ABORTABLE),
        (Request.ADD_OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, Severity.ABORTABLE),
        (Request.ADD_OFFSETS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Severity.FATAL),
        (Request.COMMIT_OFFSETS, ErrorCode.ILLEGAL_GENERATION, Severity.ABORTABLE),
        (Request.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, Severity.ABORTABLE),
        (Request.COMMIT_OFFSETS, ErrorCode.FENCED_INSTANCE_ID, Severity.ABORTABLE),
        (Request.COMMIT_OFFSETS, ErrorCode.UNKNOWN_SERVER_ERROR, Severity.FATAL),
        (Request.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, Severity.ABORTABLE),
        (Request.PRODUCE, ErrorCode.INVALID_TXN_STATE, Severity.ABORTABLE),
        (Request.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Severity.ABORTABLE),
        (Request.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, Severity.ABORTABLE),
        (Request.PRODUCE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, Severity.FATAL),
    ],
)
def test_kip_1050_errors_are_told_apart_by_the_request(
    request_kind: Request, code: ErrorCode, expected: Severity
) -> None:
    assert severity(code, request_kind) is expected


Step = Callable[[ProducerTransaction], object]
STEPS: dict[str, Step] = {
    **{event.name: partial(ProducerTransaction.apply, event=event) for event in Event},
    "initialized": lambda transaction: transaction.initialized(is_v2=True),
    "ended": lambda transaction: transaction.ended(),
    "prepare": lambda transaction: transaction.prepare(PreparedTransaction(7, 3)),
    "send first": lambda transaction: transaction.may_send(FIRST),
    "send second": lambda transaction: transaction.may_send(SECOND),
    "added": lambda transaction: transaction.added(transaction.partitions_to_add()),
    "version 1": lambda transaction: transaction.negotiate(is_v2=False),
    "version 2": lambda transaction: transaction.negotiate(is_v2=True),
    "batch timed out": lambda transaction: transaction.batch_failed(TimedOut("a record")),
    "fenced": lambda transaction: transaction.refuse(error(ErrorCode.PRODUCER_FENCED), Request.COMMIT),
    "abortable": lambda transaction: transaction.refuse(error(ErrorCode.TRANSACTION_ABORTABLE), Request.COMMIT),
}


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=40))
def test_random_walks_keep_the_invariants(steps: list[str]) -> None:
    transaction = ProducerTransaction("payments")
    for step in steps:
        before = (transaction.state, transaction.error)
        try:
            STEPS[step](transaction)
        except TransactionError:
            assert (transaction.state, transaction.error) == before, "a refused event changes nothing"
        assert (transaction.error is not None) is (transaction.state in (State.ABORTABLE_ERROR, State.FAILED))
        assert (transaction.refusal is None) is (transaction.state is State.IN_TRANSACTION)
        if before[0] is State.FAILED:
            assert transaction.state is State.FAILED
        if before[0] is State.ABORTABLE_ERROR:
            assert transaction.state in (State.ABORTABLE_ERROR, State.ABORTING, State.FAILED), "it is never committed"
        if transaction.state in (State.ABORTABLE_ERROR, State.ABORTING, State.FAILED):
            assert not transaction.partitions_to_add()
        if transaction.state is State.READY:
            assert not transaction.may_send(FIRST)
