"""The state of a transactional producer (KIP-98, KIP-360, KIP-890, KIP-939). Pure.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING -> READY
                                                             -> ABORTING   -> READY
                                              IN_TRANSACTION -> PREPARED   -> COMMITTING or ABORTING
                  IN_TRANSACTION, COMMITTING -> ABORTABLE_ERROR -> ABORTING
                                         any -> FAILED

An event that the state does not allow raises TransactionStateError and changes nothing. Errors that brokers report are
either abortable, so that the producer can go on after an abort, or fatal (KIP-1050).

Under `transaction.version` 2 a partition joins the transaction by its first batch, and each transaction has its own
producer epoch, which EndTxn returns. Under lower versions, the producer adds each partition by AddPartitionsToTxn
before it sends the first batch, and all transactions have the same epoch. After an error the epoch is then raised by
InitProducerId, so that delayed requests of the aborted transaction are refused.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from broker.client.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
    TransactionStateError,
    UnsupportedByBroker,
    is_retriable,
)
from broker.client.types import Int16, TopicPartition
from broker.wire.errors import ErrorCode, KafkaError


class State(Enum):
    """See the module's docstring."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready to begin a transaction"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "in a prepared transaction"
    COMMITTING = "committing its transaction"
    ABORTING = "aborting its transaction"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FAILED = "failed"


class Event(Enum):
    """A call of the application, or the answer of a broker."""

    INITIALIZE = "initialize transactions"
    INITIALIZED = "take a producer id"
    KEPT_PREPARED = "keep the prepared transaction"
    NOT_INITIALIZED = "give up the initialization"
    BEGIN = "begin a transaction"
    ADD_OFFSETS = "add offsets to a transaction"
    PREPARE = "prepare the transaction"
    COMMIT = "commit the transaction"
    ABORT = "abort the transaction"
    ENDED = "end the transaction"


_TRANSITIONS: Final[Mapping[Event, Mapping[State, State]]] = {
    Event.INITIALIZE: {State.UNINITIALIZED: State.INITIALIZING},
    Event.INITIALIZED: {State.INITIALIZING: State.READY},
    Event.KEPT_PREPARED: {State.INITIALIZING: State.PREPARED},
    Event.NOT_INITIALIZED: {State.INITIALIZING: State.UNINITIALIZED},
    Event.BEGIN: {State.READY: State.IN_TRANSACTION},
    Event.ADD_OFFSETS: {State.IN_TRANSACTION: State.IN_TRANSACTION},
    Event.PREPARE: {State.IN_TRANSACTION: State.PREPARED},
    Event.COMMIT: {State.IN_TRANSACTION: State.COMMITTING, State.PREPARED: State.COMMITTING},
    Event.ABORT: {
        State.IN_TRANSACTION: State.ABORTING,
        State.PREPARED: State.ABORTING,
        State.ABORTABLE_ERROR: State.ABORTING,
    },
    Event.ENDED: {State.COMMITTING: State.READY, State.ABORTING: State.READY},
}
# The states in which batches are sent, and in which an abortable error stops the transaction: before the application
# knows that it is prepared, its batches are written. An abort is under way in ABORTING, which no such error stops.
_SENDING: Final = frozenset({State.IN_TRANSACTION, State.PREPARED, State.COMMITTING})


class PreparedTransaction(NamedTuple):
    """The producer id and epoch of a transaction that was prepared (KIP-939), to be kept with the decision on it."""

    producer_id: int
    epoch: Int16

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> "PreparedTransaction":
        """The counterpart of `str()`. Raises ValueError."""
        producer_id, separator, epoch = text.partition(":")
        if not (separator and producer_id.isdecimal() and epoch.isdecimal()):
            raise ValueError(f"a prepared transaction is written as producer-id:epoch, not {text!r}")
        return cls(int(producer_id), int(epoch))


