"""The results of coordinators, available now or later: a value, or the error that a client gets instead."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from broker.net.completion import Completion as _Completion
from broker.wire.errors import KafkaError

T = TypeVar("T")

Completion: TypeAlias = _Completion[T | KafkaError]
# The outcomes of several completions: each may be an error, all together are none.
Gathered: TypeAlias = _Completion[list[T | KafkaError]]


def completed(value: T) -> _Completion[T]:
    """Returns a completion that is done with this value."""
    completion: _Completion[T] = _Completion()
    completion.complete(value)
    return completion


def failed(error: KafkaError) -> Completion[Any]:
    """Returns a completion that is done with this error."""
    completion: Completion[Any] = _Completion()
    completion.complete(error)
    return completion


def gather(completions: Sequence[_Completion[T]]) -> _Completion[list[T]]:
    """Completes when all the completions are done, with their outcomes in the same order."""
    gathered: _Completion[list[T]] = _Completion()
    left = len(completions)

    def one_more(outcome: T) -> None:
        nonlocal left
        left -= 1
        if not left:
            gathered.complete([each.outcome for each in completions])

    if not completions:
        gathered.complete([])
    for completion in completions:
        completion.then(one_more)
    return gathered
