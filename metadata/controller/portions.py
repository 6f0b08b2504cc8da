"""Splits large requests into portions, if their elements succeed or fail independently.

A decision blocks the event loop until its records are appended. One decision on 10,000 topics would take half a second.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from metadata.controller.decision import Decision
from metadata.image import MetadataImage

A = TypeVar("A")
T = TypeVar("T")

# Partitions or resources per decision, which takes about 5 ms of CPU time.
PORTION_SIZE = 64


def in_portions(
    things: Sequence[A], name: Callable[[A], Hashable], size: Callable[[A], int] = lambda _: 1
) -> Iterator[Sequence[A]]:
    """Split `things` in order into portions of one or more things, of PORTION_SIZE at most.

    A larger thing is a portion of its own. Things with repeated names are all in the last portion, because a decision
    refuses the repeated names that it sees.
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


def topics_in_portions(named: Iterable[tuple[str, Sequence[A]]]) -> Iterator[list[tuple[str, Sequence[A]]]]:
    """Split partitions by topic in order into one or more portions, each of PORTION_SIZE partitions at most.

    A topic with more partitions is split into several pieces. Portions are made lazily.
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


def decide_on(
    decide: Callable[[MetadataImage, Sequence[A]], Decision[list[T]]], portion: Sequence[A], image: MetadataImage
) -> Decision[list[T]]:
    """Decide one portion."""
    return decide(image, portion)