class ProducerTransaction:
    """See the module's docstring. `on_change` is called after each change of the state.

    `is_v2` is True under transaction.version 2. `is_started` is True once the coordinator may know of the transaction.
    `must_bump_epoch` is True if InitProducerId has to raise the epoch after the transaction.
    """

    def __init__(self, transactional_id: str, on_change: Callable[[], None] = lambda: None) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.error: TransactionError | None = None
        self.is_v2 = False
        self.is_started = False
        self.must_bump_epoch = False
        self.prepared: PreparedTransaction | None = None
        self._on_change = on_change
        self._partitions: set[TopicPartition] = set()
        self._new_partitions: dict[TopicPartition, None] = {}

    @property
    def refusal(self) -> TransactionError | None:
        """Why no records are taken now, or None."""
        if self.state is State.IN_TRANSACTION:
            return None
        if self.error is not None:
            return self.error
        return TransactionStateError(
            f"the producer is {self.state.value}: records of a transactional producer belong to a transaction, which"
            " begins with `async with producer.transaction():` or begin_transaction()"
        )

    @property
    def is_open(self) -> bool:
        """True if there is a transaction that has to be aborted before the producer is closed."""
        return self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    def apply(self, event: Event) -> None:
        """Changes the state. Raises TransactionStateError, or in a state of error that error."""
        target = _TRANSITIONS[event].get(self.state)
        if target is None:
            if self.error is not None:
                raise self.error
            raise TransactionStateError(
                f"cannot {event.value} of {self.transactional_id!r}: the producer is {self.state.value}"
            )
        self._enter(target, None)

    def initialized(self, *, is_v2: bool, kept: PreparedTransaction | None = None) -> None:
        """Takes the answer to the first InitProducerId, and the transaction that it has kept (KIP-939)."""
        self.is_v2 = is_v2
        self.prepared = kept
        self.is_started = kept is not None
        self.apply(Event.INITIALIZED if kept is None else Event.KEPT_PREPARED)

    def prepare(self, prepared: PreparedTransaction) -> None:
        """After this, the transaction takes no more records. It is prepared when all that it has are written."""
        self.apply(Event.PREPARE)
        self.prepared = prepared

    def negotiate(self, *, is_v2: bool) -> None:
        """Takes the version for the next transaction; call it before the present one ends.

        The first transaction under version 2 needs an epoch of its own: partitions that were added to a transaction
        before do not belong to it (KIP-890).
        """
        self.must_bump_epoch |= is_v2 and not self.is_v2
        self.is_v2 = is_v2

    def ended(self) -> None:
        """The transaction was committed or aborted."""
        self.apply(Event.ENDED)
        self.is_started = self.must_bump_epoch = False
        self.prepared = None
        self._partitions.clear()
        self._new_partitions.clear()

    # Partitions

    def may_send(self, partition: TopicPartition) -> bool:
        """True if a batch for the partition can be sent as part of the transaction. Notes that it wants to be."""
        if self.state not in _SENDING:
            return False
        if partition in self._partitions:
            return True
        if self.is_v2:
            self._partitions.add(partition)
            self.is_started = True
            return True
        self._new_partitions[partition] = None
        return False

    def partitions_to_add(self) -> list[TopicPartition]:
        """The partitions that batches wait to be sent to, which AddPartitionsToTxn has to add first."""
        return list(self._new_partitions)

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has added the partitions."""
        self.is_started = True
        for partition in partitions:
            self._new_partitions.pop(partition, None)
            self._partitions.add(partition)

    # Errors

    def stop(self, cause: Exception) -> None:
        """An abortable error: the open transaction can only be aborted. Without one, this changes nothing."""
        if self.state in _SENDING:
            self.must_bump_epoch |= not self.is_v2
            self._enter(State.ABORTABLE_ERROR, _abortable(self.transactional_id, cause))

    def batch_failed(self, cause: Exception) -> None:
        """Records of the transaction are given up."""
        if isinstance(cause, KafkaError):
            self.refuse(cause, Request.PRODUCE)
        elif isinstance(cause, UnsupportedByBroker):
            self.fail(cause)
        else:
            self.stop(cause)

    def refuse(self, cause: KafkaError, request: "Request") -> None:
        """The final answer to a request is an error."""
        if severity(cause.code, request) is Severity.FATAL:
            self.fail(cause)
        else:
            self.stop(cause)

    def fail(self, cause: Exception) -> None:
        """A fatal error. The first one stays."""
        if self.state is not State.FAILED:
            self._enter(State.FAILED, _fatal(self.transactional_id, cause))

    def _enter(self, state: State, error: TransactionError | None) -> None:
        if state not in _SENDING:
            # Nothing is sent there any more. A partition that was refused would be asked for again and again.
            self._new_partitions.clear()
        self.state = state
        self.error = error
        self._on_change()


def _abortable(transactional_id: str, cause: Exception) -> TransactionError:
    error = TransactionAbortable(f"the transaction of {transactional_id!r} has to be aborted: {cause}")
    error.__cause__ = cause
    return error


def _fatal(transactional_id: str, cause: Exception) -> TransactionError:
    error: TransactionError
    if isinstance(cause, KafkaError) and cause.code in _FENCING:
        error = ProducerFenced(
            f"the producer was fenced: another one with the transactional id {transactional_id!r} has begun, or the"
            f" coordinator has aborted the transaction after transaction.timeout.ms ({cause})"
        )
    else:
        error = ProducerFailed(f"the producer {transactional_id!r} cannot go on, open another one: {cause}")
    error.__cause__ = cause
    return error


# Error codes


class Severity(Enum):
    """The consequence of an error code for the transaction."""

    RETRIABLE = auto()
    ABORTABLE = auto()
    FATAL = auto()


class Request(Enum):
    """The requests of a transaction, whose error codes have different meanings."""

    INIT_PRODUCER_ID = auto()
    PRODUCE = auto()
    ADD_PARTITIONS = auto()
    ADD_OFFSETS = auto()
    COMMIT_OFFSETS = auto()
    COMMIT = auto()
    ABORT = auto()


_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        # The group has given the partitions to another member (KIP-447).
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
_FATAL_FOR_PARTITIONS: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def severity(code: ErrorCode, request: Request) -> Severity:
    """The consequence of an error code in the response to a request, as in Kafka 4's TransactionManager.

    For Produce, this is for batches that are given up: their retries are the sender's concern. An abort that fails is
    always fatal: there is nothing left to do with the transaction.
    """
    if request is Request.PRODUCE:
        return Severity.FATAL if code in _FATAL_FOR_PARTITIONS else Severity.ABORTABLE
    if is_retriable(code):
        return Severity.RETRIABLE
    if request is Request.ABORT:
        return Severity.FATAL
    if code in _ABORTABLE:
        return Severity.ABORTABLE
    if request is Request.ADD_PARTITIONS:
        is_fatal = code in _FATAL_FOR_PARTITIONS or code in _FENCING or code == ErrorCode.INVALID_TXN_STATE
        return Severity.FATAL if is_fatal else Severity.ABORTABLE
    return Severity.FATAL
