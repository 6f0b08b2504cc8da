"""The state of one transactional id, and the transitions between its states (KIP-98, KIP-360, KIP-890).

    EMPTY           a producer has an id and an epoch, and has not begun a transaction
    ONGOING         partitions are added; the producer writes to them
    PREPARE_*       the outcome is decided and written; markers are being sent to all partitions
    COMPLETE_*      all partitions have their markers; the next transaction may begin

InitProducerId leads to EMPTY, AddPartitionsToTxn to ONGOING, and EndTxn to a PREPARE state. The coordinator itself
leads to PREPARE_ABORT (`fence`) when a transaction has timed out, or when a new incarnation of the producer begins. A
PREPARE state is left only for the COMPLETE state of the same outcome, however often the markers have to be sent again.
A coordinator that is loaded sends the markers of all prepared transactions.

The epoch tells the incarnations of a producer apart, and requests with an earlier epoch are fenced. With transaction
version 2 each transaction has an epoch of its own: its end raises the epoch, and the markers carry the raised one.

All functions here are pure: a transition returns the next state. `last_epoch`, the producer's epoch before the last
bump, is not part of the state, since Kafka's records do not hold it: a new coordinator does not know it.

Past failures:

- The producer of a transaction whose markers were being written was fenced when it went on, which clients take for the
  end. It is told to try again (CONCURRENT_TRANSACTIONS) before its epoch or id are checked: neither is certain yet.
- The first batch of a transaction arrived before the last marker of the one before. That marker ended the verification
  of the batch, and the transaction had to be aborted. A marker with the verified epoch belongs to the earlier one.
- A transaction began while the clock was ahead. After the clock was set back, it stayed open until the clock had caught
  up. A transaction that seems to begin later than its timeout from now is now aborted.
- A timed-out transaction was fenced with two bumps, and its producer could not go on. It is bumped once now, as if the
  producer had aborted it itself.

So never change an outcome that is prepared, never answer EndTxn before that record is committed, and never time out a
transaction of two-phase commit: only its producer knows the outcome (KIP-939).
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import attrs

from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kraft import lazy_attrs

# The largest epoch. Only a coordinator uses it, to fence the producer whose epoch is the one before.
EPOCH_MAX: Final = 2**15 - 1
# From this version on, the producer gets a new epoch with each transaction (KIP-890).
EPOCH_PER_TRANSACTION: Final = 2
NO_TIME: Final = -1
# The timeout that marks the transactions of producers with two-phase commit (KIP-939).
TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1

TopicPartition: TypeAlias = tuple[str, int]


class TransactionState(IntEnum):
    """The states, by Kafka's numbers. DEAD and PREPARE_EPOCH_FENCE are never stored.

    In the PREPARE states the outcome is decided; in the COMPLETE states all partitions have their markers.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name of the state in responses."""
        return self.name.title().replace("_", "")


PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_EXPIRING: Final = (TransactionState.EMPTY, *COMPLETE)


class ProducerIdAndEpoch(NamedTuple):
    """The identity of an incarnation of a producer."""

    producer_id: int
    epoch: int


@lazy_attrs.frozen(kw_only=True)
class Transaction:
    """The state of a transactional id. Times are in ms since 1970.

    `partitions` belong to the current transaction. `previous_producer_id` is the id before the last one was exhausted,
    `next_producer_id` the one that the producer goes on with after this transaction. `client_version` is the
    transaction version of the client that caused the last transition.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_TIME
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no further epoch for a client."""
        return is_exhausted(self.producer_epoch)

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The id and epoch with which the producer goes on."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """The outcome that was decided."""
        assert self.state in PREPARED, "only a prepared transaction has an outcome"
        return self.state is TransactionState.PREPARE_COMMIT

    def has_timed_out(self, now_ms: int) -> bool:
        """True if the transaction is open for longer than its producer wanted.

        Also true if it seems to begin later than its timeout from now: the clock has been set back, and the transaction
        would stay open until the clock has caught up. One that takes part in a two-phase commit never times out: only
        its producer knows the outcome (KIP-939).
        """
        is_open = self.state is TransactionState.ONGOING and self.timeout_ms != TWO_PHASE_TIMEOUT_MS
        return is_open and abs(now_ms - self.start_ms) > self.timeout_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if the transactional id was not used for longer than `expiration_ms`."""
        return self.state in _EXPIRING and self.last_update_ms + expiration_ms <= now_ms


