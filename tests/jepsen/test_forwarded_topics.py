"""Changes of topics through brokers that may forward twice: permitted and forbidden histories."""

from collections.abc import Sequence

import pytest

from jepsen.checkers.forwarded_topics import ForwardedChangesAreLinearizable
from jepsen.history import History, Outcome
from jepsen.values import Change

CREATE, GROW, DROP, SEE = "share-topic", "grow-topic", "drop-topic", "see-topic"
EXISTS, UNKNOWN, OK = "TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"

# (begin, end, function, partitions, result); without an end if the outcome is unknown.
Answer = tuple[float, float | None, str, int, object]


def is_broken(*answers: Answer) -> bool:
    history = History(lambda: 0.0)
    for index, (began, ended, function, partitions, result) in enumerate(answers):
        operation = history.invoke(f"c{index}", function, Change("t", partitions), at=began)
        if ended is not None:
            history.ok(operation, result)
            operation.completed_at = ended
            assert operation.outcome is Outcome.OK
    return bool(list(ForwardedChangesAreLinearizable().check(history)))


HISTORIES: Sequence[tuple[str, bool, Sequence[Answer]]] = [
    ("in order", False, [(0, 1, CREATE, 2, OK), (2, 3, GROW, 3, OK), (4, 5, SEE, 0, 3), (6, 7, DROP, 0, OK)]),
    ("a client that hears that it exists may have created it", False, [(0, 1, CREATE, 2, EXISTS), (2, 3, SEE, 0, 2)]),
    (
        "created, dropped by another, created again",
        False,
        [(0, 5, CREATE, 2, OK), (1, 2, DROP, 0, OK), (6, 7, SEE, 0, 2)],
    ),
    (
        "nobody knows whether it was dropped",
        False,
        [(0, 1, CREATE, 2, OK), (2, None, DROP, 0, ""), (3, 4, SEE, 0, None)],
    ),
    ("an acknowledged topic is gone", True, [(0, 1, CREATE, 2, OK), (2, 3, SEE, 0, None)]),
    ("an acknowledged topic is unknown", True, [(0, 1, CREATE, 2, OK), (2, 3, GROW, 3, UNKNOWN)]),
    ("growth is lost", True, [(0, 1, CREATE, 2, OK), (2, 3, GROW, 3, OK), (4, 5, SEE, 0, 2)]),
    ("a dropped topic is back", True, [(0, 1, CREATE, 2, OK), (2, 3, DROP, 0, OK), (4, 5, SEE, 0, 2)]),
    ("it exists, and nobody created it", True, [(0, 1, DROP, 2, OK)]),
    ("made again after its client had heard", True, [(0, 1, CREATE, 2, OK), (2, 3, DROP, 0, OK), (4, 5, GROW, 3, OK)]),
]


@pytest.mark.parametrize(
    ("is_wrong", "answers"), [history[1:] for history in HISTORIES], ids=[history[0] for history in HISTORIES]
)
def test_forwarded_changes_are_linearizable(is_wrong: bool, answers: Sequence[Answer]) -> None:
    assert is_broken(*answers) is is_wrong
