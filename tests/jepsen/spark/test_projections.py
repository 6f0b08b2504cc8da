"""Judging key by key gives the same result as judging the whole history, for every checker."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter

import pytest

from broker.cli.commands.spark_check import PROMISE_NAMES
from jepsen.checkers import Checker, judge
from jepsen.history import History, Operation
from jepsen.spark.projections import context_of_key, contexts_of, projectors
from jepsen.spark.promises import PROMISES, by_projection
from tests.support.random_histories import RandomHistory

CHECKERS: Sequence[Checker] = tuple({type(each): each for group in PROMISES.values() for each in group}.values())


def broken(history: History, checkers: Sequence[Checker]) -> Counter[str]:
    return Counter({each.name: each.broken for each in judge(history, checkers).promises if each.broken})


def broken_by_key(history: History) -> Counter[str]:
    found: Counter[str] = Counter()
    contexts: dict[str, list[Operation]] = defaultdict(list)
    for operation in history.operations:
        for name, context in contexts_of(operation):
            contexts[name].append(context)
    for projection, checkers in by_projection(CHECKERS).items():
        keys: dict[str, list[Operation]] = defaultdict(list)
        for operation in history.operations:
            for _, projector in projectors(operation.function, [projection]):
                for key, part in projector(operation):
                    keys[key].append(part)
        for key, parts in keys.items():
            name = context_of_key(projection, key)
            facts = [] if name is None else contexts[name]
            of_key = History(lambda: 0.0)
            of_key.operations = sorted([*facts, *parts], key=attrgetter("invoked_at", "client", "serial"))
            found += broken(of_key, checkers)
    return found


def test_command_offers_the_promises_that_there_are() -> None:
    assert tuple(PROMISES) == PROMISE_NAMES


def test_every_checker_has_a_projection() -> None:
    assert sum(len(checkers) for checkers in by_projection(CHECKERS).values()) == len(CHECKERS)


def test_history_without_anomalies_is_valid_either_way() -> None:
    history = RandomHistory(seed=0).history
    assert broken(history, CHECKERS) == broken_by_key(history) == Counter()


@pytest.mark.seeds(120)
def test_planted_anomalies_are_found_as_often_key_by_key(seed: int) -> None:
    history = RandomHistory(seed, batches=12, anomalies=1 + seed % 6).history
    assert broken_by_key(history) == broken(history, CHECKERS)


def test_all_promises_are_broken_by_some_planted_anomaly() -> None:
    found: Counter[str] = Counter()
    for seed in range(120):
        found += broken(RandomHistory(seed, batches=12, anomalies=16).history, CHECKERS)
    # No planted anomaly removes a topic from a listing, or delays healing. The values of a bank's records have no time.
    of_few = {"AcknowledgedTopicsStay", "DeletedTopicsStayAway", "SeenTopicsAreReal", "RecoveryIsBounded"}
    of_few |= {"BalancesAddUp"}
    assert {type(each).__name__ for each in CHECKERS} - set(found) <= of_few | {"NodesRunUntilStopped"}