def is_exhausted(epoch: int) -> bool:
    """True if no client may get an epoch after this one."""
    return epoch >= EPOCH_MAX - 1


class Transition(NamedTuple):
    """The next state of a transactional id, and the producer's epoch before it was bumped, or -1."""

    next: Transaction
    last_epoch: int


class ProducerIdNeeded(Exception):
    """The transition needs a producer id that was never used before."""


def first_transaction(producer_id: int | None, timeout_ms: int, now_ms: int) -> Transition:
    """The state of a new transactional id. Raises ProducerIdNeeded without a producer id."""
    return Transition(
        Transaction(
            producer_id=_needed(producer_id),
            producer_epoch=0,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=now_ms,
        ),
        NO_PRODUCER_EPOCH,
    )


def initialize(
    current: Transaction,
    last_epoch: int,
    expected: ProducerIdAndEpoch | None,
    *,
    timeout_ms: int,
    now_ms: int,
    producer_id: int | None,
) -> Transition:
    """A producer begins, or goes on after an error (KIP-360): then it is `expected` to have this id and epoch.

    The transactional id must have no open transaction. Raises KafkaError
    CONCURRENT_TRANSACTIONS, PRODUCER_FENCED; ProducerIdNeeded.
    """
    check_has_markers(current)
    check_expected(current, expected)
    assert current.state is not TransactionState.ONGOING, "an open transaction has to be aborted first"
    empty = _emptied(current, timeout_ms, now_ms)
    if expected is None or expected.epoch == current.producer_epoch:
        if current.is_exhausted:
            bumped = attrs.evolve(empty, producer_id=_needed(producer_id), producer_epoch=0)
        else:
            bumped = attrs.evolve(empty, producer_epoch=current.producer_epoch + 1)
        return Transition(bumped, NO_PRODUCER_EPOCH if expected is None else current.producer_epoch)
    if expected.epoch != last_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    # A retry whose first attempt was successful.
    return Transition(attrs.evolve(empty, previous_producer_id=current.previous_producer_id), last_epoch)


