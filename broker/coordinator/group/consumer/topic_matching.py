"""Looks up the topics that regular expressions of subscriptions match, a slice of work at a time.

A heartbeat must not hold the event loop, and one expression of 3,000 times ".*" takes seconds on thousands of topics.
So a heartbeat does at most one slice of work, which is enough for usual expressions. A timer does the rest slice by
slice, and a later heartbeat uses the result. Kafka resolves expressions in a thread, with the same effect.

Results are cached: after a change of the metadata only new names are matched.
"""

from collections.abc import Iterable
from typing import Final

from metadata.image import MetadataImage
from metadata.regex.matching import Regex, RegexError, State, compile_regex

# The work of one slice, in units of `Regex.work`, of about 0.3 us each: some 3 ms.
SLICE: Final = 10_000
# How many expressions are cached with their matches. The least recently used one is dropped first.
_SEARCHES_MAX: Final = 1_000
# How many searches may be unfinished. Each may use a megabyte. Further ones start with a later heartbeat.
_UNFINISHED_MAX: Final = 64


class _Search:
    """The search for one expression's topics among the names in `tested`, except those `left`; the ones in `found`
    match.

    `regex` is None until it is compiled. `state` is the state of matching the last name in `left`, at position `at`.
    """

    __slots__ = ("at", "expression", "found", "left", "regex", "state", "tested")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.regex: Regex | None = None
        self.state: State | None = None
        self.at = 0
        self.tested: frozenset[str] = frozenset()
        self.found: set[str] = set()
        self.left: list[str] = []

    def set_names(self, names: frozenset[str]) -> None:
        """Sets the names of all topics; results for names that are gone are dropped."""
        if names is not self.tested:
            done = self.tested.difference(self.left)
            self.found &= names
            self.left = sorted(names - done, reverse=True)
            self.state, self.at = None, 0
            self.tested = names

    def advance(self, allowance: int) -> int:
        """Matches names until none is left or the allowance is used up. Returns the rest of the allowance."""
        regex = self.regex
        if self.left and regex is None:
            try:
                regex = self.regex = compile_regex(self.expression)
            except RegexError:
                self.left.clear()  # another coordinator accepted the expression; here it matches no topics
                return allowance
            allowance -= regex.work
        if regex is None:
            return allowance
        end = regex.work + allowance
        while self.left and regex.work < end:
            name = self.left[-1]
            self.state, self.at = regex.read(self.state or regex.begin(), name, self.at, end)
            if self.at == len(name):
                if regex.is_match(self.state):
                    self.found.add(name)
                self.left.pop()
                self.state, self.at = None, 0
        if not self.left:
            regex.clear_cache()
        return end - regex.work


class TopicMatcher:
    """Searches topics for the expressions of one shard. It only caches: its results depend on the metadata alone."""

    def __init__(self) -> None:
        self._searches: dict[str, _Search] = {}
        self._unfinished: dict[str, _Search] = {}
        self._by_name: object = None
        self._names: frozenset[str] = frozenset()

    @property
    def is_busy(self) -> bool:
        """True if there are names left to match."""
        return bool(self._unfinished)

    def check(self, expression: str) -> None:
        """Raises RegexError if the expression is invalid or too large."""
        search = self._searches.get(expression)
        if search is None or search.regex is None:
            search = _Search(expression)
            search.regex = compile_regex(expression)
            self._remember(search)

    def find(self, expressions: Iterable[str], image: MetadataImage) -> dict[str, tuple[str, ...]]:
        """The topics whose whole names match, in ascending order, by expression; without expressions that take too
        long.

        If there are such expressions, `advance` has to be called until `is_busy` is false.
        """
        names, allowance = self._names_in(image), SLICE
        found: dict[str, tuple[str, ...]] = {}
        for expression in expressions:
            search = self._searches.get(expression) or _Search(expression)
            self._remember(search)
            search.set_names(names)
            if allowance > 0:
                allowance = search.advance(allowance)
            if not search.left:
                self._unfinished.pop(expression, None)
                found[expression] = tuple(sorted(search.found))
            elif len(self._unfinished) < _UNFINISHED_MAX:
                self._unfinished[expression] = search
        return found

    def advance(self) -> None:
        """Does a slice of the remaining work."""
        allowance = SLICE
        while self._unfinished and allowance > 0:
            expression, search = next(iter(self._unfinished.items()))
            allowance = search.advance(allowance)
            if not search.left:
                del self._unfinished[expression]

    def _remember(self, search: _Search) -> None:
        self._searches.pop(search.expression, None)
        if len(self._searches) >= _SEARCHES_MAX:
            oldest = next(iter(self._searches))
            del self._searches[oldest]
            self._unfinished.pop(oldest, None)
        self._searches[search.expression] = search

    def _names_in(self, image: MetadataImage) -> frozenset[str]:
        """The names of all topics: the same object as long as the topics are the same."""
        by_name = image.topics.by_name
        if by_name is not self._by_name:
            names = frozenset(by_name)
            if names != self._names:
                self._names = names
            self._by_name = by_name
        return self._names
