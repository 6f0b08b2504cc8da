"""One difference that is known, and the comparison of two servers' outcomes with a list of them."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from tests.differential.comparable import differing_paths
from tests.differential.execution import Outcome


@attrs.frozen
class Situation:
    """A step with both whole responses, and Kafka's responses to the steps before it."""

    kafka: Outcome
    ours: Outcome
    earlier: Sequence[Outcome] = ()

    @property
    def step(self) -> Any:
        return self.kafka.step

    @property
    def error_codes(self) -> tuple[str | None, str | None]:
        """Kafka's error code and ours, of responses with one error code for all."""
        return error_code(self.kafka), error_code(self.ours)


def error_code(outcome: Outcome) -> str | None:
    """The error code of a response with one for all; None if there is none, or no response."""
    return outcome.value.get("error_code") if isinstance(outcome.value, dict) else None


@attrs.frozen(kw_only=True)
class KnownDifference:
    """A difference in the response to one kind of step.

    `path` is a regular expression for the place in the response. `kafka` and `ours` are the two values there, or tuples
    of values or functions that accept them; `accepts_both` looks at the two together. `where` accepts the steps that it
    is about, and `when` the situations. After a difference that `diverges`, the rest of a sequence is not compared.
    """

    family: str
    step: str
    path: str
    kafka: Any
    ours: Any
    reason: str
    where: Callable[[Any], bool] = lambda step: True
    when: Callable[[Situation], bool] = lambda situation: True
    diverges: bool = False
    accepts_both: Callable[[Any, Any], bool] = lambda kafka, ours: True

    def covers(self, family: str, situation: Situation, path: str, kafka: Any, ours: Any) -> bool:
        return (
            (family, type(situation.step).__name__) == (self.family, self.step)
            and self.where(situation.step)
            and re.fullmatch(self.path, path) is not None
            and _accepts(self.kafka, kafka)
            and _accepts(self.ours, ours)
            and self.accepts_both(kafka, ours)
            and self.when(situation)
        )


def _accepts(expected: Any, value: Any) -> bool:
    if isinstance(expected, tuple):
        return value in expected
    return bool(expected(value) if callable(expected) else expected == value)


def anything(value: Any) -> bool:
    return True


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def containing(*parts: str) -> Callable[[Any], bool]:
    """Accepts a text that contains one of the parts."""
    return lambda value: isinstance(value, str) and any(part in value for part in parts)


_INDEX: Final = re.compile(r"\[\d+\]")
_NUMBERS: Final = re.compile(r"\b(?=[a-f]*[0-9])[0-9a-f]{4,}\b|-?[0-9]+")


@attrs.frozen
class Difference:
    """A step to which the two servers responded differently."""

    family: str
    index: int
    kafka: Outcome
    ours: Outcome
    # The places that differ, with both values, other than the known ones.
    paths: Sequence[tuple[str, Any, Any]]

    @property
    def step_name(self) -> str:
        return type(self.kafka.step).__name__

    @property
    def kind(self) -> str:
        """The same for differences that are probably the same one."""
        shown = [f"{_INDEX.sub('', path)}: {_kind(kafka)} / {_kind(ours)}" for path, kafka, ours in self.paths]
        return f"{self.step_name} {'; '.join(dict.fromkeys(shown))}"


def _kind(value: Any) -> str:
    return _NUMBERS.sub("N", value) if isinstance(value, str) else type(value).__name__


def first_difference(
    family: str, kafka: Sequence[Outcome], ours: Sequence[Outcome], known: Sequence[KnownDifference], used: list[int]
) -> Difference | None:
    """The first difference that no entry of `known` covers. Counts in `used` how often each entry was needed."""
    for index, (one, other) in enumerate(zip(kafka, ours, strict=True)):
        situation = Situation(one, other, kafka[:index])
        unknown = []
        covering: set[int] = set()
        for path, in_kafka, in_ours in differing_paths(one.value, other.value):
            found = [at for at, each in enumerate(known) if each.covers(family, situation, path, in_kafka, in_ours)]
            if not found:
                unknown.append((path, in_kafka, in_ours))
            covering.update(found)
        if unknown:
            return Difference(family, index, one, other, unknown)
        for at in covering:
            used[at] += 1
        if any(known[at].diverges for at in covering):
            return None
    return None
