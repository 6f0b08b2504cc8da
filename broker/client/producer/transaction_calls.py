"""The calls with which an application begins, commits and aborts transactions, and their execution."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Final

import attrs
import trio

from broker.client.arguments.calls import checks_arguments
from broker.client.cluster import Cluster
from broker.client.consumer.group.identity import GroupMetadata
from broker.client.errors import (
    ClientError,
    TimedOut,
    TransactionAborted,
    TransactionError,
    TransactionStateError,
    copy_to_raise,
)
from broker.client.producer.config import ProducerConfig
from broker.client.producer.sender import Sender
from broker.client.producer.transaction_requests import TransactionRequests
from broker.client.producer.transaction_state import Event, PreparedTransaction, State
from broker.client.types import OffsetAndMetadata, TopicPartition

# How long a cancelled block may still take to abort its transaction. Otherwise the coordinator aborts it after
# transaction.timeout.ms, or when another producer with the transactional id begins.
CANCELLED_ABORT_TIMEOUT_S: Final = 1.0


@attrs.define(eq=False)
class _Ending:
    """A commit or an abort that is under way; calls that ask for the same wait for it."""

    is_commit: bool
    done: trio.Event = attrs.field(factory=trio.Event)
    error: TransactionError | None = None


class OpenTransactions:
    """The transactions of an open producer. `flush` sends what is batched and waits for its outcome."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        requests: TransactionRequests,
        sender: Sender,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = requests.transaction
        self._cluster = cluster
        self._max_block_s = config.max_block_ms / 1000
        self._is_two_phase = config.transaction_two_phase_commit_enable
        self._requests = requests
        self._sender = sender
        self._flush = flush
        self._ending: _Ending | None = None

    async def initialize(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Gets a producer id, and the transaction that is kept. Raises as `Producer.init_transactions` does."""
        self._apply(Event.INITIALIZE)
        try:
            await self._requests.initialize(keep_prepared=keep_prepared)
        finally:
            if self.state.state is State.INITIALIZING:
                self.state.apply(Event.NOT_INITIALIZED)
        return self.state.prepared

    async def begin(self) -> None:
        """Begins a transaction, which costs no request."""
        if self.state.state is State.UNINITIALIZED:
            await self.initialize()
        else:
            await trio.lowlevel.checkpoint()
        self._apply(Event.BEGIN)

    async def prepare(self, *, allow_timeout: bool) -> PreparedTransaction:
        """Writes all records, so that nothing but the decision is missing. Raises TransactionError."""
        if not (self._is_two_phase or allow_timeout):
            raise TransactionStateError(
                "transactions are prepared with transaction_two_phase_commit_enable=True, or with allow_timeout=True:"
                " then the coordinator aborts them after transaction.timeout.ms"
            )
        prepared = PreparedTransaction(*self._requests.identity)
        with self._state_errors():
            self.state.prepare(prepared)
        try:
            await self._flush()
        except BaseException:
            self.state.stop(ClientError("prepare_transaction was cancelled"))
            raise
        if self.state.error is not None:
            raise copy_to_raise(self.state.error)
        return prepared

    async def complete(self, decided: PreparedTransaction) -> None:
        """Commits the prepared transaction if it is the one that is decided; otherwise it is aborted."""
        if self.state.prepared is None:
            raise TransactionStateError(f"no transaction is prepared: the producer is {self.state.state.value}")
        await self.end(is_commit=self.state.prepared == decided)

    async def end(self, *, is_commit: bool) -> None:
        """Commits or aborts, or waits for what an earlier call has begun. Raises TimedOut, TransactionError."""
        ending = self._ending
        if ending is None:
            self._apply(Event.COMMIT if is_commit else Event.ABORT)
            ending = self._ending = _Ending(is_commit)
            # It goes on if the caller is cancelled: the outcome is the coordinator's, and another call can ask for it.
            self._cluster.nursery.start_soon(self._perform, ending)
        elif ending.is_commit != is_commit:
            raise TransactionStateError(
                f"the transaction is being {'committed' if ending.is_commit else 'aborted'}, which has not been"
                " answered yet: make the same call again to wait for the outcome"
            )
        with trio.move_on_after(self._max_block_s):
            await ending.done.wait()
            if ending.error is not None:
                raise copy_to_raise(ending.error)
            return
        raise TimedOut(
            f"the {'commit' if is_commit else 'abort'} was not answered within {self._max_block_s * 1000:g} ms"
            " (max.block.ms). It goes on: make the same call again to wait for its outcome"
        )

    async def abort_after(self, error: BaseException) -> None:
        """Aborts because of an error, which is raised whatever comes of the abort: a failure is a note to it."""
        try:
            if isinstance(error, Exception):
                await self.end(is_commit=False)
            else:
                await self.abort_cancelled()
        except (TransactionError, TimedOut) as failure:
            error.add_note(f"the transaction could not be aborted: {failure}")

    async def abort_cancelled(self) -> None:
        """Aborts what is open within a second, even if the caller is cancelled."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CANCELLED_ABORT_TIMEOUT_S):
            await self.end(is_commit=False)

    async def commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Adds a group's offsets. A call that fails stops the transaction: the offsets may be part of it or not."""
        self._apply(Event.ADD_OFFSETS)
        if not offsets:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._requests.commit_offsets(offsets, group)
        except BaseException as error:
            cause = error if isinstance(error, Exception) else ClientError("send_offsets_to_transaction was cancelled")
            self.state.stop(cause)
            if isinstance(error, Exception) and self.state.error is not None:
                raise copy_to_raise(self.state.error) from error
            raise

    async def close(self) -> None:
        """Ends the open transaction: waits for what is under way, or aborts it. Raises nothing but Cancelled."""
        try:
            if self._ending is not None:
                await self._ending.done.wait()
            elif self.state.is_open:
                await self.end(is_commit=False)
        except trio.Cancelled:
            if self.state.is_open:
                await self.abort_cancelled()
            raise
        except (TransactionError, TimedOut):
            pass

    async def _perform(self, ending: _Ending) -> None:
        try:
            if ending.is_commit:
                await self._flush()
            else:
                self._sender.fail_all(TransactionAborted("the transaction was aborted before the record was written"))
                await self._sender.wait_until_idle()
            if self.state.error is None:
                await self._requests.end(is_commit=ending.is_commit)
            ending.error = self.state.error
        finally:
            self._ending = None
            ending.done.set()

    def _apply(self, event: Event) -> None:
        with self._state_errors():
            self.state.apply(event)

    @contextmanager
    def _state_errors(self) -> Iterator[None]:
        try:
            yield
        except TransactionError as error:
            raise copy_to_raise(error) from error.__cause__


@checks_arguments()
class TransactionCalls:
    """The calls of `Producer` on transactions; it needs a `transactional_id` for them."""

    _transactions: OpenTransactions | None
    _end: Exception | None

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Fences other producers of the transactional id, and aborts what they have left open.

        With `keep_prepared`, an open transaction is kept and returned: `complete_transaction` ends it (KIP-939).
        `begin_transaction` initializes where this was not called. Call it before reading what the transaction depends
        on, such as committed offsets: after it returns, no older producer can change that. Raises TimedOut after
        `max.block.ms`, KafkaError, UnsupportedByBroker; TransactionStateError where it was done already.
        """
        return await self._opened_transactions().initialize(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        """Begins a transaction: the records that are sent from now on belong to it.

        Raises TransactionStateError if the last one was not ended, ProducerFenced or ProducerFailed if the producer
        cannot go on, and what `init_transactions` raises.
        """
        await self._opened_transactions().begin()

    async def commit_transaction(self) -> None:
        """Sends what is batched, waits until all records of the transaction are written, and commits it.

        Raises TransactionAbortable where a record or the offsets could not be written: call `abort_transaction`.
        Raises ProducerFenced and ProducerFailed where the producer cannot go on; the transaction is aborted then,
        unless a response was lost. Raises TimedOut after `max.block.ms`, when the outcome is not known: call it again
        to wait for it. The same goes for a call that is cancelled.
        """
        await self._opened_transactions().end(is_commit=True)

    async def abort_transaction(self) -> None:
        """Gives up the records that were not sent, whose deliveries raise TransactionAborted, and aborts.

        Raises ProducerFenced and ProducerFailed where the producer cannot go on. Raises TimedOut after `max.block.ms`:
        call it again. The same goes for a call that is cancelled.
        """
        await self._opened_transactions().end(is_commit=False)

    async def prepare_transaction(self, *, allow_timeout: bool = False) -> PreparedTransaction:
        """Writes all records of the transaction, which can then be committed or aborted, also by another producer.

        This is the first phase of a two-phase commit (KIP-939), which needs `transaction_two_phase_commit_enable` here
        and by brokers: they never end the transaction because of its age. Write the returned value to where the
        decision is kept, together with what it decides about, and call `complete_transaction` with it. A producer that
        is closed leaves a prepared transaction open; `Admin.end_transactions` ends it from another process.

        `allow_timeout` prepares without that support: the coordinator aborts the transaction after
        `transaction.timeout.ms`, whatever was decided. Raises TransactionAbortable where a record could not be written,
        ProducerFenced, ProducerFailed, TransactionStateError.
        """
        return await self._opened_transactions().prepare(allow_timeout=allow_timeout)

    async def complete_transaction(self, decided: PreparedTransaction) -> None:
        """Commits the prepared transaction if it is `decided`, and aborts it otherwise.

        After a crash, `init_transactions(keep_prepared=True)` returns the transaction that is open, and `decided` is
        what was written last: if they differ, the crash came before the decision. Raises what `commit_transaction` and
        `abort_transaction` raise, and TransactionStateError where no transaction is prepared.
        """
        await self._opened_transactions().complete(decided)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A block that is a transaction: `async with producer.transaction():`.

        It is committed at the end of the block, and aborted if an exception leaves the block, or if the commit raises
        TransactionAbortable. Raises what `begin_transaction` and `commit_transaction` raise.
        """
        return _transaction(self._opened_transactions())

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commits offsets of a consumer's group as part of the transaction: `group` is `consumer.group_metadata()`.

        The offsets are those of the next records to read. Turn off the consumer's `enable_auto_commit`. Raises
        TransactionAbortable, also where the consumer is no longer a member of its group (KIP-447), and after
        `max.block.ms`; ProducerFenced, ProducerFailed, TransactionStateError.
        """
        await self._opened_transactions().commit_offsets(offsets, group)

    def _opened_transactions(self) -> OpenTransactions:
        if self._end is not None:
            raise copy_to_raise(self._end)
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactional_id: open it with one to use transactions")
        return self._transactions


@asynccontextmanager
async def _transaction(transactions: OpenTransactions) -> AsyncIterator[None]:
    await transactions.begin()
    try:
        yield
        await transactions.end(is_commit=True)
    except BaseException as error:
        if transactions.state.is_open:
            await transactions.abort_after(error)
        raise
