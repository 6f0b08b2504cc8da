"""The portions in which handlers deal with requests about many groups."""

from collections.abc import Iterator
from typing import Final

# Groups that are asked about at once. A request about more is answered in slices.
FEW_GROUPS: Final = 16
# Groups of a large request whose outcomes are awaited together. Outcomes of 18,000 groups take 5 ms to gather, and as
# long to be freed.
PORTION_GROUPS: Final = 256


def portions(group_ids: list[str], size: int = PORTION_GROUPS) -> Iterator[list[str]]:
    """The groups of a large request, some at a time."""
    for first in range(0, len(group_ids), size):
        yield group_ids[first : first + size]
