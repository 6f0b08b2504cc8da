"""Decisions on the batches of an exactly-once sink, and which transactions follow them. Pure.

The tasks of a batch leave their transactions open. The driver then writes one decision, which names them; the batch is
committed by that. Whatever fails after it, each of these transactions is committed at last, and a repetition of the
batch writes nothing. All other transactions of the query are aborted.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from broker.client import PreparedTransaction

_VERSION: Final = 1
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID_END: Final = re.compile(rf"({_UUID})-[0-9a-f]+-[0-9]+")
_INT64_MAX: Final = 2**63 - 1
_INT16_MAX: Final = 2**15 - 1


class CorruptDecision(ValueError):
    """A record under the key of a query is not a decision."""


class TransactionLost(RuntimeError):
    """A transaction of a batch was aborted before the driver could commit it."""


class Batch(NamedTuple):
    """A batch of a streaming query. A query has the same id after a restart, and another run id."""

    query_id: str
    run_id: str
    batch_id: int


class TransactionalIds(NamedTuple):
    """The transactional ids of a query: of its tasks, and of the driver's decisions."""

    prefix: str
    query_id: str

    @property
    def of_decisions(self) -> str:
        return f"{self.prefix}-{self.query_id}-decisions"

    def of_task(self, run_id: str, worker: str, number: int) -> str:
        """The id of one of the transactions that a worker process has open at the same time."""
        return f"{self.prefix}-{self.query_id}-{run_id}-{worker}-{number}"

    def run_of(self, transactional_id: str) -> str | None:
        """The run id in the id of a task of this query; None for all other ids."""
        start = f"{self.prefix}-{self.query_id}-"
        found = _ID_END.fullmatch(transactional_id.removeprefix(start)) if transactional_id.startswith(start) else None
        return None if found is None else found[1]


class TaskTransaction(NamedTuple):
    """A transaction with the rows of a task."""

    transactional_id: str
    prepared: PreparedTransaction


@attrs.frozen
class RowsPrepared(WriterCommitMessage):
    """The message of a task. `transaction` is None for a task that had no rows.

    `was_decided` is True if the task has found that its batch was committed before, and has written nothing.
    """

    batch: Batch
    rows: int
    transaction: TaskTransaction | None = None
    was_decided: bool = False


@attrs.frozen
class Decision:
    """The batch of a query that was committed last, and its transactions."""

    batch: Batch
    transactions: tuple[TaskTransaction, ...]

    @classmethod
    def on(cls, batch: Batch, messages: Iterable[RowsPrepared]) -> "Decision":
        """Commits a batch with the transactions of its tasks."""
        return cls(batch, tuple(each.transaction for each in messages if each.transaction is not None))

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": _VERSION,
                "runId": self.batch.run_id,
                "batchId": self.batch.batch_id,
                "transactions": [[each.transactional_id, *each.prepared] for each in self.transactions],
            }
        ).encode()

    @classmethod
    def from_json(cls, query_id: str, text: bytes) -> "Decision":
        """The counterpart of `to_json`. Raises CorruptDecision."""
        try:
            found = json.loads(text)
            if not isinstance(found, dict) or found.get("version") != _VERSION:
                raise ValueError("no version that this sink knows")
            transactions = [TaskTransaction(name, _prepared(*numbers)) for name, *numbers in found["transactions"]]
            if not all(isinstance(each.transactional_id, str) for each in transactions):
                raise ValueError("a transactional id is no text")
            batch = Batch(query_id, str(found["runId"]), _number_up_to(found["batchId"], _INT64_MAX))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptDecision(
                f"the last record of the query {query_id} is not a decision of this sink ({error!r}): set the option"
                " decisionsTopic to a topic that nothing else writes to, or upgrade this package"
            ) from error
        return cls(batch, tuple(transactions))


def _prepared(producer_id: Any, epoch: Any) -> PreparedTransaction:
    return PreparedTransaction(_number_up_to(producer_id, _INT64_MAX), _number_up_to(epoch, _INT16_MAX))


def _number_up_to(number: Any, at_most: int) -> int:
    if type(number) is not int or not 0 <= number <= at_most:
        raise ValueError(f"{number!r} is not a number from 0 to {at_most}")
    return number


def is_decided(decision: Decision | None, batch_id: int) -> bool:
    """True if the batch was committed. Decisions follow each other, so a later one implies those before it."""
    return decision is not None and decision.batch.batch_id >= batch_id


def check_undecided(batch: Batch, messages: Iterable[RowsPrepared]) -> None:
    """Raises CorruptDecision if a task has written nothing because of a decision that is not there any more."""
    if any(each.was_decided for each in messages):
        raise CorruptDecision(
            f"the decision on batch {batch.batch_id} of the query {batch.query_id} is gone, which its tasks have seen:"
            " nothing may delete records of the topic that decisionsTopic names. Start the query again, which writes"
            " the batch again"
        )


def transactions_to_commit(decision: Decision | None, batch_id: int) -> tuple[TaskTransaction, ...]:
    """The transactions that have to be committed, perhaps again, before the batch is complete.

    Those of an earlier batch are committed already, since Spark begins no batch before that.
    """
    return decision.transactions if decision is not None and decision.batch.batch_id == batch_id else ()


def batch_of(messages: Iterable[WriterCommitMessage | None], batch_id: int) -> Batch | None:
    """The batch of tasks, by the messages that arrived; None without any. Raises ValueError if they are of several."""
    batches = sorted({each.batch for each in messages if isinstance(each, RowsPrepared)})
    if not batches:
        return None
    if len(batches) > 1 or batches[0].batch_id != batch_id:
        raise ValueError(f"the tasks of batch {batch_id} belong to different batches: {batches}")
    return batches[0]


def lost_transactions(
    transactions: Iterable[TaskTransaction], opened: Iterable[TaskTransaction]
) -> list[TaskTransaction]:
    """The transactions of tasks that are not open any more, and which a decision can therefore not include."""
    is_open = set(opened)
    return [each for each in transactions if each not in is_open]


def transactions_to_abort(
    opened: Iterable[TaskTransaction],
    ids: TransactionalIds,
    batch: Batch,
    kept: Iterable[TaskTransaction],
    *,
    decides: bool,
) -> list[TaskTransaction]:
    """The transactions of a query, open before the batch was decided, that no decision names or will ever name.

    Those of the batch's own run belong to tasks that were repeated. If this run `decides` the batch, those of other
    runs belong to this batch or to earlier ones, since no later batch has begun before. If another run has decided the
    batch, that run may be about to decide the next one: only its own driver may abort its transactions.
    """
    kept_ids = {each.transactional_id for each in kept}

    def is_over(each: TaskTransaction) -> bool:
        run_id = ids.run_of(each.transactional_id)
        if run_id is None or each.transactional_id in kept_ids:
            return False
        return decides or run_id == batch.run_id

    return [each for each in opened if is_over(each)]
