"""How Kafka's tools call the levels of metadata.version."""

from collections.abc import Mapping
from typing import Final

# The name of each metadata.version that is supported, as Kafka's tools take and show it.
RELEASES: Final[Mapping[int, str]] = {25: "4.0-IV3"}


def release_level(release: str) -> int | None:
    """The metadata.version of a release: by its whole name, or `4.0` for the last of that release; None if unknown."""
    levels = [level for level, name in RELEASES.items() if release in (name, name.partition("-")[0])]
    return max(levels, default=None)
