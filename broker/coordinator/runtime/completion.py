"""The results of coordinators, available now or later: a value, or the error that a client gets instead."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from broker.net.completion import Completion as _Completion
from broker.wire.errors import KafkaError

T = TypeVar("T")

Completion: TypeAlias = _Completion[T | KafkaError]


def completed(value: T) -> Completion[T]:
    """Returns a completion that is done with this value."""
    completion: Completion[T] = _Completion()
    completion.complete(value)
    return completion


def failed(error: KafkaError) -> Completion[Any]:
    """Returns a completion that is done with this error."""
    completion: Completion[Any] = _Completion()
    completion.complete(error)
    return completion


def gather(completions: Sequence[Completion[T]]) -> Completion[list[T | KafkaError]]:
    """Completes when all the completions are done, with their outcomes in the same order."""
    gathered: Completion[list[T | KafkaError]] = _Completion()
    left = len(completions)

    def one_more(outcome: T | KafkaError) -> None:
        nonlocal left
        left -= 1
        if not left:
            gathered.complete([each.outcome for each in completions])

    if not completions:
        gathered.complete([])
    for completion in completions:
        completion.then(one_more)
    return gathered
