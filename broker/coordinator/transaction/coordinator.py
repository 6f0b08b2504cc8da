"""The transaction coordinator's interface for handlers: each method completes with a part of a response, or an error.

A transaction ends in two steps. First its outcome is recorded (PREPARE_COMMIT or PREPARE_ABORT). When that record is
committed, the producer is answered and the markers are sent. A coordinator that is loaded sends the markers of all
transactions that it finds prepared.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs
import trio

from broker.config import KafkaConfig
from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.runtime import CoordinatorRuntime
from broker.coordinator.runtime.transaction_marker import TransactionMarker
from broker.coordinator.transaction.marker_sender import MarkerSender, UnfinishedTransaction
from broker.coordinator.transaction.requests import (
    EndedTransaction,
    InitializedProducer,
    ListedTransaction,
    abort_timed_out,
    add_partitions_to_transaction,
    complete_transaction,
    describe_transaction,
    end_transaction,
    init_producer_id,
    prepared_transactions,
    select_transactions,
    timed_out_transactions,
    verify_partitions,
)
from broker.coordinator.transaction.shard import TransactionShard
from broker.coordinator.transaction.transaction import (
    TWO_PHASE_TIMEOUT_MS,
    ProducerIdAndEpoch,
    ProducerIdNeeded,
    TopicPartition,
    Transaction,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Tracer

T = TypeVar("T")

# The record that a transaction is complete could not be written: the pause before the next attempt.
_COMPLETE_AGAIN_MS: Final = 100


class TransactionCoordinator:
    """Routes requests to the shard of their transactional id, and has prepared transactions ended by `markers`.

    `config` returns the configuration in force, `allocate_producer_id` a new producer id, or None while the
    controller cannot be reached. `run` must run.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        config: Callable[[], KafkaConfig],
        markers: MarkerSender,
        allocate_producer_id: Callable[[], Awaitable[int | None]],
        trace: Tracer,
    ) -> None:
        self.runtime = runtime
        self._config = config
        self._markers = markers
        self._allocate_producer_id = allocate_producer_id
        self._trace = trace
        self._nursery: trio.Nursery | None = None
        self._unfinished: dict[str, UnfinishedTransaction] = {}
        runtime.when_loaded(self._loaded)

    # Requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        producer_id: int | None,
        *,
        enable_2pc: bool = False,
        keep_prepared: bool = False,
    ) -> Completion[InitializedProducer]:
        """Completes with the producer's id and epoch. If a transaction is open, aborts it and fails with
        CONCURRENT_TRANSACTIONS. Raises ProducerIdNeeded if the caller has to allocate a producer id and call again.

        With `enable_2pc` the producer's transactions have no timeout. As in Kafka 4.4, `keep_prepared` is refused
        (KIP-939).
        """
        config = self._config()
        if not transactional_id:
            return failed(KafkaError(ErrorCode.INVALID_REQUEST))
        if enable_2pc and not config.transaction_two_phase_commit_enable:
            return failed(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        if keep_prepared:
            return failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        if not (enable_2pc or 0 < timeout_ms <= config.transaction_max_timeout_ms):
            return failed(KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        decide = partial(
            init_producer_id,
            transactional_id=transactional_id,
            timeout_ms=TWO_PHASE_TIMEOUT_MS if enable_2pc else timeout_ms,
            expected=expected,
            producer_id=producer_id,
        )
        return self._end(transactional_id, decide, lambda response: response.aborted)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: tuple[TopicPartition, ...],
        client_version: int,
    ) -> Completion[None]:
        """Completes when the partitions belong to the producer's transaction."""
        if not transactional_id:
            return failed(KafkaError(ErrorCode.INVALID_REQUEST))
        return self.runtime.write(
            self.runtime.partition_for(transactional_id),
            partial(
                add_partitions_to_transaction,
                transactional_id=transactional_id,
                producer=producer,
                partitions=partitions,
                client_version=client_version,
            ),
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: tuple[TopicPartition, ...]
    ) -> Completion[list[ErrorCode]]:
        """Completes with an error code for each partition: whether it belongs to the transaction."""
        if not transactional_id:
            return failed(KafkaError(ErrorCode.INVALID_REQUEST))
        return self.runtime.read(
            self.runtime.partition_for(transactional_id),
            partial(verify_partitions, transactional_id=transactional_id, producer=producer, partitions=partitions),
        )

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        client_version: int,
        producer_id: int | None,
    ) -> Completion[EndedTransaction]:
        """Completes when the outcome is certain, with the identity with which the producer goes on.

        Raises ProducerIdNeeded, to be called again with a new producer id.
        """
        if not transactional_id:
            return failed(KafkaError(ErrorCode.INVALID_REQUEST))
        decide = partial(
            end_transaction,
            transactional_id=transactional_id,
            producer=producer,
            is_commit=is_commit,
            client_version=client_version,
            producer_id=producer_id,
        )
        return self._end(transactional_id, decide, lambda response: response.prepared)

    def describe(self, transactional_id: str) -> Completion[Transaction]:
        """Completes with the state of a transactional id."""
        if not transactional_id:
            return failed(KafkaError(ErrorCode.INVALID_REQUEST))
        partition = self.runtime.partition_for(transactional_id)
        return self.runtime.read(partition, partial(describe_transaction, transactional_id=transactional_id))

    def list_transactions(
        self,
        partition: int,
        *,
        states: Collection[str],
        producer_ids: Collection[int],
        open_for_ms: int,
        matches: Callable[[str], bool] | None,
    ) -> Completion[list[ListedTransaction]]:
        """Completes with the transactional ids of a partition of this coordinator that pass the filters."""
        return self.runtime.read(
            partition,
            partial(
                select_transactions, states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, matches=matches
            ),
        )

    # The end of transactions

    def _end(
        self,
        transactional_id: str,
        decide: Callable[[TransactionShard, int], Decision[T]],
        prepared_of: Callable[[T], Transaction | None],
    ) -> Completion[T]:
        """As `write` of the runtime, for decisions that may prepare a transaction: when that is committed, its markers
        are sent, also if the request has failed because the commit took too long.
        """
        partition = self.runtime.partition_for(transactional_id)

        def prepare(state: TransactionShard, now_ms: int) -> Decision[T]:
            decision = decide(state, now_ms)
            prepared = prepared_of(decision.response)
            if prepared is None:
                return decision
            send = partial(self._send_markers, partition, transactional_id, prepared)
            return attrs.evolve(decision, committed=send)

        return self.runtime.write(partition, prepare)

    def _loaded(self, partition: int) -> None:
        """Sends the markers of the transactions that an earlier coordinator has prepared, when that is committed."""

        def find(state: TransactionShard, now_ms: int) -> Decision[None]:
            found = prepared_transactions(state, now_ms)
            return Decision((), None, committed=partial(self._send_all, partition, found))

        self.runtime.write(partition, find)

    def _send_all(self, partition: int, found: Sequence[ListedTransaction]) -> None:
        for transactional_id, prepared in found:
            self._markers.run_soon(partial(self._send_markers, partition, transactional_id, prepared))

    def _send_markers(self, partition: int, transactional_id: str, prepared: Transaction) -> None:
        epoch = self.runtime.epoch(partition)
        if epoch is None:
            return  # another broker coordinates it by now, and will find it prepared
        unfinished = UnfinishedTransaction(
            transactional_id,
            TransactionMarker(
                prepared.producer_id, prepared.producer_epoch, prepared.is_commit, epoch, prepared.client_version
            ),
            dict.fromkeys(prepared.partitions),
            is_current=lambda: (
                self._unfinished.get(transactional_id) is unfinished and self.runtime.epoch(partition) == epoch
            ),
            completed=lambda: self._complete(partition, unfinished, prepared),
        )
        self._unfinished[transactional_id] = unfinished
        self._markers.send(unfinished)

    def _complete(self, partition: int, unfinished: UnfinishedTransaction, prepared: Transaction) -> None:
        """Records that the transaction is complete. A coordinator that does not find this sends the markers again."""
        if not unfinished.is_current():
            return
        transactional_id = unfinished.transactional_id

        def recorded(outcome: KafkaError | None) -> None:
            if outcome is not None and unfinished.is_current():
                self._markers.run_later(_COMPLETE_AGAIN_MS, lambda: self._complete(partition, unfinished, prepared))
            elif self._unfinished.get(transactional_id) is unfinished:
                del self._unfinished[transactional_id]

        decide = partial(complete_transaction, transactional_id=transactional_id, prepared=prepared)
        self.runtime.write(partition, decide).then(recorded)

    # Timeouts

    async def run(self) -> None:
        """Aborts transactions that have timed out, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            while True:
                config = self._config()
                await trio.sleep(config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000)
                for partition in self.runtime.led_partitions:
                    self.runtime.read(partition, timed_out_transactions).then(self._abort_all)
                    await trio.lowlevel.checkpoint()

    def _abort_all(self, outcome: list[str] | KafkaError) -> None:
        if not isinstance(outcome, KafkaError):
            for transactional_id in outcome:
                self._markers.run_soon(partial(self._abort, transactional_id))

    def _abort(self, transactional_id: str, producer_id: int | None = None) -> None:
        decide = partial(abort_timed_out, transactional_id=transactional_id, producer_id=producer_id)
        try:
            ended = self._end(transactional_id, decide, lambda aborted: aborted)
        except ProducerIdNeeded:
            assert self._nursery is not None, "it runs"
            self._nursery.start_soon(self._abort_with_new_id, transactional_id)
        else:
            ended.then(partial(self._aborted, transactional_id))

    async def _abort_with_new_id(self, transactional_id: str) -> None:
        """As `_abort`, for a producer whose epochs are exhausted: the transaction ends under a new producer id."""
        producer_id = await self._allocate_producer_id()
        if producer_id is not None:  # otherwise the transaction is found again at the next interval
            self._markers.run_soon(partial(self._abort, transactional_id, producer_id))

    def _aborted(self, transactional_id: str, outcome: Transaction | KafkaError | None) -> None:
        if isinstance(outcome, Transaction):
            self._trace(
                "transaction_timed_out",
                transactional_id=transactional_id,
                producer_id=outcome.producer_id,
                timeout_ms=outcome.timeout_ms,
            )
