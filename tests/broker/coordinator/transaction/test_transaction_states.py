"""The transitions of one transactional id, by example, named after the KIPs that require them."""

import attrs
import pytest

from broker.coordinator.transaction.transaction import (
    EPOCH_MAX,
    PREPARED,
    TWO_PHASE_TIMEOUT_MS,
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    end,
    fence,
    first_transaction,
    initialize,
)
from broker.wire.errors import ErrorCode, KafkaError

NOW = 1_700_000_000_000
PRODUCER = ProducerIdAndEpoch(7, 3)
PARTITIONS = (("topic", 0), ("topic", 1))
V2 = 2


def transaction(state: TransactionState = TransactionState.EMPTY, **fields: object) -> Transaction:
    values = {"producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000, "state": state, "last_update_ms": NOW}
    if state is not TransactionState.EMPTY:
        values |= {"start_ms": NOW}
    if state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        values |= {"partitions": PARTITIONS}
    return Transaction(**(values | fields))  # type: ignore[arg-type]


def initialized(
    current: Transaction, expected: ProducerIdAndEpoch | None = None, *, last_epoch: int = -1, new_id: int | None = None
) -> tuple[int, int]:
    done = initialize(current, last_epoch, expected, timeout_ms=60_000, now_ms=NOW, producer_id=new_id)
    assert done.next.state is TransactionState.EMPTY
    assert done.next.partitions == ()
    return done.next.producer_id, done.next.producer_epoch


def ended(
    current: Transaction,
    epoch: int,
    *,
    commit: bool = True,
    version: int = 0,
    new_id: int | None = None,
    producer_id: int = 7,
) -> Transaction | None:
    producer = ProducerIdAndEpoch(producer_id, epoch)
    done = end(current, -1, producer, is_commit=commit, client_version=version, now_ms=NOW, producer_id=new_id)
    return None if done is None else done.next


def code_of(call: object) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()  # type: ignore[operator]
    return raised.value.code


# InitProducerId


def test_new_transactional_id_needs_a_producer_id_and_begins_at_epoch_0() -> None:
    with pytest.raises(ProducerIdNeeded):
        first_transaction(None, 60_000, NOW)
    first = first_transaction(9, 60_000, NOW).next
    assert (first.producer_id, first.producer_epoch, first.state) == (9, 0, TransactionState.EMPTY)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_new_incarnation_gets_the_next_epoch(state: TransactionState) -> None:
    assert initialized(transaction(state)) == (7, 4)


@pytest.mark.parametrize("expected", [None, (7, 3), (7, 2), (7, 4), (8, 3)])
@pytest.mark.parametrize("state", PREPARED)
def test_new_incarnation_waits_for_the_markers_of_the_last_transaction(
    state: TransactionState, expected: tuple[int, int] | None
) -> None:
    identity = None if expected is None else ProducerIdAndEpoch(*expected)
    assert code_of(lambda: initialized(transaction(state), identity)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_kip_360_producer_that_goes_on_after_an_error_bumps_its_own_epoch() -> None:
    assert initialized(transaction(), ProducerIdAndEpoch(7, 3)) == (7, 4)


def test_kip_360_retry_of_a_bump_gets_the_same_epoch() -> None:
    assert initialized(transaction(), ProducerIdAndEpoch(7, 2), last_epoch=2) == (7, 3)


@pytest.mark.parametrize("expected", [(7, 2), (7, 1), (7, 5), (8, 3)])
def test_kip_360_fenced_producer_cannot_bump_its_epoch(expected: tuple[int, int]) -> None:
    assert code_of(lambda: initialized(transaction(), ProducerIdAndEpoch(*expected))) is ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    exhausted = transaction(producer_epoch=EPOCH_MAX - 1)
    with pytest.raises(ProducerIdNeeded):
        initialized(exhausted)
    assert initialized(exhausted, new_id=20) == (20, 0)
    assert initialized(exhausted, ProducerIdAndEpoch(7, EPOCH_MAX - 1), new_id=20) == (20, 0)


def test_kip_360_retry_after_a_new_producer_id_gets_the_same_one() -> None:
    rotated = transaction(producer_id=20, producer_epoch=0, previous_producer_id=7)
    expected = ProducerIdAndEpoch(7, EPOCH_MAX - 1)
    assert initialized(rotated, expected, last_epoch=EPOCH_MAX - 1) == (20, 0)
    assert code_of(lambda: initialized(rotated, expected)) is ErrorCode.PRODUCER_FENCED


def test_kip_360_producer_with_the_previous_id_is_fenced_unless_its_epochs_were_exhausted() -> None:
    """Only the producer that used the last epoch of that id got the new one."""
    rotated = transaction(producer_id=20, producer_epoch=0, previous_producer_id=7)
    zombie = ProducerIdAndEpoch(7, EPOCH_MAX - 2)
    assert code_of(lambda: initialized(rotated, zombie, last_epoch=EPOCH_MAX - 2)) is ErrorCode.PRODUCER_FENCED


# AddPartitionsToTxn


def test_first_partition_begins_the_transaction() -> None:
    opened = add_partitions(transaction(), -1, PRODUCER, PARTITIONS, now_ms=NOW + 5, client_version=0)
    assert opened is not None
    assert (opened.next.state, opened.next.partitions, opened.next.start_ms) == (
        TransactionState.ONGOING,
        PARTITIONS,
        NOW + 5,
    )


def test_partitions_of_the_last_transaction_do_not_belong_to_the_next_one() -> None:
    done = transaction(TransactionState.COMPLETE_COMMIT, partitions=(("old", 0),))
    opened = add_partitions(done, -1, PRODUCER, PARTITIONS, now_ms=NOW, client_version=0)
    assert opened is not None
    assert opened.next.partitions == PARTITIONS


def test_known_partitions_change_nothing() -> None:
    ongoing = transaction(TransactionState.ONGOING)
    assert add_partitions(ongoing, -1, PRODUCER, PARTITIONS[:1], now_ms=NOW, client_version=0) is None
    more = add_partitions(ongoing, -1, PRODUCER, (("other", 0),), now_ms=NOW + 9, client_version=0)
    assert more is not None
    assert (more.next.partitions, more.next.start_ms) == ((*PARTITIONS, ("other", 0)), NOW)


@pytest.mark.parametrize("producer", [(7, 3), (7, 2), (7, 4), (8, 0)])
@pytest.mark.parametrize("version", [0, V2])
@pytest.mark.parametrize("state", PREPARED)
def test_next_transaction_waits_for_the_markers_of_the_last_one(
    state: TransactionState, version: int, producer: tuple[int, int]
) -> None:
    """The producer is checked only after the markers: by then it may have another producer id (KIP-890)."""
    known = transaction(state)
    call = lambda: add_partitions(  # noqa: E731
        known, -1, ProducerIdAndEpoch(*producer), PARTITIONS, now_ms=NOW, client_version=version
    )
    assert code_of(call) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("producer", "code"),
    [((8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING), ((7, 2), ErrorCode.PRODUCER_FENCED)],
)
def test_other_producer_adds_no_partitions(producer: tuple[int, int], code: ErrorCode) -> None:
    call = lambda: add_partitions(  # noqa: E731
        transaction(), -1, ProducerIdAndEpoch(*producer), PARTITIONS, now_ms=NOW, client_version=V2
    )
    assert code_of(call) is code


# EndTxn


@pytest.mark.parametrize("commit", [True, False])
def test_open_transaction_is_prepared_in_its_own_epoch(commit: bool) -> None:
    prepared = ended(transaction(TransactionState.ONGOING), 3, commit=commit)
    assert prepared is not None
    assert (prepared.is_commit, prepared.producer_epoch, prepared.partitions) == (commit, 3, PARTITIONS)


@pytest.mark.parametrize("commit", [True, False])
def test_kip_890_end_bumps_the_epoch(commit: bool) -> None:
    prepared = ended(transaction(TransactionState.ONGOING), 3, commit=commit, version=V2)
    assert prepared is not None
    assert (prepared.is_commit, prepared.producer_epoch, prepared.client_version) == (commit, 4, V2)
    assert prepared.identity == (7, 4)


@pytest.mark.parametrize("version", [0, V2])
@pytest.mark.parametrize("epoch", [2, 4])
def test_other_epoch_cannot_end_an_open_transaction(epoch: int, version: int) -> None:
    ongoing = transaction(TransactionState.ONGOING)
    assert code_of(lambda: ended(ongoing, epoch, version=version)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("producer", [(7, 3), (7, 2), (7, 1), (7, 4), (8, 3)])
@pytest.mark.parametrize("state", PREPARED)
def test_kip_890_end_waits_for_the_markers_of_the_last_transaction(
    state: TransactionState, producer: tuple[int, int], commit: bool
) -> None:
    """Also one with the epoch that the last end returned, and one whose outcome is the other.

    A producer that ended an empty transaction at once was fenced: its epoch is the current one, not that of a retry.
    """
    prepared = transaction(state, client_version=V2)
    call = lambda: ended(prepared, producer[1], producer_id=producer[0], commit=commit, version=V2)  # noqa: E731
    assert code_of(call) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(
    ("producer", "code"),
    [
        ((7, 3), ErrorCode.CONCURRENT_TRANSACTIONS),
        ((7, 2), ErrorCode.PRODUCER_FENCED),
        ((7, 4), ErrorCode.PRODUCER_FENCED),
        ((8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.parametrize("state", PREPARED)
def test_end_before_kip_890_waits_for_the_markers_unless_it_is_fenced(
    state: TransactionState, producer: tuple[int, int], code: ErrorCode, commit: bool
) -> None:
    call = lambda: ended(transaction(state), producer[1], producer_id=producer[0], commit=commit)  # noqa: E731
    assert code_of(call) is code


@pytest.mark.parametrize(("version", "epoch"), [(0, 3), (V2, 2)])
def test_retry_after_the_end_succeeds(version: int, epoch: int) -> None:
    committed = transaction(TransactionState.COMPLETE_COMMIT)
    assert ended(committed, epoch, version=version) is None
    call = lambda: ended(committed, epoch, commit=False, version=version)  # noqa: E731
    assert code_of(call) is ErrorCode.INVALID_TXN_STATE


def test_kafka_17754_delayed_end_of_an_earlier_transaction_is_fenced_with_kip_890_only() -> None:
    """A retried EndTxn arrives on another connection when the next transaction is open.

    Without an epoch per transaction, it ends the wrong transaction.
    """
    first = transaction(TransactionState.ONGOING)
    for version, is_harmful in ((0, True), (V2, False)):
        prepared = ended(first, 3, version=version)
        assert prepared is not None
        done = complete(prepared, -1, NOW).next
        second = add_partitions(done, -1, prepared.identity, PARTITIONS, now_ms=NOW, client_version=version)
        assert second is not None
        if is_harmful:
            assert ended(second.next, 3, version=version) is not None
        else:
            assert code_of(lambda: ended(second.next, 3, version=version)) is ErrorCode.PRODUCER_FENCED  # noqa: B023


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT]
)
def test_kip_890_transaction_without_partitions_can_be_aborted_only(state: TransactionState) -> None:
    aborted = ended(transaction(state), 3, commit=False, version=V2)
    assert aborted is not None
    assert (aborted.state, aborted.producer_epoch, aborted.partitions) == (TransactionState.PREPARE_ABORT, 4, ())
    assert code_of(lambda: ended(transaction(state), 3, version=V2)) is ErrorCode.INVALID_TXN_STATE


def test_empty_transaction_cannot_be_ended_before_kip_890() -> None:
    for commit in (True, False):
        assert code_of(lambda: ended(transaction(), 3, commit=commit)) is ErrorCode.INVALID_TXN_STATE  # noqa: B023


def test_kip_890_last_epoch_is_followed_by_a_new_producer_id() -> None:
    last = transaction(TransactionState.ONGOING, producer_epoch=EPOCH_MAX - 1)
    with pytest.raises(ProducerIdNeeded):
        ended(last, EPOCH_MAX - 1, version=V2)
    prepared = ended(last, EPOCH_MAX - 1, version=V2, new_id=20)
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch, prepared.identity) == (7, EPOCH_MAX, (20, 0))
    done = complete(prepared, -1, NOW).next
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (20, 0, 7)
    assert ended(done, EPOCH_MAX - 1, version=V2) is None, "a retry"
    call = lambda: ended(done, EPOCH_MAX - 1, version=V2, producer_id=20)  # noqa: E731
    assert code_of(call) is ErrorCode.PRODUCER_FENCED, "the new id has not used up its epochs"
    assert code_of(lambda: ended(done, EPOCH_MAX - 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING, "not before KIP-890"


# Fencing, completion, timeouts


def fenced(current: Transaction, version: int, new_id: int | None = None) -> Transaction:
    return fence(current, server_version=version, now_ms=NOW, producer_id=new_id).next


@pytest.mark.parametrize("version", [0, 1])
def test_fenced_producer_cannot_end_its_transaction_before_kip_890(version: int) -> None:
    prepared = fenced(transaction(TransactionState.ONGOING), version)
    assert (prepared.state, prepared.producer_epoch) == (TransactionState.PREPARE_ABORT, 4)
    for state in (prepared, complete(prepared, -1, NOW).next):
        call = lambda: ended(state, 3, commit=False, version=version)  # noqa: B023, E731
        assert code_of(call) is ErrorCode.PRODUCER_FENCED


def test_kip_890_abort_of_a_fenced_transaction_is_a_retry_until_the_epoch_is_bumped_again() -> None:
    """The producer can so go on after a timeout. A new incarnation fences it by InitProducerId."""
    prepared = fenced(transaction(TransactionState.ONGOING), V2)
    assert (prepared.state, prepared.producer_epoch) == (TransactionState.PREPARE_ABORT, 4)
    call = lambda: ended(prepared, 3, commit=False, version=V2)  # noqa: E731
    assert code_of(call) is ErrorCode.CONCURRENT_TRANSACTIONS
    done = complete(prepared, -1, NOW).next
    assert ended(done, 3, commit=False, version=V2) is None
    assert code_of(lambda: ended(done, 3, version=V2)) is ErrorCode.INVALID_TXN_STATE
    bumped = initialize(done, -1, None, timeout_ms=60_000, now_ms=NOW, producer_id=None).next
    for epoch in (3, 4):
        call = lambda: ended(bumped, epoch, commit=False, version=V2)  # noqa: B023, E731
        assert code_of(call) is ErrorCode.PRODUCER_FENCED


def test_fencing_in_the_last_epoch_gives_a_new_producer_id() -> None:
    """KIP-890: InitProducerId and timeouts never leave a producer id without an epoch."""
    last = transaction(TransactionState.ONGOING, producer_epoch=EPOCH_MAX - 1)
    with pytest.raises(ProducerIdNeeded):
        fenced(last, V2)
    prepared = fenced(last, V2, new_id=20)
    assert (prepared.producer_epoch, prepared.identity) == (EPOCH_MAX, (20, 0))
    assert initialized(complete(prepared, -1, NOW).next) == (20, 1)
    before = fenced(last, 0)
    assert before.producer_epoch == EPOCH_MAX
    assert initialized(complete(before, -1, NOW).next, new_id=20) == (20, 0)


def test_kip_939_transaction_of_a_two_phase_commit_never_times_out() -> None:
    prepared = transaction(TransactionState.ONGOING, timeout_ms=TWO_PHASE_TIMEOUT_MS)
    assert not prepared.has_timed_out(NOW + 2**40)
    assert transaction(TransactionState.ONGOING, timeout_ms=TWO_PHASE_TIMEOUT_MS - 1).has_timed_out(NOW + 2**40)


@pytest.mark.parametrize("commit", [True, False])
def test_completion_keeps_the_epoch_and_drops_the_partitions(commit: bool) -> None:
    prepared = ended(transaction(TransactionState.ONGOING), 3, commit=commit)
    assert prepared is not None
    done = complete(prepared, -1, NOW + 1).next
    expected = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert (done.state, done.partitions, done.producer_epoch, done.last_update_ms) == (expected, (), 3, NOW + 1)


def test_transaction_times_out_after_the_clock_was_set_back() -> None:
    """Found by the simulator: a transaction that began while the clock was wrong stayed open for the difference."""
    current = transaction(TransactionState.ONGOING)
    assert not current.has_timed_out(NOW - 60_000)
    assert current.has_timed_out(NOW - 60_001)


def test_only_open_transactions_time_out_and_only_others_expire() -> None:
    for state in TransactionState:
        current = transaction(state) if state < TransactionState.DEAD else None
        if current is not None:
            assert current.has_timed_out(NOW + 60_001) == (state is TransactionState.ONGOING)
            is_unused = state in (
                TransactionState.EMPTY,
                TransactionState.COMPLETE_COMMIT,
                TransactionState.COMPLETE_ABORT,
            )
            assert current.has_expired(NOW + 100, 100) == is_unused
            assert not current.has_expired(NOW + 99, 100)
    assert not transaction(TransactionState.ONGOING).has_timed_out(NOW + 60_000)


def test_states_have_kafkas_names() -> None:
    names = [state.wire_name for state in TransactionState]
    assert names == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert attrs.asdict(transaction())["state"] is TransactionState.EMPTY


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.COMPLETE_ABORT])
def test_abort_without_an_open_transaction_starts_when_it_is_decided_kip_890(state: TransactionState) -> None:
    former = transaction(state, start_ms=NOW - 5_000)
    aborted = ended(former, 3, commit=False, version=V2)
    assert aborted is not None
    assert (aborted.state, aborted.partitions, aborted.start_ms) == (TransactionState.PREPARE_ABORT, (), NOW)
