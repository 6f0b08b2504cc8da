"""The requests to a shard of the transaction coordinator, as it decides them."""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar

from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.transaction.record_formats import encode_transaction
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.transaction import (
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionState,
    Transition,
    add_partitions,
    check_expected,
    check_has_markers,
    check_producer,
    complete,
    end,
    fence,
    first_transaction,
    initialize,
)
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

T = TypeVar("T")

_NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class InitializedProducer(NamedTuple):
    """The response to InitProducerId.

    An open transaction was aborted if it is `aborted`: the producer then has to ask again.
    """

    identity: ProducerIdAndEpoch
    aborted: Transaction | None = None


class EndedTransaction(NamedTuple):
    """The response to EndTxn. `prepared` is the transaction that has yet to get its markers, if any."""

    identity: ProducerIdAndEpoch
    prepared: Transaction | None


class ListedTransaction(NamedTuple):
    """A transaction with its transactional id."""

    transactional_id: str
    transaction: Transaction


def init_producer_id(
    state: TransactionShard,
    now_ms: int,
    *,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    producer_id: int | None,
) -> Decision[InitializedProducer]:
    """Decides on the producer's id and epoch. `producer_id` is a new one, or None if the caller has none yet.

    Raises KafkaError, ProducerIdNeeded.
    """
    current = state.transactions.get(transactional_id)
    if current is None:
        transition = first_transaction(producer_id, timeout_ms, now_ms)
    elif current.state is TransactionState.ONGOING:
        check_expected(current, expected)
        transition = fence(current, server_version=state.transaction_version(), now_ms=now_ms, producer_id=producer_id)
        return _decided(state, transactional_id, transition, InitializedProducer(_NO_PRODUCER, transition.next))
    else:
        transition = initialize(
            current,
            state.last_epochs.get(transactional_id, NO_PRODUCER_EPOCH),
            expected,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            producer_id=producer_id,
        )
    return _decided(state, transactional_id, transition, InitializedProducer(transition.next.identity))


def add_partitions_to_transaction(
    state: TransactionShard,
    now_ms: int,
    *,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: tuple[TopicPartition, ...],
    client_version: int,
) -> Decision[None]:
    """Adds partitions to the producer's transaction, which begins with the first ones. Raises KafkaError."""
    current = _known(state, transactional_id)
    last_epoch = state.last_epochs.get(transactional_id, NO_PRODUCER_EPOCH)
    transition = add_partitions(current, last_epoch, producer, partitions, now_ms=now_ms, client_version=client_version)
    return Decision((), None) if transition is None else _decided(state, transactional_id, transition, None)


def verify_partitions(
    state: TransactionShard,
    now_ms: int,
    *,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: tuple[TopicPartition, ...],
) -> list[ErrorCode]:
    """An error code for each partition: TRANSACTION_ABORTABLE if it does not belong to the transaction (KIP-890).

    As in Kafka, the producer is checked before the state. Raises KafkaError.
    """
    current = _known(state, transactional_id)
    check_producer(current, producer)
    check_has_markers(current)
    known = set(current.partitions)
    return [ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions]


def end_transaction(
    state: TransactionShard,
    now_ms: int,
    *,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    is_commit: bool,
    client_version: int,
    producer_id: int | None,
) -> Decision[EndedTransaction]:
    """Commits or aborts the producer's transaction. `producer_id` is a new one, or None if the caller has none yet.

    Raises KafkaError, ProducerIdNeeded.
    """
    current = _known(state, transactional_id)
    transition = end(
        current,
        state.last_epochs.get(transactional_id, NO_PRODUCER_EPOCH),
        producer,
        is_commit=is_commit,
        client_version=client_version,
        now_ms=now_ms,
        producer_id=producer_id,
    )
    if transition is None:
        return Decision((), EndedTransaction(current.identity, None))
    response = EndedTransaction(transition.next.identity, transition.next)
    return _decided(state, transactional_id, transition, response)


def abort_timed_out(
    state: TransactionShard, now_ms: int, *, transactional_id: str, producer_id: int | None
) -> Decision[Transaction | None]:
    """Aborts a transaction if it has timed out, and fences its producer. Raises ProducerIdNeeded."""
    current = state.transactions.get(transactional_id)
    if current is None or not current.has_timed_out(now_ms):
        return Decision((), None)
    transition = fence(current, server_version=state.transaction_version(), now_ms=now_ms, producer_id=producer_id)
    return _decided(state, transactional_id, transition, transition.next)


def complete_transaction(
    state: TransactionShard, now_ms: int, *, transactional_id: str, prepared: Transaction
) -> Decision[None]:
    """All partitions have the markers of a prepared transaction."""
    current = state.transactions.get(transactional_id)
    if current is None or (current.producer_id, current.producer_epoch, current.state) != (
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.state,
    ):
        return Decision((), None)  # it was completed before
    last_epoch = state.last_epochs.get(transactional_id, NO_PRODUCER_EPOCH)
    return _decided(state, transactional_id, complete(current, last_epoch, now_ms), None)


def prepared_transactions(state: TransactionShard, now_ms: int) -> list[ListedTransaction]:
    """The transactions that have yet to get their markers."""
    return [ListedTransaction(each, state.transactions[each]) for each in state.prepared]


def timed_out_transactions(state: TransactionShard, now_ms: int) -> list[str]:
    """The transactional ids whose transactions have timed out."""
    return [each for each in state.ongoing if state.transactions[each].has_timed_out(now_ms)]


def describe_transaction(state: TransactionShard, now_ms: int, *, transactional_id: str) -> Transaction:
    """Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND."""
    current = state.transactions.get(transactional_id)
    if current is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return current


def select_transactions(
    state: TransactionShard,
    now_ms: int,
    *,
    states: Collection[str],
    producer_ids: Collection[int],
    open_for_ms: int,
    matches: Callable[[str], bool] | None,
) -> list[ListedTransaction]:
    """The transactional ids that pass all filters (KIP-664, 994, 1152). Empty filters, -1 and None match all.

    As in Kafka, `open_for_ms` is compared with the start of the last transaction, also of one that has ended. An id
    whose start is -1, because no transaction has begun since InitProducerId, passes.
    """
    found = []
    for transactional_id, transaction in state.transactions.items():
        if (
            (not states or transaction.state.wire_name in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (open_for_ms < 0 or now_ms - transaction.start_ms > open_for_ms)
            and (matches is None or matches(transactional_id))
        ):
            found.append(ListedTransaction(transactional_id, transaction))
    return found


def _known(state: TransactionShard, transactional_id: str) -> Transaction:
    """The state of a transactional id. Raises KafkaError INVALID_PRODUCER_ID_MAPPING."""
    current = state.transactions.get(transactional_id)
    if current is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return current


def _decided(state: TransactionShard, transactional_id: str, transition: Transition, response: T) -> Decision[T]:
    record: CoordinatorRecord = encode_transaction(transactional_id, transition.next, state.transaction_version())

    def remember_last_epoch() -> None:
        if transition.last_epoch != NO_PRODUCER_EPOCH:
            state.last_epochs[transactional_id] = transition.last_epoch

    return Decision([record], response, remember_last_epoch)
