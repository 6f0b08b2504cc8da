"""The driver's part of an exactly-once sink: decides on batches, and ends the transactions of their tasks."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from broker.client import KafkaError, PreparedTransaction, SyncAdmin, TimedOut
from broker.client.config import ClientConfig
from broker.spark.clients import ADMINS
from broker.spark.options import client_settings
from broker.spark.options.write_options import ExactlyOnce, WriteOptions
from broker.spark.sink.decision_log import DecisionLog
from broker.spark.sink.decisions import (
    Batch,
    Decision,
    RowsPrepared,
    TaskTransaction,
    TransactionalIds,
    TransactionLost,
    batch_of,
    check_undecided,
    is_decided,
    lost_transactions,
    transactions_to_abort,
    transactions_to_commit,
)

_ONGOING: Final = "Ongoing"
# Transactions of a broker that does not answer are left to the next batch.
_LIST_TIMEOUT_MS: Final = 5_000
# Markers for partitions without a leader are written later.
_VISIBLE_TIMEOUT_MS: Final = 5_000
_EXPIRED: Final = "INVALID_PRODUCER_ID_MAPPING"
_UNKNOWN: Final = frozenset({"TRANSACTIONAL_ID_NOT_FOUND", _EXPIRED})
_ENDED_OTHERWISE: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", _EXPIRED})
_log = logging.getLogger(__name__)


class SinkDriver:
    """Commits and aborts the batches of one query. Each call may come twice, and after any failure of earlier ones."""

    def __init__(self, options: WriteOptions, exactly_once: ExactlyOnce, admin: SyncAdmin, query_id: str) -> None:
        self._exactly_once = exactly_once
        self._admin = admin
        self._ids = TransactionalIds(exactly_once.id_prefix, query_id)
        self._log = DecisionLog(admin, options.client_config, exactly_once.decisions_topic, self._ids)

    def is_decided(self, batch_id: int) -> bool:
        """True if a batch was committed, so that its tasks have nothing to write."""
        return is_decided(self._log.last(), batch_id)

    def commit(self, batch: Batch, messages: Sequence[RowsPrepared]) -> None:
        """Commits a batch, unless it was committed before, and ends its transactions. Raises TransactionLost.

        An error before the decision leaves the batch to be written again; after it, to be completed by a repetition.
        """
        proposed = Decision.on(batch, messages)
        with self._log.propose(proposed) as proposal:
            decision = proposal.last
            opened = self._open_transactions(proposed)
            decides = not is_decided(decision, batch.batch_id)
            if decides:
                check_undecided(batch, messages)
                if lost := lost_transactions(proposed.transactions, opened):
                    raise TransactionLost(_lost_before(batch, lost))
                proposal.commit()
                decision = proposed
        kept = transactions_to_commit(decision, batch.batch_id)
        self._commit_transactions(batch, kept)
        self._abort_transactions(transactions_to_abort(opened, self._ids, batch, kept, decides=decides))

    def abort(self, batch: Batch, messages: Sequence[RowsPrepared]) -> None:
        """Aborts the transactions of a batch, unless a commit that failed has decided for it."""
        proposed = Decision.on(batch, messages)
        with self._log.propose(proposed) as proposal:
            if is_decided(proposal.last, batch.batch_id):
                return
            opened = self._open_transactions(proposed)
        self._abort_transactions(transactions_to_abort(opened, self._ids, batch, (), decides=False))

    def _open_transactions(self, proposed: Decision) -> list[TaskTransaction]:
        """The open transactions of the query's tasks: those of a decision, and others as far as brokers list them."""
        wanted = [each.transactional_id for each in proposed.transactions]
        with suppress(TimedOut):
            listed = self._admin.list_transactions(states=[_ONGOING], timeout_ms=_LIST_TIMEOUT_MS).succeeded.values()
            wanted += [each.transactional_id for of_broker in listed for each in of_broker]
        described = self._admin.describe_transactions(each for each in wanted if self._ids.run_of(each) is not None)
        for error in described.failed.values():
            if not isinstance(error, KafkaError) or error.code.name not in _UNKNOWN:
                raise error
        return [
            TaskTransaction(each.transactional_id, PreparedTransaction(each.producer_id, each.producer_epoch))
            for each in described.succeeded.values()
            if each.state == _ONGOING
        ]

    def _commit_transactions(self, batch: Batch, transactions: Sequence[TaskTransaction]) -> None:
        ended = self._admin.end_transactions(dict(transactions), is_commit=True)
        lost = {}
        for transactional_id, error in ended.failed.items():
            if not isinstance(error, KafkaError) or error.code.name not in _ENDED_OTHERWISE:
                raise error
            lost[transactional_id] = error.code.name
        if not lost:
            self._wait_until_visible(transactions)
            return
        message = _expired(batch, lost) if set(lost.values()) == {_EXPIRED} else _lost_after(batch, lost)
        if self._exactly_once.fails_on_data_loss:
            raise TransactionLost(message)
        _log.warning("%s", message)

    def _wait_until_visible(self, transactions: Sequence[TaskTransaction]) -> None:
        """Waits for the markers of the transactions: until they are written, a repeated commit has no answer."""
        with suppress(TimedOut):
            self._admin.end_transactions(dict(transactions), is_commit=True, timeout_ms=_VISIBLE_TIMEOUT_MS)

    def _abort_transactions(self, transactions: Sequence[TaskTransaction]) -> None:
        """Aborts transactions that were replaced. The next commit repeats what fails here.

        Their ids may be in use for later batches when this runs late, in a driver that was stopped for a while. So only
        these transactions are aborted, by their epochs; their producers are not fenced.
        """
        for transactional_id, error in self._admin.end_transactions(dict(transactions), is_commit=False).failed.items():
            if not isinstance(error, KafkaError) or error.code.name not in _ENDED_OTHERWISE:
                _log.warning("the transaction %s could not be aborted: %s", transactional_id, error)


