"""Promises about topics that are changed through brokers.

A broker forwards requests to the controller, and forwards them again if no response arrives (KIP-590). A change may
therefore be made twice for one request, and the response describes the second time. For example, the response that a
topic exists already may mean that this same request has created it.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import attrs

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.linearizability import find_contradiction
from jepsen.checkers.topics import SharedTopic
from jepsen.history import History, Operation, Outcome

# The result of the first of two attempts, whose response the broker did not receive.
_UNACKNOWLEDGED: Final = "unheard"


class ForwardedTopic:
    """Model of one topic whose requests may be executed twice.

    A state is the set of possible topics. A response keeps the possibilities that match it, and an unheard attempt adds
    its possible outcomes.
    """

    initial: Hashable = frozenset([SharedTopic.initial])

    def __init__(self) -> None:
        self._topic = SharedTopic()

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        assert isinstance(state, frozenset), "the state is the set of possible states"
        if operation.function == "see-topic":
            left = frozenset(each for each in state if each == operation.result)
            return bool(left), left
        if operation.result == _UNACKNOWLEDGED:
            silent = attrs.evolve(operation, outcome=Outcome.INFO)
            return True, state | {self._topic.step(each, silent)[1] for each in state}
        steps = [self._topic.step(each, operation) for each in state]
        after = frozenset(following for fits, following in steps if fits)
        return bool(after), after


class ForwardedChangesAreLinearizable:
    """Changes of a topic through brokers, and their refusals, can be explained by an order in which each takes effect
    once or twice between its request and its response. The final topics are the result of this order.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        by_name: dict[str, list[Operation]] = {}
        for operation in history.of("share-topic", "grow-topic", "drop-topic", "see-topic"):
            if operation.outcome is not Outcome.FAIL:
                by_name.setdefault(operation.value.name, []).append(operation)
        for name, operations in by_name.items():
            culprit = find_contradiction(_with_unacknowledged_attempts(operations), ForwardedTopic())
            if culprit is not None:
                what = f"no order of the operations on {name} explains it"
                yield Anomaly(type(self).__name__, what, (culprit, *_others(operations, culprit)))


def _with_unacknowledged_attempts(operations: Sequence[Operation]) -> list[Operation]:
    """The operations, with an additional unheard attempt for each change that succeeded."""
    changes = (each for each in operations if each.function != "see-topic" and each.outcome is Outcome.OK)
    return [*operations, *(attrs.evolve(each, result=_UNACKNOWLEDGED) for each in changes)]


def _others(operations: Sequence[Operation], culprit: Operation) -> list[Operation]:
    return [each for each in operations if (each.client, each.serial) != (culprit.client, culprit.serial)]


FORWARDED_TOPIC_CHECKERS: Final[tuple[Checker, ...]] = (ForwardedChangesAreLinearizable(),)
