"""Each checker of transactions sees the anomaly that it is for, in a history of a few operations, and no other."""

import pytest

from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.values import GroupOffsets, Sending, Transaction, transformed
from tests.support.sample_history import broken as broken_of
from tests.support.sample_transactions import SampleTransactionHistory


def broken(history: SampleTransactionHistory) -> list[str]:
    return broken_of(history, TRANSACTION_CHECKERS)


def test_history_without_anomalies_breaks_no_promise() -> None:
    history = SampleTransactionHistory()
    for name in "abc":
        history.begins(name)
    history.commits("a")
    history.polls(0, 0, (0, "a/0"))
    history.aborts("b")
    history.decides("c", commit=True)
    history.polls(0, 1, (2, "c/0"))
    history.did("see-stable", ("q", 0), (3, 4, 2))
    history.ends_with(0, "a/0", "c/0")
    history.ends_with(1, "a/1", "c/1")
    assert broken(history) == []


def test_record_of_an_aborted_transaction_is_read_g1a() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.aborts("a")
    history.polls(1, 0, (0, "a/1"))
    assert broken(history) == ["NothingAbortedIsRead"]


def test_record_of_a_transaction_without_decision_is_read_g1a() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.polls(1, 0, (0, "a/1"))
    assert broken(history) == ["NothingAbortedIsRead"]


def test_abort_after_a_commit_of_unknown_outcome_may_be_read() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.info(history.decides("a", commit=True), "no response")
    history.aborts("a")
    history.polls(1, 0, (0, "a/1"))
    assert broken(history) == []


def test_abort_after_a_failed_commit_must_not_be_read() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.fail(history.decides("a", commit=True), "fenced")
    history.aborts("a")
    history.polls(1, 0, (0, "a/1"))
    assert broken(history) == ["NothingAbortedIsRead"]


def test_record_is_read_before_its_transaction_is_committed() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.polls(0, 0, (0, "a/0"))
    history.commits("a")
    assert broken(history) == ["NothingPrecommittedIsRead"]


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_half_of_a_transaction_is_read_at_last(is_acknowledged: bool) -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    if is_acknowledged:
        history.commits("a")
    else:
        history.decides("a", commit=True)
    history.ends_with(0, "a/0")
    history.ends_with(1)
    lost = ["CommittedTransactionsAreRead"] if is_acknowledged else []
    assert broken(history) == ["TransactionsAreAtomic", *lost]


def test_committed_transaction_is_lost_as_a_whole() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.commits("a")
    history.ends_with(0)
    history.ends_with(1)
    assert broken(history) == ["CommittedTransactionsAreRead"] * 2


def consumed(offset: int, *outputs: str) -> SampleTransactionHistory:
    """A group has come to an offset of partition 0, which holds "a/0" and "b/0", and has written outputs."""
    history = SampleTransactionHistory()
    for name in "ab":
        history.begins(name, (0,))
        history.commits(name)
    history.ends_with(0, "a/0", "b/0")
    records = (("q", 1, tuple(transformed(f"t{at}", "g", each) for at, each in enumerate(outputs))),) if outputs else ()
    for _, _, values in records:
        history.invoke("t", "send", Sending("q", 1, "", 0, values))
    history.did("transact", Transaction("t", "t1", records, "g", (("q", 0, offset),)), None)
    history.commits("t1")
    history.ends_with(1, *(transformed(f"t{at}", "g", each) for at, each in enumerate(outputs)))
    history.did("final-offsets", GroupOffsets("g", (("q", 0),)), (("q", 0, offset),))
    return history


def test_output_matches_the_committed_offset() -> None:
    assert broken(consumed(0)) == []
    assert broken(consumed(1, "a/0")) == []
    assert broken(consumed(3, "a/0", "b/0")) == []


def test_offset_is_committed_without_the_output() -> None:
    assert broken(consumed(3, "a/0")) == ["OffsetsAreAtomicWithOutput"]


def test_output_is_committed_without_the_offset() -> None:
    assert broken(consumed(1, "a/0", "b/0")) == ["OffsetsAreAtomicWithOutput"]


def test_record_is_transformed_twice() -> None:
    assert broken(consumed(1, "a/0", "a/0")) == ["OffsetsAreAtomicWithOutput"]


@pytest.mark.parametrize("answers", [(6, 5, 4), (5, 6, 5)])
def test_last_stable_offset_is_after_the_high_watermark_or_before_a_record_read(answers: tuple[int, int, int]) -> None:
    history = SampleTransactionHistory()
    history.did("see-stable", ("q", 0), answers)
    assert broken(history) == ["StableOffsetsAreCommitted"]


def committed(count: int) -> SampleTransactionHistory:
    history = SampleTransactionHistory()
    for name in "abc"[:count]:
        history.begins(name, (0,))
        history.commits(name)
    return history


def test_consumer_skips_a_record_from_poll_to_poll() -> None:
    history = committed(3)
    history.polls(0, 0, (0, "a/0"), (2, "b/0"), (4, "c/0"), client="other")
    history.polls(0, 0, (0, "a/0"))
    history.polls(0, 4, (4, "c/0"))
    assert broken(history) == ["ConsumersGoForward"]


def test_consumer_gets_a_record_again() -> None:
    history = committed(2)
    history.polls(0, 0, (0, "a/0"), (2, "b/0"))
    history.polls(0, 1, (2, "b/0"))
    assert broken(history) == ["ConsumersGoForward"]


def test_consumer_may_start_again_from_offset_zero() -> None:
    history = committed(2)
    history.polls(0, 0, (2, "a/0"), (4, "b/0"))
    history.polls(0, 0)
    history.polls(0, 1, (2, "a/0"))
    assert broken(history) == []


def test_transaction_polls_its_own_record_precommitted_read() -> None:
    history = SampleTransactionHistory()
    history.begins("a")
    history.polls_in("a", 0, (0, "a/0"))
    history.commits("a")
    assert broken(history) == ["NothingPrecommittedIsRead"]


def test_transaction_polls_a_record_of_a_transaction_that_is_committed_at_that_moment() -> None:
    history = SampleTransactionHistory()
    for name in "ab":
        history.begins(name)
    decision = history.decides("a", commit=True)
    history.polls_in("b", 0, (0, "a/0"))
    history.ok(decision, None)
    history.commits("b")
    assert broken(history) == []


def test_transaction_polls_a_record_of_an_aborted_transaction_g1a() -> None:
    history = SampleTransactionHistory()
    for name in "ab":
        history.begins(name)
    history.aborts("a")
    history.polls_in("b", 0, (0, "a/0"))
    history.commits("b")
    assert broken(history) == ["NothingAbortedIsRead"]


def test_send_after_an_acknowledged_commit_gets_a_lower_offset_real_time() -> None:
    history = SampleTransactionHistory()
    for name, offset in (("a", 4), ("b", 2)):
        send = history.invoke("p", "send", Sending("q", 0, "", 0, (f"{name}/0",)))
        history.did("transact", Transaction("id", name, (("q", 0, (f"{name}/0",)),)), None)
        history.commits(name)
        history.time += 1
        history.ok(send, offset)
        history.time += 1
    history.ends_with(0, "x", "b/0", "a/0")
    assert "AcknowledgedOffsetsGrow" in broken(history)
