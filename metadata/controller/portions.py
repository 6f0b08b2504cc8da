"""Large requests, taken apart: things that succeed or fail each for itself are decided on some at a time.

A decision holds the event loop until its records are appended. 10,000 topics in one would hold it for half a second.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

A = TypeVar("A")

# What one decision is about, in partitions or resources: some 5 ms, and more where others compete for the CPU.
PORTION_SIZE = 64


def in_portions(
    things: Sequence[A], name: Callable[[A], Hashable], size: Callable[[A], int] = lambda _: 1
) -> Iterator[Sequence[A]]:
    """Portions of `things`, in their order, each of at least one and of PORTION_SIZE at most where things are small.

    Where there are several portions, all that are named more than once are in the last one: they are refused for that,
    and have to meet.
    """
    if len(things) <= 1 or sum(map(size, things)) <= PORTION_SIZE:
        yield things
        return
    times = Counter(map(name, things))
    portion: list[A] = []
    portion_size = 0
    for thing in things:
        if times[name(thing)] > 1:
            continue
        thing_size = size(thing)
        if portion and portion_size + thing_size > PORTION_SIZE:
            yield portion
            portion, portion_size = [], 0
        portion.append(thing)
        portion_size += thing_size
    repeated = [thing for thing in things if times[name(thing)] > 1]
    yield [*portion, *repeated]


def pieces_in_portions(named: Iterable[tuple[str, Sequence[A]]]) -> Iterator[list[tuple[str, Sequence[A]]]]:
    """At least one portion of partitions by topic, in their order, each of PORTION_SIZE partitions at most.

    A topic with more partitions comes in several pieces. Each portion is made when it is asked for.
    """
    portion: list[tuple[str, Sequence[A]]] = []
    portion_size = 0
    for name, members in named:
        for first in range(0, max(len(members), 1), PORTION_SIZE):
            piece = members[first : first + PORTION_SIZE]
            piece_size = max(len(piece), 1)
            if portion and portion_size + piece_size > PORTION_SIZE:
                yield portion
                portion, portion_size = [], 0
            portion.append((name, piece))
            portion_size += piece_size
    yield portion
