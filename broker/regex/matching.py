"""Regular expressions of members' subscriptions, matched in a time that grows with the length of the text and no more.

What a client sends must not stall the broker, as an expression that is matched by trying can. All ways through the
expression are followed at once (Thompson, "Regular Expression Search Algorithm", 1968), and which come from where on
which character is remembered: the states of a deterministic automaton, as far as texts have needed them.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from broker.regex.syntax import (
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

__all__ = ["Regex", "RegexError", "State", "compile_regex"]

# RE2 bounds what an expression compiles to, by default to 8 MB, and so its length. A class of names takes some tens of
# steps, a list of a hundred names 3,000. At the bounds, compiling takes 5 to 10 ms.
LENGTH_MAX: Final = 4_096
_STEPS_MAX: Final = 5_000
# What is remembered of how states lead to others, in steps and characters; then it is cleared. About a megabyte.
_REMEMBERED_MAX: Final = 20_000
# Reading a character whose state is known costs a fraction of looking at a step.
_CHARS_AT_ONE_STEP: Final = 4


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


def compile_regex(text: str) -> "Regex":
    """Raises RegexError."""
    if len(text) > LENGTH_MAX:
        raise RegexError(f"it is longer than {LENGTH_MAX} characters")
    return Regex(_Program(Parser(text).parse()))


class _Program:
    """Steps, made from the last one to the first: step 0 is the end of the expression, `start` its beginning."""

    def __init__(self, node: Node) -> None:
        self.steps: list[_Step] = [_Fork(())]
        self._emitted = 0
        self.start = self._emit(node, _MATCH)

    def _emit(self, node: Node, then: int) -> int:
        self._emitted += 1  # also what adds no step: nothing, repeated a thousand times a thousand times
        if self._emitted > _STEPS_MAX:
            raise RegexError("it is too large")
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


class State:
    """Where one may be after some text: before which steps, and behind what. `then` has the states that follow."""

    __slots__ = ("before", "starts", "then")

    def __init__(self, starts: frozenset[int], before: _Before) -> None:
        self.starts = starts
        self.before = before
        self.then: dict[str, State] = {}


class Regex:
    """A compiled expression.

    `work` counts what it has cost since it was made, in steps looked at and characters read: about 0.3 us each.
    """

    def __init__(self, program: _Program) -> None:
        self._steps = program.steps
        self._first = program.start
        self.work = len(program.steps)
        self.forget()

    def forget(self) -> None:
        """Give back what matching has remembered."""
        self._begin = State(frozenset([self._first]), _Before.NOTHING)
        self._states = {(self._begin.starts, self._begin.before): self._begin}
        self._matching: dict[State, bool] = {}
        self._size = 1

    def matches(self, text: str) -> bool:
        """Whether the whole text, of ASCII, matches."""
        return self.is_match(self.read(self.begin(), text, 0)[0])

    def begin(self) -> State:
        """Before any text."""
        return self._begin

    def read(self, state: State, text: str, at: int, work_max: int | None = None) -> tuple[State, int]:
        """Go on from `at` in the text until its end, or until the work exceeds this; where that is.

        What goes beyond is one character: the bound of an expression's steps bounds that.
        """
        start = at
        while at < len(text) and state.starts:
            following = state.then.get(text[at])
            if following is None:
                if work_max is not None and self.work > work_max:
                    break
                following = self._after(state, text[at])
            state = following
            at += 1
        self.work += (at - start) // _CHARS_AT_ONE_STEP + 1
        return state, at if state.starts else len(text)

    def is_match(self, state: State) -> bool:
        """Whether the text that has led here matches."""
        found = self._matching.get(state)
        if found is None:
            found = self._matching[state] = _MATCH in self._reached(state, None)
        return found

    def _after(self, state: State, char: str) -> State:
        if self._size > _REMEMBERED_MAX:
            self.forget()
        code = ord(char)
        takes = (self._steps[at] for at in self._reached(state, char))
        then = frozenset(step.then for step in takes if isinstance(step, _Take) and step.chars >> code & 1)
        before = _Before.WORD if _is_word(char) else _Before.OTHER
        following = self._states.get((then, before))
        if following is None:
            following = self._states[then, before] = State(then, before)
            self._size += len(then)
        state.then[char] = following
        self._size += 1
        return following

    def _reached(self, state: State, following: str | None) -> Iterable[int]:
        """All steps that one is at without another character, before `following` or at the end."""
        reached = dict.fromkeys(state.starts)
        to_visit = list(reached)
        while to_visit:
            step = self._steps[to_visit.pop()]
            then: tuple[int, ...] = ()
            if isinstance(step, _Fork):
                then = step.then
            elif isinstance(step, _Check) and _holds(step.place, state.before, following):
                then = (step.then,)
            for at in then:
                if at not in reached:
                    reached[at] = None
                    to_visit.append(at)
        self.work += len(reached)
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
