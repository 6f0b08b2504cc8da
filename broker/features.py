"""The feature levels this node understands (KIP-584). One level each: no other has ever been in a release."""

from collections.abc import Mapping
from typing import Final

from metadata.controller import DEFAULT_FEATURES
from metadata.records import VersionRange

SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = {
    name: VersionRange(level, level) for name, level in DEFAULT_FEATURES.items()
}