def _emptied(current: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    return attrs.evolve(
        current,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
        previous_producer_id=current.producer_id,
        client_version=0,
    )


def check_expected(current: Transaction, expected: ProducerIdAndEpoch | None) -> None:
    """Raises KafkaError PRODUCER_FENCED for a producer whose id is another one.

    Its id may be the previous one if it retries a request that has exhausted the epochs of that id.
    """
    if expected is None or expected.producer_id == current.producer_id:
        return
    if expected.producer_id != current.previous_producer_id or not is_exhausted(expected.epoch):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def check_has_markers(current: Transaction) -> None:
    """Raises KafkaError CONCURRENT_TRANSACTIONS while the markers of a prepared transaction are written.

    As in Kafka, most requests are checked for this before their producer id and epoch, which are not certain yet: after
    the last epoch of a producer id, the next id becomes the current one with the last marker.
    """
    if current.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def check_producer(current: Transaction, producer: ProducerIdAndEpoch) -> None:
    """Raises KafkaError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED unless this is the current producer."""
    if producer.producer_id != current.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.epoch != current.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def add_partitions(
    current: Transaction,
    last_epoch: int,
    producer: ProducerIdAndEpoch,
    partitions: tuple[TopicPartition, ...],
    *,
    now_ms: int,
    client_version: int,
) -> Transition | None:
    """The transaction is about to write to these partitions, with which it may begin. None if nothing changes.

    Raises KafkaError CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
    """
    check_has_markers(current)
    check_producer(current, producer)
    is_open = current.state is TransactionState.ONGOING
    together = dict.fromkeys(current.partitions if is_open else ())
    known = len(together)
    together.update(dict.fromkeys(partitions))
    if is_open and len(together) == known:
        return None
    opened = attrs.evolve(
        current,
        state=TransactionState.ONGOING,
        partitions=tuple(together),
        start_ms=current.start_ms if is_open else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )
    return Transition(opened, last_epoch)


def end(
    current: Transaction,
    last_epoch: int,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    client_version: int,
    now_ms: int,
    producer_id: int | None,
) -> Transition | None:
    """A producer ends its transaction. None if it has ended like that already.

    Raises KafkaError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS;
    ProducerIdNeeded.
    """
    if _has_ended(current, producer, is_commit=is_commit, client_version=client_version):
        return None
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    if client_version >= EPOCH_PER_TRANSACTION:
        return _prepare(
            _bumped(current, producer_id), state, current.producer_epoch, now_ms=now_ms, client_version=client_version
        )
    return _prepare(current, state, last_epoch, now_ms=now_ms, client_version=client_version)


def _has_ended(current: Transaction, producer: ProducerIdAndEpoch, *, is_commit: bool, client_version: int) -> bool:
    """True if the transaction has ended like that already; False if it may be ended now.

    Before KIP-890 the producer's identity does not change with the end, and is checked first. Raises KafkaError
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS.
    """
    has_own_epoch = client_version >= EPOCH_PER_TRANSACTION
    if has_own_epoch:
        check_has_markers(current)
    has_rotated = has_own_epoch and _has_rotated(current, producer)
    if producer.producer_id != current.producer_id and not has_rotated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_next = has_own_epoch and current.producer_epoch == producer.epoch + 1
    is_same = producer.producer_id == current.producer_id and producer.epoch == current.producer_epoch
    is_complete = current.state in COMPLETE
    if not is_same and not (is_complete and (is_next or has_rotated)):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    check_has_markers(current)
    if is_complete and (is_next or has_rotated or not has_own_epoch):
        if (current.state is TransactionState.COMPLETE_COMMIT) != is_commit:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return True
    if current.state is not TransactionState.ONGOING and (is_commit or not has_own_epoch):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return False


def _has_rotated(current: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """True if this producer's EndTxn has used up its epochs: it goes on with the current producer id (KIP-890)."""
    is_first = producer.epoch == EPOCH_MAX - 1 and current.producer_epoch == 0
    return is_first and producer.producer_id == current.previous_producer_id


def fence(current: Transaction, *, server_version: int, now_ms: int, producer_id: int | None) -> Transition:
    """The coordinator aborts an open transaction: it has timed out, or a new incarnation of the producer begins.

    The epoch is bumped, so that requests of the producer's transaction are fenced. From transaction version 2 on this
    is as if the producer had aborted the transaction itself. Its own abort is then a retry, and it can go on after a
    timeout. A new incarnation still fences it, since InitProducerId bumps the epoch again. Raises ProducerIdNeeded.
    """
    assert current.state is TransactionState.ONGOING, "only an open transaction is aborted"
    state = TransactionState.PREPARE_ABORT
    if server_version >= EPOCH_PER_TRANSACTION:
        fenced, last_epoch = _bumped(current, producer_id), current.producer_epoch
        return _prepare(fenced, state, last_epoch, now_ms=now_ms, client_version=server_version)
    fenced = attrs.evolve(current, producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX))
    return _prepare(fenced, state, NO_PRODUCER_EPOCH, now_ms=now_ms, client_version=0)


def _bumped(current: Transaction, producer_id: int | None) -> Transaction:
    """The transaction in the epoch of its end. After the last epoch a new producer id follows.

    Raises ProducerIdNeeded.
    """
    next_producer_id = _needed(producer_id) if current.is_exhausted else NO_PRODUCER_ID
    epoch = min(current.producer_epoch + 1, EPOCH_MAX)
    return attrs.evolve(current, producer_epoch=epoch, next_producer_id=next_producer_id)


def complete(current: Transaction, last_epoch: int, now_ms: int) -> Transition:
    """All partitions have their markers."""
    state = TransactionState.COMPLETE_COMMIT if current.is_commit else TransactionState.COMPLETE_ABORT
    done = attrs.evolve(current, state=state, partitions=(), last_update_ms=now_ms)
    if current.next_producer_id != NO_PRODUCER_ID:
        done = attrs.evolve(
            done,
            producer_id=current.next_producer_id,
            producer_epoch=0,
            previous_producer_id=current.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )
    return Transition(done, last_epoch)


def _prepare(
    current: Transaction, state: TransactionState, last_epoch: int, *, now_ms: int, client_version: int
) -> Transition:
    """The outcome is decided. A transaction version 2 client may abort without having added a partition."""
    is_open = current.state is TransactionState.ONGOING
    prepared = attrs.evolve(
        current,
        state=state,
        partitions=current.partitions if is_open else (),
        start_ms=current.start_ms if is_open else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )
    return Transition(prepared, last_epoch)


def _needed(producer_id: int | None) -> int:
    if producer_id is None:
        raise ProducerIdNeeded
    return producer_id
