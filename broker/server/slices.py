"""Work of more than a few milliseconds, as steps that are taken in slices, between which other tasks run.

`broker.server.scheduler` takes the steps.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import trio

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
W = TypeVar("W")

# Work that yields between steps of about 100 us, and returns its result. It reads the state as of its beginning, from
# an image or a copy, and holds no object that may change between two steps.
Steps: TypeAlias = Generator[None, None, T]

SLICE_S: Final = 0.002
# Ends a slice in the simulator, where no time passes.
SLICE_STEPS: Final = 256
# Steps taken before work counts as long. Most requests take fewer.
FIRST_STEPS: Final = 4
# The number of small items in one step.
STEP_ITEMS: Final = 32
# The number of structs that are freed in one step.
_FREED_AT_ONCE: Final = 256


class Finished:
    """The result of work that has ended, returned by `advance`."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


def advance(work: Generator[W, Any, Any], steps_max: int, resume: Callable[[], W] | None = None) -> W | Finished | None:
    """Take steps of work until it waits for something, has ended, or has used up its slice; then it yields None.

    The first step is taken by `resume`, `next(work)` by default. Its time counts: it may be as long as a slice.
    """
    slice_end = trio.current_time() + SLICE_S
    try:
        reached = next(work) if resume is None else resume()
        if reached is None and trio.current_time() < slice_end:
            for _ in range(steps_max - 1):
                reached = next(work)
                if reached is not None or trio.current_time() >= slice_end:
                    break
    except StopIteration as stopped:
        return Finished(stopped.value)
    return reached


def run(steps: Steps[T]) -> T:
    """The result of work that is known to be short: takes all of its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            result: T = stopped.value
            return result


def each(make: Callable[[A], B], items: Iterable[A], step_items: int = STEP_ITEMS) -> Steps[list[B]]:
    """The results of `make` for each item, with a step after every `step_items`."""
    made: list[B] = []
    for item in items:
        made.append(make(item))
        if not len(made) % step_items:
            yield
    return made


def filtered(keeps: Callable[[A], bool], items: Iterable[A]) -> Steps[list[A]]:
    """The items for which `keeps` is true, with a step after every STEP_ITEMS."""
    kept: list[A] = []
    for number, item in enumerate(items, 1):
        if keeps(item):
            kept.append(item)
        if not number % STEP_ITEMS:
            yield
    return kept


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
