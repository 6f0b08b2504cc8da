"""Runs work of more than a few milliseconds in slices, between which other tasks run.

One slice runs at a time: in one pass of Trio's scheduler, all clients with large requests share one slice, so they
delay each other but no other client.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import trio

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

# Work that yields between steps of about 100 us, and returns its result. It reads the state as of its beginning, from
# an image or a copy, and holds no object that may change between two steps.
Steps: TypeAlias = Generator[None, None, T]

SLICE_S: Final = 0.002
# Ends a slice in the simulator, where no time passes.
SLICE_STEPS: Final = 256
# Steps taken before work counts as long. Most requests take fewer.
FIRST_STEPS: Final = 4
# The number of works in progress, each with a request and a response that may take 100 MB; others wait in a queue.
WORKS_MAX: Final = 4
# The number of small items in one step.
STEP_ITEMS: Final = 32
# The number of structs that are freed in one step.
_FREED_AT_ONCE: Final = 256


class Unfinished(Exception):
    """The work has more steps to take."""


class Slices:
    """Shares the event loop between long works."""

    def __init__(self) -> None:
        self._slice = trio.Lock()
        self._works = trio.Semaphore(WORKS_MAX)

    async def finish(self, steps: Steps[T]) -> T:
        """Take all steps, the first few without waiting for a slice, and return their result."""
        try:
            return begin(steps)
        except Unfinished:
            pass
        async with self.work():
            while True:
                async with self.slice():
                    try:
                        return take_slice(steps)
                    except Unfinished:
                        pass

    def work(self) -> AbstractAsyncContextManager[None]:
        """Wait until long work may begin, of which only a few are in progress."""
        return self._works

    @asynccontextmanager
    async def slice(self) -> AsyncIterator[None]:
        """Wait until the event loop may be held for one slice. Others run meanwhile, and tasks that wait take turns."""
        async with self._slice:
            yield


def begin(steps: Steps[T]) -> T:
    """The result of work that ends within a few steps; raises Unfinished, after which `Slices.finish` may go on."""
    try:
        next(steps)  # most work ends here, before the clock is read
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
    """Yields the items in order and removes each from the list, so that they are freed one by one."""
    items.reverse()
    while items:
        yield items.pop()


def freed(message: Any) -> Steps[None]:
    """Empty a message's long lists of structs, and the lists within them, some structs at a time.

    Freeing 100,000 structs at once takes 20 ms. Nothing else may refer to the lists.
    """
    for elements in _lists_of_structs(message):
        yield from emptied(elements)


def emptied(elements: list[Any]) -> Steps[None]:
    """Empty a list of structs as `freed` does; up to `_FREED_AT_ONCE` may stay, and are freed with the list."""
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
    """The number of structs in this one, itself included; counting stops above `_FREED_AT_ONCE`."""
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
