"""The words of a JSON request, each checked for its type when it is taken."""

from collections.abc import Mapping
from typing import Any

from jepsen.testing.errors import BadRequest
from jepsen.testing.nearest_name import suggestion
from jepsen.testing.word_types import NUMBER_MAX, Word


class Words:
    """An object of JSON. Each method takes one word, and raises BadRequest if it has another type or is missing.

    A word with a default may be missing or null. `declared` is the table of a request's words: a word is taken as it is
    declared there. Words that the supervisor puts together itself have no table.
    """

    def __init__(self, body: object, declared: Mapping[str, Word] | None = None) -> None:
        if not isinstance(body, dict):
            raise BadRequest("the body has to be a JSON object")
        self._words: dict[str, Any] = body
        self._declared = declared

    def __contains__(self, word: str) -> bool:
        assert self._declared is None or word in self._declared, f"the table of words has no {word}"
        return self._words.get(word) is not None

    def narrowed(self, declared: Mapping[str, Word]) -> "Words":
        """The words that are left, with the table of a variant of the request."""
        return self if self._declared is None else Words(self._words, declared)

    def text(self, word: str, default: str | None = None) -> str:
        value = self._take(word, default, "text")
        if not isinstance(value, str):
            raise BadRequest(f"{word} has to be a text, not {value!r}")
        return value

    def integer(self, word: str, default: int | None = None) -> int:
        value = self._take(word, default, "integer")
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadRequest(f"{word} has to be an integer, not {value!r}")
        return value

    def number(self, word: str, default: float | None = None) -> float:
        value = self._take(word, default, "number")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
            raise BadRequest(f"{word} has to be a number from 0 to {NUMBER_MAX}, not {value!r}")
        return float(value)

    def true(self, word: str) -> None:
        if self._take(word, None, "true") is not True:
            raise BadRequest(f"{word} can only be true")

    def texts(self, word: str) -> Mapping[str, str]:
        """Configs: an object with texts, numbers or booleans, which become texts. A missing one is empty."""
        value = self._take(word, {}, "texts")
        if not isinstance(value, dict) or not all(isinstance(each, str | int | float) for each in value.values()):
            raise BadRequest(f"{word} has to be an object of texts, not {value!r}")
        return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}

    def value(self, word: str) -> object:
        """Any value."""
        return self._take(word, None, "value")

    def items(self, word: str) -> list[object]:
        """A list of anything."""
        value = self._take(word, None, "items")
        if not isinstance(value, list):
            raise BadRequest(f"{word} has to be a list, not {value!r}")
        return value

    def names(self, word: str) -> list[str]:
        """A list of texts. A missing one is empty."""
        value = self._take(word, [], "names")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise BadRequest(f"{word} has to be a list of texts, not {value!r}")
        return value

    def partition(self, word: str) -> tuple[str, int]:
        """A topic and the number of a partition, as a list of two."""
        return _partition(word, self._take(word, None, "partition"))

    def named_numbers(self, word: str, *, texts: int, numbers: int, shape: str) -> list[Any]:
        """A list of so many texts, and then so many integers from 0 on. `shape` names them for an error."""
        value = self._take(word, None, "named_numbers")
        kinds = [str] * texts + [int] * numbers
        if not isinstance(value, list) or [type(each) for each in value] != kinds or min(value[texts:]) < 0:
            raise BadRequest(f"{word} has to be {shape}, not {value!r}")
        return value

    def topic_or_partition(self, word: str) -> tuple[str, int | None]:
        """A partition, or a topic alone."""
        match self._take(word, None, "topic_or_partition"):
            case str(topic):
                return topic, None
            case value:
                return _partition(word, value)

    def all(self) -> Mapping[str, Any]:
        """All words as they are, for a reader that checks them itself."""
        return self._words

    def end(self) -> None:
        """Raises BadRequest if a word was not taken. Words with null count as missing."""
        if unknown := [word for word, value in self._words.items() if value is not None]:
            nearest = "" if self._declared is None else suggestion(unknown[0], self._declared)
            raise BadRequest(f"unknown: {', '.join(unknown)}{nearest}")

    def _take(self, word: str, default: Any, taken_as: str) -> Any:
        if self._declared is not None:
            declared = self._declared.get(word)
            assert declared is not None, f"the table of words has no {word}"
            assert (declared.taken_as, declared.default) == (taken_as, default), f"{word} is declared in another way"
        value = self._words.pop(word, None)
        if value is None:
            value = default
        if value is None:
            raise BadRequest(f"{word} is missing")
        return value


def _partition(word: str, value: object) -> tuple[str, int]:
    match value:
        case [str(topic), int(partition)] if partition >= 0 and not isinstance(partition, bool):
            return topic, partition
    raise BadRequest(f"{word} has to be a topic and a partition, not {value!r}")
