"""One difference that is known, and the comparison of two servers' outcomes with a list of them."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from tests.differential.comparable import differing_paths
from tests.differential.execution import Outcome
from tests.differential.sequences import Step


@attrs.frozen(kw_only=True)
class KnownDifference:
    """A difference in the response to one kind of step.

    `path` is a regular expression for the place in the response. `kafka` and `ours` are the two values there, or tuples
    of values or functions that accept them; `accepts_both` looks at the two together. `where` accepts the steps that it
    is about. After a difference that `diverges`, the rest of a sequence is not compared.
    """

    family: str
    step: str
    path: str
    kafka: Any
    ours: Any
    reason: str
    where: Callable[[Any], bool] = lambda step: True
    diverges: bool = False
    accepts_both: Callable[[Any, Any], bool] = lambda kafka, ours: True

    def covers(self, family: str, step: Step, path: str, kafka: Any, ours: Any) -> bool:
        return (
            (family, type(step).__name__) == (self.family, self.step)
            and self.where(step)
            and re.fullmatch(self.path, path) is not None
            and _accepts(self.kafka, kafka)
            and _accepts(self.ours, ours)
            and self.accepts_both(kafka, ours)
        )


def _accepts(expected: Any, value: Any) -> bool:
    if isinstance(expected, tuple):
        return value in expected
    return bool(expected(value) if callable(expected) else expected == value)


_INDEX: Final = re.compile(r"\[\d+\]")


@attrs.frozen
class Difference:
    """A step to which the two servers responded differently."""

    family: str
    index: int
    kafka: Outcome
    ours: Outcome

    @property
    def paths(self) -> list[tuple[str, Any, Any]]:
        return differing_paths(self.kafka.value, self.ours.value)

    @property
    def step_name(self) -> str:
        return type(self.kafka.step).__name__

    @property
    def kind(self) -> str:
        """The same for differences that are probably the same one."""
        shown = [f"{_INDEX.sub('', path)}: {_kind(kafka)} / {_kind(ours)}" for path, kafka, ours in self.paths]
        return f"{self.step_name} {'; '.join(dict.fromkeys(shown))}"


def _kind(value: Any) -> str:
    return re.sub(r"[0-9a-f]{4,}|-?[0-9]+", "N", value) if isinstance(value, str) else type(value).__name__


def first_difference(
    family: str, kafka: Sequence[Outcome], ours: Sequence[Outcome], known: Sequence[KnownDifference], used: list[int]
) -> Difference | None:
    """The first difference that no entry of `known` covers. Counts in `used` how often each entry was needed."""
    for index, (one, other) in enumerate(zip(kafka, ours, strict=True)):
        difference = Difference(family, index, one, other)
        diverges = False
        for path, in_kafka, in_ours in difference.paths:
            covering = [at for at, each in enumerate(known) if each.covers(family, one.step, path, in_kafka, in_ours)]
            if not covering:
                return difference
            for at in covering:
                used[at] += 1
                diverges = diverges or known[at].diverges
        if diverges:
            return None
    return None
