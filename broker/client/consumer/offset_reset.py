"""`auto.offset.reset`: where a consumer starts in a partition without a valid position (KIP-1106)."""

from typing import Final

import attrs

from broker.client.arguments.check import shown
from broker.client.errors import ConfigError
from metadata.protocol.durations import duration_ms

# Timestamps with a meaning of their own in ListOffsets.
EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1

_BY_DURATION: Final = "by_duration:"
_FORMS: Final = "earliest, latest, none or by_duration:<ISO 8601 duration>, such as by_duration:P1DT12H"


@attrs.frozen
class OffsetReset:
    """A target: a special timestamp of ListOffsets, or the records of the last `duration_ms`."""

    timestamp: int = LATEST_TIMESTAMP
    duration_ms: int | None = None

    def timestamp_at(self, now_ms: int) -> int:
        """The timestamp to look up. Offsets are reset to the first record that is as new, or to the end."""
        return self.timestamp if self.duration_ms is None else max(now_ms - self.duration_ms, 0)


EARLIEST: Final = OffsetReset(EARLIEST_TIMESTAMP)
LATEST: Final = OffsetReset(LATEST_TIMESTAMP)
_BY_NAME: Final = {"none": None, "earliest": EARLIEST, "latest": LATEST}


def read_offset_reset(key: str, value: object) -> OffsetReset | None:
    """Reads a value of `auto.offset.reset`; None is the policy `none`. Raises ConfigError."""
    if value is None:
        return None
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, str) and value.startswith(_BY_DURATION):
        return OffsetReset(duration_ms=_duration_ms(key, value))
    raise ConfigError(f"{key} must be {_FORMS}, not {shown(value)}")


def _duration_ms(key: str, value: str) -> int:
    total = duration_ms(value.removeprefix(_BY_DURATION))
    if total is None:
        raise ConfigError(f"{key} must be {_FORMS}, not {shown(value)}")
    if total < 0:
        raise ConfigError(f"{key} must not be a negative duration, as {shown(value)} is")
    return total
