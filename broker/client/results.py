"""The results of calls for many items (topics, partitions, groups, brokers), of which some may fail."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from broker.client.errors import ClientError, KafkaError, check
from broker.wire.errors import ErrorCode

Failure: TypeAlias = KafkaError | ClientError
"""The error of an item in `Results`: the broker's, or the client's."""

K = TypeVar("K")
V = TypeVar("V", covariant=True)
E = TypeVar("E")

# The result of one request: the outcome of each of its items.
Outcomes: TypeAlias = dict[K, V | Failure]


class Results(Mapping[K, V | Failure], Generic[K, V]):
    """Maps each item of a call to its value, or to the error that it failed with.

    Items are in the order of the call. A call raises an error only if it failed as a whole: no broker could be
    reached, the brokers do not support it, or refuse it.
    """

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Mapping[K, V | Failure]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, item: K) -> V | Failure:
        return self._outcomes[item]

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __repr__(self) -> str:
        return f"Results({self._outcomes!r})"

    @property
    def succeeded(self) -> dict[K, V]:
        """The values of the items that succeeded."""
        return {
            item: outcome
            for item, outcome in self._outcomes.items()
            if not isinstance(outcome, KafkaError | ClientError)
        }

    @property
    def failed(self) -> dict[K, Failure]:
        """The errors of the items that failed."""
        return {
            item: outcome for item, outcome in self._outcomes.items() if isinstance(outcome, KafkaError | ClientError)
        }

    def raise_first(self) -> dict[K, V]:
        """Returns the values of all items. Raises the error of the first item that failed, with a note naming it."""
        for item, error in self.failed.items():
            _note(error, f"of {_named(item)}")
            raise error
        return self.succeeded

    def value(self, item: K) -> V:
        """Returns the value of one item. Raises its error if it failed."""
        outcome = self._outcomes[item]
        if isinstance(outcome, KafkaError | ClientError):
            raise outcome
        return outcome

    def chained(self: "Results[Any, Iterable[E]]") -> list[E]:
        """Returns the elements of all values, where these are lists. Raises the first error, as `raise_first` does."""
        return [element for value in self.raise_first().values() for element in value]


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """The error that a response reports; None if `code` is NONE."""
    try:
        check(code, message)
    except KafkaError as error:
        return error
    return None


def outcome_of(code: int, message: str | None, value: E) -> E | Failure:
    """The value, or the error that a response reports in its place."""
    return failure(code, message) or value


def missing(item: object) -> KafkaError:
    """The error of an item that a response leaves out."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The broker's response does not mention {_named(item)}.")


def _named(item: object) -> str:
    """A name in quotes, and other items in the words of their `__str__`."""
    return repr(item) if isinstance(item, str) else str(item)


def _note(error: Failure, text: str) -> None:
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)
