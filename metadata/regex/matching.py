"""Matches regular expressions in time linear in the length of the text.

Clients send regular expressions in subscriptions, and a backtracking matcher could block the broker for hours. This one
simulates the nondeterministic automaton of the expression, following all alternatives at once (Thompson, "Regular
Expression Search Algorithm", 1968). It caches the sets of steps that it reaches as the states of a deterministic
automaton, which is built only as far as the matched texts need it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from metadata.regex.syntax import (
    WORD,
    Assertion,
    Chars,
    CharSet,
    Choice,
    Condition,
    Node,
    Parser,
    RegexError,
    Repeat,
    Sequence,
)

__all__ = ["Regex", "RegexError", "State", "compile_regex"]

# RE2 bounds the size of a compiled expression, by default to 8 MB, and thus its length. A pattern for a group of names
# takes some tens of steps, a list of a hundred names 3,000. At the bounds, compiling takes 5 to 10 ms.
LENGTH_MAX: Final = 4_096
_STEPS_MAX: Final = 5_000
# The size of the cached automaton, in steps and transitions, at which it is cleared: about a megabyte.
_CACHE_SIZE_MAX: Final = 20_000
# Following a cached transition costs a fraction of visiting a step: this many count as one step of work.
_CHARS_AT_ONE_STEP: Final = 4


class _Consume(NamedTuple):
    """Consumes one of these characters and continues at `then`."""

    chars: CharSet
    then: int


class _Split(NamedTuple):
    """Continues at all of these steps."""

    then: tuple[int, ...]


class _Assert(NamedTuple):
    """Continues at `then` if the assertion holds at this position."""

    condition: Condition
    then: int


_Step = _Consume | _Split | _Assert
_MATCH: Final = 0


class _Preceding(Enum):
    """The kind of the character before a position in the text."""

    NOTHING = 0
    WORD = 1
    OTHER = 2


def compile_regex(text: str) -> "Regex":
    """Compile an expression. Raises RegexError."""
    if len(text) > LENGTH_MAX:
        raise RegexError(f"it is longer than {LENGTH_MAX} characters")
    return Regex(_Program(Parser(text).parse()))


class _Program:
    """The steps of an expression. They are emitted from its end to its start: step 0 is a match, `start` the first."""

    def __init__(self, node: Node) -> None:
        self.steps: list[_Step] = [_Split(())]
        self._emitted = 0
        self.start = self._emit(node, _MATCH)

    def _emit(self, node: Node, then: int) -> int:
        self._emitted += 1  # counts nodes without a step too: an empty group may be repeated a million times
        if self._emitted > _STEPS_MAX:
            raise RegexError("it is too large")
        match node:
            case Chars(chars):
                return self._add(_Consume(chars, then))
            case Assertion(condition):
                return self._add(_Assert(condition, then))
            case Sequence(nodes):
                for each in reversed(nodes):
                    then = self._emit(each, then)
                return then
            case Choice(nodes):
                return self._add(_Split(tuple([self._emit(each, then) for each in nodes])))
            case Repeat(repeated, least, most):
                start = self._unbounded(repeated, then) if most is None else self._up_to(repeated, most - least, then)
                for _ in range(least):
                    start = self._emit(repeated, start)
                return start

    def _unbounded(self, node: Node, then: int) -> int:
        loop = self._add(_Split(()))
        self.steps[loop] = _Split((self._emit(node, loop), then))
        return loop

    def _up_to(self, node: Node, times: int, then: int) -> int:
        start = then
        for _ in range(times):
            start = self._add(_Split((self._emit(node, start), then)))
        return start

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= _STEPS_MAX:
            raise RegexError("it is too large")
        self.steps.append(step)
        return len(self.steps) - 1


class State:
    """A state of the deterministic automaton: the steps reached after some text, and the kind of its last character.

    `then` maps the next character to the next state, as far as that was needed.
    """

    __slots__ = ("before", "starts", "then")

    def __init__(self, starts: frozenset[int], before: _Preceding) -> None:
        self.starts = starts
        self.before = before
        self.then: dict[str, State] = {}


class Regex:
    """A compiled expression.

    `work` counts the cost of matching so far, in visited steps of about 0.3 us each.
    """

    def __init__(self, program: _Program) -> None:
        self._steps = program.steps
        self._first = program.start
        self.work = len(program.steps)
        self.clear_cache()

    def clear_cache(self) -> None:
        """Free the cached automaton."""
        self._begin = State(frozenset([self._first]), _Preceding.NOTHING)
        self._states = {(self._begin.starts, self._begin.before): self._begin}
        self._matching: dict[State, bool] = {}
        self._size = 1

    def matches(self, text: str) -> bool:
        """Whether the whole text matches. It must be ASCII."""
        return self.is_match(self.read(self.begin(), text, 0)[0])

    def begin(self) -> State:
        """The state before any text."""
        return self._begin

    def read(self, state: State, text: str, at: int, work_max: int | None = None) -> tuple[State, int]:
        """Read the text from position `at` on; returns the state and position at which reading stopped.

        It stops at the end of the text, or once `work` exceeds `work_max`. It may exceed that by the work of one
        character, which the bound on the steps of an expression limits.
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
        """Whether the text that led to this state matches."""
        found = self._matching.get(state)
        if found is None:
            found = self._matching[state] = _MATCH in self._reached(state, None)
        return found

    def _after(self, state: State, char: str) -> State:
        if self._size > _CACHE_SIZE_MAX:
            self.clear_cache()
        code = ord(char)
        takes = (self._steps[at] for at in self._reached(state, char))
        then = frozenset(step.then for step in takes if isinstance(step, _Consume) and step.chars >> code & 1)
        before = _Preceding.WORD if _is_word(char) else _Preceding.OTHER
        following = self._states.get((then, before))
        if following is None:
            following = self._states[then, before] = State(then, before)
            self._size += len(then)
        state.then[char] = following
        self._size += 1
        return following

    def _reached(self, state: State, following: str | None) -> Iterable[int]:
        """All steps that are reached without consuming a character; `following` is the next one, None at the end."""
        reached = dict.fromkeys(state.starts)
        to_visit = list(reached)
        while to_visit:
            step = self._steps[to_visit.pop()]
            then: tuple[int, ...] = ()
            if isinstance(step, _Split):
                then = step.then
            elif isinstance(step, _Assert) and _holds(step.condition, state.before, following):
                then = (step.then,)
            for at in then:
                if at not in reached:
                    reached[at] = None
                    to_visit.append(at)
        self.work += len(reached)
        return reached


def _holds(condition: Condition, before: _Preceding, following: str | None) -> bool:
    if condition is Condition.BEGIN:
        return before is _Preceding.NOTHING
    if condition is Condition.END:
        return following is None
    is_boundary = (before is _Preceding.WORD) != (following is not None and _is_word(following))
    return is_boundary == (condition is Condition.WORD_BOUNDARY)


def _is_word(char: str) -> bool:
    return bool(WORD >> ord(char) & 1)
