"""Work that takes more than a few milliseconds, done in slices between which everything else runs.

One slice at a time: however many clients ask for much, one pass of Trio's scheduler spends one slice on all of them
together, and then serves the others. Such clients wait for each other only.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import trio

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

# Work that yields between steps of about 100 us, and returns its result. It sees the state as of its beginning: it
# holds an image, or a copy, and nothing that changes between two steps.
Steps: TypeAlias = Generator[None, None, T]

SLICE_S: Final = 0.002
# The end of a slice where no time passes, as in the simulator.
SLICE_STEPS: Final = 256
# Steps taken at once, before the work is found to be long: most requests end within these.
FIRST_STEPS: Final = 4
# Works that are under way at a time, each with a request and a response that may take 100 MB; others wait in a queue.
WORKS_MAX: Final = 4
# How many small things make a step.
STEP_ITEMS: Final = 32
# So many structs are freed at a time.
_FREED_AT_ONCE: Final = 256


class Unfinished(Exception):
    """The work has more steps to take."""


class Slices:
    """Shares the event loop among long works."""

    def __init__(self) -> None:
        self._slice = trio.Lock()
        self._works = trio.Semaphore(WORKS_MAX)

    async def finish(self, steps: Steps[T]) -> T:
        """Take all steps, and return their result; a few of them without waiting for a slice."""
        try:
            return begin(steps)
        except Unfinished:
            pass
        async with self._works:
            while True:
                async with self.slice():
                    try:
                        return take_slice(steps)
                    except Unfinished:
                        pass

    @asynccontextmanager
    async def slice(self) -> AsyncIterator[None]:
        """Wait until the event loop may be held for one slice. Others run meanwhile, and tasks that wait take turns."""
        async with self._slice:
            yield


def begin(steps: Steps[T]) -> T:
    """The result of work that ends within a few steps; raises Unfinished, after which `Slices.finish` may go on."""
    try:
        next(steps)  # most work ends here, before the time needs to be looked at
    except StopIteration as stopped:
        result: T = stopped.value
        return result
    return _take(steps, FIRST_STEPS, trio.current_time() + SLICE_S)


def run(steps: Steps[T]) -> T:
    """The result of work that is known to be short: takes all of its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            result: T = stopped.value
            return result


def take_slice(steps: Steps[T]) -> T:
    """The result of work that ends within one slice; raises Unfinished, after which the next slice may go on."""
    return _take(steps, SLICE_STEPS, trio.current_time() + SLICE_S)


def each(make: Callable[[A], B], items: Iterable[A], step_items: int = STEP_ITEMS) -> Steps[list[B]]:
    """The results of `make` for each item, with a step after every `step_items`."""
    made: list[B] = []
    for item in items:
        made.append(make(item))
        if not len(made) % step_items:
            yield
    return made


def consumed(items: list[A]) -> Iterator[A]:
    """The items in their order, each of which leaves the list: freed one by one, not all at the end in one go."""
    items.reverse()
    while items:
        yield items.pop()


def freed(message: Any) -> Steps[None]:
    """Empty a message's long lists of structs, some structs at a time, with all that these hold.

    To free 100,000 structs at once takes 20 ms. The lists must belong to the message alone.
    """
    for elements in _lists_of_structs(message):
        yield from emptied(elements)


def emptied(elements: list[Any]) -> Steps[None]:
    """Empty a list of structs as `freed` does; up to `_FREED_AT_ONCE` may stay, to go with the list."""
    if not elements or not _list_fields(elements[0].__class__):
        while len(elements) > _FREED_AT_ONCE:
            del elements[-_FREED_AT_ONCE:]
            yield
        return
    freed_count = 0
    while elements:
        count = _count(elements[-1])
        if count > _FREED_AT_ONCE:
            for inner in _lists_of_structs(elements[-1]):
                yield from emptied(inner)
        del elements[-1]
        freed_count += count
        if freed_count >= _FREED_AT_ONCE:
            freed_count = 0
            yield


@cache
def _list_fields(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a struct that are arrays of structs."""
    return tuple(spec.name for spec in cls.__fields__ if isinstance(spec.type, list) and isinstance(spec.type[0], type))


def _lists_of_structs(struct: Any) -> list[list[Any]]:
    values = [getattr(struct, name) for name in _list_fields(struct.__class__)]
    return [value for value in values if isinstance(value, list)]


def _count(struct: Any) -> int:
    """The struct and all structs in it; no more are counted than are freed at once."""
    count = 1
    for elements in _lists_of_structs(struct):
        if not elements or not _list_fields(elements[0].__class__):
            count += len(elements)
            continue
        for element in elements:
            count += _count(element)
            if count > _FREED_AT_ONCE:
                return count
    return count


def _take(steps: Steps[T], count: int, deadline: float) -> T:
    try:
        for _ in range(count):
            next(steps)
            if trio.current_time() >= deadline:
                break
    except StopIteration as stopped:
        result: T = stopped.value
        return result
    raise Unfinished
