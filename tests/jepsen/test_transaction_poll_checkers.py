"""The checkers of polls within transactions see the anomaly that they are for, and accept a history close to it."""

import pytest

from jepsen.checkers import TRANSACTION_CHECKERS
from tests.support.sample_history import broken as broken_of
from tests.support.sample_transactions import SampleTransactionHistory

A, B, C = (0, "a/0"), (2, "b/0"), (4, "c/0")


def broken(history: SampleTransactionHistory) -> list[str]:
    return broken_of(history, TRANSACTION_CHECKERS)


def committed() -> SampleTransactionHistory:
    """Partition 0 holds A, B and C with their markers. The transactions "s" and "t" write nothing."""
    history = SampleTransactionHistory()
    for name in "abc":
        history.begins(name, (0,))
        history.commits(name)
    history.polls(0, 0, A, B, C)
    history.begins("s", ())
    history.begins("t", ())
    return history


def test_transaction_polls_on_over_markers() -> None:
    history = committed()
    history.polls_in("s", 0, A, position=0)
    history.polls_in("s", 0, B, position=1)
    history.polls_in("t", 0, C, position=3)
    assert broken(history) == []


def test_transaction_skips_a_record_from_poll_to_poll_int_poll_skip() -> None:
    history = committed()
    history.polls_in("s", 0, A, position=0)
    history.polls_in("s", 0, C, position=1)
    assert broken(history) == ["NoInternalPollSkips"]


def test_transaction_gets_a_record_again_int_nonmonotonic_poll() -> None:
    history = committed()
    history.polls_in("s", 0, A, B, position=0)
    history.polls_in("s", 0, B, C, position=3)
    assert broken(history) == ["NoInternalNonmonotonicPolls"]


@pytest.mark.parametrize(("following", "anomaly"), [(C, "NoInternalPollSkips"), (A, "NoInternalNonmonotonicPolls")])
def test_rebalance_does_not_excuse_a_transaction_that_polls_on(following: tuple[int, str], anomaly: str) -> None:
    history = committed()
    history.polls_in("s", 0, A)
    history.polls_in("s", 0, following)
    assert broken(history) == [anomaly]


@pytest.mark.parametrize("following", [A, C])
def test_poll_that_ends_a_transaction_by_a_rebalance_belongs_to_none(following: tuple[int, str]) -> None:
    history = committed()
    history.polls_in("s", 0, A)
    history.polls_in("", 0, following)
    history.polls_in("", 0, B)
    assert broken(history) == []


def test_client_skips_a_record_from_transaction_to_transaction_poll_skip() -> None:
    history = committed()
    history.polls_in("s", 0, A, position=0)
    history.polls_in("t", 0, C, position=1)
    assert broken(history) == ["NoExternalPollSkips"]


def test_client_skips_the_first_record_poll_skip() -> None:
    history = committed()
    history.polls_in("s", 0, B, position=0)
    assert broken(history) == ["NoExternalPollSkips"]


def test_client_gets_a_record_again_in_the_next_transaction_nonmonotonic_poll() -> None:
    history = committed()
    history.polls_in("s", 0, A, B, position=0)
    history.polls_in("t", 0, B, C, position=3)
    assert broken(history) == ["NoExternalNonmonotonicPolls"]


@pytest.mark.parametrize("following", [A, C])
def test_polls_may_skip_and_go_back_across_a_rebalance(following: tuple[int, str]) -> None:
    history = committed()
    history.polls_in("s", 0, A, B)
    history.polls_in("t", 0, following)
    assert broken(history) == []


def test_client_that_goes_back_after_an_abort_gets_the_same_records() -> None:
    history = committed()
    history.polls_in("s", 0, A, position=0)
    history.polls_in("s", 0, B, position=1)
    history.aborts("s")
    history.polls_in("t", 0, A, B, position=0)
    assert broken(history) == []


def test_client_that_goes_back_after_an_abort_misses_a_record() -> None:
    history = committed()
    history.polls_in("s", 0, A, B, position=0)
    history.aborts("s")
    history.polls_in("t", 0, B, position=0)
    assert broken(history) == ["AbortedPollsAreRepeated"]


def test_client_that_goes_back_after_an_abort_gets_more_than_it_asked_for() -> None:
    history = committed()
    history.polls_in("s", 0, B, C, position=1)
    history.aborts("s")
    history.polls_in("t", 0, A, B, position=1)
    assert broken(history) == ["AbortedPollsAreRepeated"]


@pytest.mark.parametrize("outcome", ["committed", "aborted", "unknown", "in another group"])
def test_two_transactions_of_a_group_consume_a_record(outcome: str) -> None:
    history = committed()
    history.polls_in("s", 0, A, group="g", client="m1")
    history.commits("s")
    history.polls_in("t", 0, A, B, group="h" if outcome == "in another group" else "g", client="m2")
    match outcome:
        case "aborted":
            history.aborts("t")
        case "unknown":
            history.decides("t", commit=True)
        case _:
            history.commits("t")
    assert broken(history) == (["RecordsAreConsumedOnce"] if outcome == "committed" else [])


@pytest.mark.parametrize("outcome", ["aborted", "unknown"])
def test_committed_transactions_of_a_group_leave_a_record_out(outcome: str) -> None:
    history = committed()
    history.polls_in("s", 0, A, B, group="g", client="m1")
    if outcome == "aborted":
        history.aborts("s")
    else:
        history.decides("s", commit=True)
    history.polls_in("t", 0, C, group="g", client="m2")
    history.commits("t")
    history.ends_with(0, "a/0", "b/0", "c/0")
    assert broken(history) == (["RecordsAreConsumedOnce"] * 2 if outcome == "aborted" else [])
