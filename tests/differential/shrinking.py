"""Makes a failing sequence smaller: fewer steps, and pauses before all that remain."""

from collections.abc import Awaitable, Callable, Sequence

import attrs

from tests.differential.sequences import Step

Indexes = tuple[int, ...]


@attrs.frozen
class Shrunk:
    """The steps that are left of a sequence, and whether each is paused."""

    kept: Indexes
    is_paused: bool


def selected(steps: Sequence[Step], shrunk: Shrunk) -> list[Step]:
    kept = [steps[index] for index in shrunk.kept]
    return [attrs.evolve(each, is_paused=True) for each in kept] if shrunk.is_paused else kept


async def shrink(steps: Sequence[Step], fails: Callable[[Sequence[Step]], Awaitable[bool]]) -> Shrunk:
    """The smallest part of the sequence that was found to fail. Removes halves, quarters, ... and then single steps."""
    kept: Indexes = tuple(range(len(steps)))
    paused = Shrunk(kept, is_paused=True)
    is_paused = await fails(selected(steps, paused))
    size = max(1, len(kept) // 2)
    while size:
        at = 0
        removed = False
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            if rest and await fails(selected(steps, Shrunk(rest, is_paused))):
                kept, removed = rest, True
            else:
                at += size
        size = size if removed and size == 1 else size // 2
    return Shrunk(kept, is_paused)
