"""The feature levels this node understands (KIP-584). One level each: no other has ever been in a release."""

from collections.abc import Mapping
from typing import Final

from metadata.controller import DEFAULT_FEATURES
from metadata.records import VersionRange

SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = {
    name: VersionRange(level, level) for name, level in DEFAULT_FEATURES.items()
}

# The name of each metadata.version that is supported, as Kafka's tools take and show it.
RELEASES: Final[Mapping[int, str]] = {25: "4.0-IV3"}


def release_level(release: str) -> int | None:
    """The metadata.version of a release: by its whole name, or `4.0` for the last of that release; None if unknown."""
    levels = [level for level, name in RELEASES.items() if release in (name, name.partition("-")[0])]
    return max(levels, default=None)