@contextmanager
def sink_driver(options: WriteOptions, exactly_once: ExactlyOnce, query_id: str) -> Iterator[SinkDriver]:
    """A driver. Its connections stay open in this process for the next batch."""
    with ADMINS.lend(client_settings(options.client_config, ClientConfig)) as admin:
        yield SinkDriver(options, exactly_once, admin, query_id)


def commit_batch(
    options: WriteOptions, exactly_once: ExactlyOnce, messages: Sequence[WriterCommitMessage | None], batch_id: int
) -> None:
    """Commits a batch by the messages of its tasks. Raises TransactionLost, ValueError, and errors of the client."""
    if batch := batch_of(messages, batch_id):
        with sink_driver(options, exactly_once, batch.query_id) as driver:
            driver.commit(batch, _prepared(messages))


def abort_batch(
    options: WriteOptions, exactly_once: ExactlyOnce, messages: Sequence[WriterCommitMessage | None], batch_id: int
) -> None:
    """Aborts a batch. Without a message of a task, the next batch that is committed aborts its transactions."""
    if batch := batch_of(messages, batch_id):
        with sink_driver(options, exactly_once, batch.query_id) as driver:
            driver.abort(batch, _prepared(messages))


def _prepared(messages: Iterable[WriterCommitMessage | None]) -> list[RowsPrepared]:
    return [each for each in messages if isinstance(each, RowsPrepared)]


def _lost_before(batch: Batch, lost: Sequence[TaskTransaction]) -> str:
    names = ", ".join(each.transactional_id for each in lost)
    return (
        f"batch {batch.batch_id} was not written: its transactions {names} were aborted before the driver could commit"
        " them. Start the query again, which repeats the batch. If this happens again, batches take longer than"
        " kafka.transaction.timeout.ms: make them smaller by maxOffsetsPerTrigger, or set a higher timeout, which"
        " brokers allow up to transaction.max.timeout.ms"
    )


def _lost_after(batch: Batch, lost: Mapping[str, str]) -> str:
    names = ", ".join(f"{transactional_id} ({code})" for transactional_id, code in lost.items())
    return (
        f"batch {batch.batch_id} was decided, but rows of it are lost: the brokers have aborted {names} after"
        " kafka.transaction.timeout.ms, before the driver could commit. Set a higher timeout, or"
        " kafka.transaction.two.phase.commit.enable=true where the brokers support it (KIP-939). With"
        " failOnDataLoss=false the query goes on without these rows"
    )


def _expired(batch: Batch, lost: Mapping[str, str]) -> str:
    names = ", ".join(lost)
    return (
        f"batch {batch.batch_id} was decided, but whether its rows are in the topic is not known any more: its"
        " transactions ended more than transactional.id.expiration.ms ago, and the brokers have dropped their ids"
        f" {names}. They were committed if the driver died after it had ended them, and aborted if it died before."
        " Compare the topic with the input of the batch; with failOnDataLoss=false the query goes on after it"
    )
