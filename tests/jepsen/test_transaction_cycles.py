"""Cycles of transactions (G1c), and the search for them in a graph."""

from random import Random

import pytest

from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.checkers.cycles import shortest_cycle, strongly_connected
from tests.support.sample_history import broken as broken_of
from tests.support.sample_transactions import SampleTransactionHistory


def broken(history: SampleTransactionHistory) -> list[str]:
    return broken_of(history, TRANSACTION_CHECKERS)


def read_before_written(transactional_id: str, later_id: str) -> SampleTransactionHistory:
    """The transaction "b" has read a record of "a", and its own record comes before that of "a" in partition 0."""
    history = SampleTransactionHistory()
    history.begins("a", transactional_id=transactional_id)
    history.commits("a")
    history.begins("b", (0,), transactional_id=later_id)
    history.polls_in("b", 1, (0, "a/1"))
    history.commits("b")
    history.ends_with(0, "b/0", "a/0")
    history.ends_with(1, "a/1")
    return history


def test_reads_and_writes_of_one_transactional_id_form_a_cycle_g1c() -> None:
    assert broken(read_before_written("id", "id")) == ["NoCyclesOfTransactions"]


def test_order_of_the_writes_of_two_transactional_ids_is_no_dependency() -> None:
    assert broken(read_before_written("id", "other")) == []


def test_writes_and_reads_in_one_order_form_no_cycle() -> None:
    history = SampleTransactionHistory()
    history.begins("a", transactional_id="id")
    history.commits("a")
    history.begins("b", (0,), transactional_id="id")
    history.polls_in("b", 1, (0, "a/1"))
    history.commits("b")
    history.ends_with(0, "a/0", "b/0")
    history.ends_with(1, "a/1")
    assert broken(history) == []


@pytest.mark.parametrize("last_is_aborted", [False, True])
def test_three_transactions_read_from_each_other_in_a_circle_g1c(last_is_aborted: bool) -> None:
    history = SampleTransactionHistory()
    for name in "abc":
        history.begins(name, (0,))
    for name, other, offset in (("b", "a", 0), ("c", "b", 2), ("a", "c", 4)):
        history.polls_in(name, 0, (offset, f"{other}/0"), client=name)
    history.commits("a")
    history.commits("b")
    if last_is_aborted:
        history.aborts("c")
    else:
        history.commits("c")
    found = broken(history)
    # In such a circle, one of the transactions is always read before it is committed, or it is aborted.
    assert set(found) - {"NothingPrecommittedIsRead", "NothingAbortedIsRead"} == (
        set() if last_is_aborted else {"NoCyclesOfTransactions"}
    )


def reachable(followers: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    following = list(followers.get(start, ()))
    while following:
        node = following.pop()
        if node not in found:
            found.add(node)
            following += followers.get(node, ())
    return found


@pytest.mark.seeds(30)
def test_components_are_the_nodes_that_reach_each_other(seed: int) -> None:
    rng = Random(seed)
    names = [f"n{number:02}" for number in range(rng.randint(2, 14))]
    followers: dict[str, list[str]] = {}
    for _ in range(rng.randint(1, 2 * len(names))):
        first, second = rng.sample(names, 2)
        followers.setdefault(first, []).append(second)
    reach = {name: reachable(followers, name) for name in names}
    expected = {
        frozenset(other for other in names if other in reach[name] and name in reach[other])
        for name in names
        if name in reach[name]
    }
    found = strongly_connected(followers)
    assert {frozenset(component) for component in found} == expected
    for component in found:
        cycle = shortest_cycle(followers, component)
        assert len(set(cycle)) == len(cycle) >= 2
        assert all(later in followers[earlier] for earlier, later in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_long_chain_and_long_cycle_need_no_recursion() -> None:
    count = 50_000
    followers = {f"{number}": [f"{number + 1}"] for number in range(count)}
    assert strongly_connected(followers) == []
    followers[f"{count}"] = ["0"]
    (component,) = strongly_connected(followers)
    assert len(component) == count + 1
