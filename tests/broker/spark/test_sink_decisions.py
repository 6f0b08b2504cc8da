"""Decisions on the batches of an exactly-once sink, by example."""

import pytest

from broker.client import PreparedTransaction
from broker.spark.sink.decisions import (
    Batch,
    CorruptDecision,
    Decision,
    RowsPrepared,
    TaskTransaction,
    TransactionalIds,
    batch_of,
    check_undecided,
    is_decided,
    lost_transactions,
    transactions_to_abort,
    transactions_to_commit,
)

QUERY, OTHER_QUERY = "11111111-aaaa-4bbb-8ccc-000000000001", "11111111-aaaa-4bbb-8ccc-000000000002"
RUN, OTHER_RUN = "22222222-aaaa-4bbb-8ccc-000000000001", "22222222-aaaa-4bbb-8ccc-000000000002"
IDS = TransactionalIds("kraft-spark", QUERY)
BATCH = Batch(QUERY, RUN, 7)


def transaction(number: int, *, run: str = RUN, epoch: int = 0) -> TaskTransaction:
    return TaskTransaction(IDS.of_task(run, "abc123", number), PreparedTransaction(100 + number, epoch))


def test_decision_names_the_transactions_of_tasks_that_had_rows() -> None:
    messages = [RowsPrepared(BATCH, 3, transaction(1)), RowsPrepared(BATCH, 0), RowsPrepared(BATCH, 2, transaction(2))]
    decision = Decision.on(BATCH, messages)
    assert decision.transactions == (transaction(1), transaction(2))
    assert Decision.from_json(QUERY, decision.to_json()) == decision


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"version": 2}',
        b'{"version": 1, "runId": "r", "batchId": -1, "transactions": []}',
        b'{"version": 1, "runId": "r", "batchId": 1.5, "transactions": []}',
        b'{"version": 1, "runId": "r", "batchId": 1}',
        b'{"version": 1, "runId": "r", "batchId": 1, "transactions": [["t", 1]]}',
        b'{"version": 1, "runId": "r", "batchId": 1, "transactions": [["t", 1, 40000]]}',
        b'{"version": 1, "runId": "r", "batchId": 1, "transactions": [[7, 1, 1]]}',
        b'{"version": 1, "runId": "r", "batchId": 1, "transactions": 5}',
        b"[" * 100_000,
    ],
)
def test_record_that_is_no_decision_is_refused_with_advice(text: bytes) -> None:
    with pytest.raises(CorruptDecision, match="set the option decisionsTopic"):
        Decision.from_json(QUERY, text)


def test_batch_is_decided_from_its_decision_on() -> None:
    decision = Decision.on(BATCH, [])
    assert not is_decided(None, 0)
    assert [is_decided(decision, batch_id) for batch_id in (6, 7, 8)] == [True, True, False]


def test_repeated_batch_commits_the_transactions_of_its_decision_again() -> None:
    decision = Decision(BATCH, (transaction(1),))
    assert transactions_to_commit(decision, 7) == (transaction(1),)
    assert transactions_to_commit(decision, 6) == ()
    assert transactions_to_commit(None, 7) == ()


def test_transaction_that_was_aborted_before_the_decision_is_lost() -> None:
    kept, aborted, bumped = transaction(1), transaction(2), transaction(3)
    found = [kept, transaction(3, epoch=1)]
    assert lost_transactions([kept, aborted, bumped], found) == [aborted, bumped]


def test_transactions_of_repeated_tasks_and_replaced_runs_are_aborted_by_the_run_that_decides() -> None:
    kept, repeated, replaced = transaction(1), transaction(2), transaction(3, run=OTHER_RUN)
    aborted = transactions_to_abort([kept, repeated, replaced], IDS, BATCH, [kept], decides=True)
    assert aborted == [repeated, replaced]


def test_transactions_of_the_run_that_has_decided_are_left_to_it() -> None:
    """It may have begun the next batch, and decide it at any moment."""
    decided, repeated, next_batch = transaction(1, run=OTHER_RUN), transaction(2), transaction(3, run=OTHER_RUN)
    aborted = transactions_to_abort([decided, repeated, next_batch], IDS, BATCH, [decided], decides=False)
    assert aborted == [repeated]


def test_transactions_of_others_are_left_alone() -> None:
    others = [
        IDS.of_decisions,
        "payments",
        TransactionalIds("kraft-spark", OTHER_QUERY).of_task(RUN, "abc123", 1),
        TransactionalIds("another", QUERY).of_task(RUN, "abc123", 1),
        IDS.of_task(RUN, "abc123", 1) + "-x",
    ]
    found = [TaskTransaction(each, PreparedTransaction(1, 1)) for each in others]
    assert [IDS.run_of(each) for each in others] == [None] * 5
    assert transactions_to_abort(found, IDS, BATCH, [], decides=True) == []
    assert IDS.run_of(IDS.of_task(RUN, "abc123", 1)) == RUN


def test_batch_is_that_of_the_messages() -> None:
    assert batch_of([None, RowsPrepared(BATCH, 1), None], 7) == BATCH
    assert batch_of([None], 7) is None
    with pytest.raises(ValueError, match="different batches"):
        batch_of([RowsPrepared(BATCH, 1), RowsPrepared(BATCH._replace(run_id=OTHER_RUN), 1)], 7)
    with pytest.raises(ValueError, match="different batches"):
        batch_of([RowsPrepared(BATCH, 1)], 8)


def test_batch_whose_decision_has_gone_is_not_committed_without_its_rows() -> None:
    check_undecided(BATCH, [RowsPrepared(BATCH, 1, transaction(1))])
    with pytest.raises(CorruptDecision, match="Start the query again"):
        check_undecided(BATCH, [RowsPrepared(BATCH, 0, was_decided=True)])
