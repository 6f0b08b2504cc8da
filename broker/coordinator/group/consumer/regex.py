"""Regular expressions of members' subscriptions, matched in a time that grows with the length of the text and no more.

What a client sends must not stall the broker, as an expression that is matched by trying can. All ways through the
expression are followed at once (Thompson, "Regular Expression Search Algorithm", 1968), and which come from where on
which character is remembered: the states of a deterministic automaton, as far as texts have needed them.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from broker.coordinator.group.consumer.regex_syntax import (
    WORD,
    Assertion,
    Chars,
    CharSet,
    Choice,
    Node,
    Parser,
    Place,
    RegexError,
    Repeat,
    Sequence,
)

__all__ = ["Regex", "RegexError", "compile_regex"]

# Of what an expression becomes when repetitions are written out. A class of names takes some tens.
_STEPS_MAX: Final = 10_000
# What is remembered of how states lead to others; then it begins anew.
_REMEMBERED_MAX: Final = 10_000


class _Take(NamedTuple):
    """Goes on at `then` with any of these characters."""

    chars: CharSet
    then: int


class _Fork(NamedTuple):
    """Goes on at all of these."""

    then: tuple[int, ...]


class _Check(NamedTuple):
    """Goes on at `then` in such a place."""

    place: Place
    then: int


_Step = _Take | _Fork | _Check
_MATCH: Final = 0


class _Before(Enum):
    """What stands before a place in a text."""

    NOTHING = 0
    WORD = 1
    OTHER = 2


_State = tuple[frozenset[int], _Before]


def compile_regex(text: str) -> "Regex":
    """Raises RegexError."""
    return Regex(_Program(Parser(text).parse()))


class _Program:
    """Steps, made from the last one to the first: step 0 is the end of the expression, `start` its beginning."""

    def __init__(self, node: Node) -> None:
        self.steps: list[_Step] = [_Fork(())]
        self.start = self._emit(node, _MATCH)

    def _emit(self, node: Node, then: int) -> int:
        match node:
            case Chars(chars):
                return self._add(_Take(chars, then))
            case Assertion(place):
                return self._add(_Check(place, then))
            case Sequence(nodes):
                for each in reversed(nodes):
                    then = self._emit(each, then)
                return then
            case Choice(nodes):
                return self._add(_Fork(tuple([self._emit(each, then) for each in nodes])))
            case Repeat(repeated, least, most):
                start = self._unbounded(repeated, then) if most is None else self._up_to(repeated, most - least, then)
                for _ in range(least):
                    start = self._emit(repeated, start)
                return start

    def _unbounded(self, node: Node, then: int) -> int:
        loop = self._add(_Fork(()))
        self.steps[loop] = _Fork((self._emit(node, loop), then))
        return loop

    def _up_to(self, node: Node, times: int, then: int) -> int:
        start = then
        for _ in range(times):
            start = self._add(_Fork((self._emit(node, start), then)))
        return start

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= _STEPS_MAX:
            raise RegexError("it is too large")
        self.steps.append(step)
        return len(self.steps) - 1


class Regex:
    """A compiled expression."""

    def __init__(self, program: _Program) -> None:
        self._steps = program.steps
        self._begin: _State = (frozenset([program.start]), _Before.NOTHING)
        self._remembered: dict[tuple[_State, str], _State] = {}

    def matches(self, text: str) -> bool:
        """Whether the whole text, of ASCII, matches."""
        state, remembered = self._begin, self._remembered
        for char in text:
            key = state, char
            following = remembered.get(key)
            if following is None:
                following = self._after(state, char)
                if len(remembered) >= _REMEMBERED_MAX:
                    remembered.clear()
                remembered[key] = following
            if not following[0]:
                return False
            state = following
        return _MATCH in self._reached(state, None)

    def _after(self, state: _State, char: str) -> _State:
        code = ord(char)
        takes = (self._steps[at] for at in self._reached(state, char))
        then = frozenset(step.then for step in takes if isinstance(step, _Take) and step.chars >> code & 1)
        return then, _Before.WORD if _is_word(char) else _Before.OTHER

    def _reached(self, state: _State, following: str | None) -> Iterable[int]:
        """All steps that one is at without another character, before `following` or at the end."""
        starts, before = state
        reached = dict.fromkeys(starts)
        to_visit = list(reached)
        while to_visit:
            step = self._steps[to_visit.pop()]
            then: tuple[int, ...] = ()
            if isinstance(step, _Fork):
                then = step.then
            elif isinstance(step, _Check) and _holds(step.place, before, following):
                then = (step.then,)
            for at in then:
                if at not in reached:
                    reached[at] = None
                    to_visit.append(at)
        return reached


def _holds(place: Place, before: _Before, following: str | None) -> bool:
    if place is Place.BEGIN:
        return before is _Before.NOTHING
    if place is Place.END:
        return following is None
    is_boundary = (before is _Before.WORD) != (following is not None and _is_word(following))
    return is_boundary == (place is Place.WORD_BOUNDARY)


def _is_word(char: str) -> bool:
    return bool(WORD >> ord(char) & 1)
