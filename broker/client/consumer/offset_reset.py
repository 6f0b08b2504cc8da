"""`auto.offset.reset`: where a consumer starts in a partition without a valid position (KIP-1106)."""

import re
from decimal import Decimal
from typing import Final

import attrs

from broker.client.arguments.check import shown
from broker.client.errors import ConfigError

# Timestamps with a meaning of their own in ListOffsets.
EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1

_BY_DURATION: Final = "by_duration:"
_FORMS: Final = "earliest, latest, none or by_duration:<ISO 8601 duration>, such as by_duration:P1DT12H"
# Durations in the format of java.time.Duration: days, hours, minutes and seconds. 18 digits exceed any 64-bit time.
_DURATION: Final = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>[+-]?\d{1,18})D)?"
    r"(?P<time>T(?:(?P<hours>[+-]?\d{1,18})H)?(?:(?P<minutes>[+-]?\d{1,18})M)?(?:(?P<seconds>[+-]?\d{1,18}(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


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
    found = _DURATION.fullmatch(value.removeprefix(_BY_DURATION))
    amounts = {} if found is None else {unit: found[unit] for unit in _UNIT_MS if found[unit] is not None}
    if found is None or not amounts or found["time"] in ("T", "t"):
        raise ConfigError(f"{key} must be {_FORMS}, not {shown(value)}")
    total = int(sum(Decimal(amount.replace(",", ".")) * _UNIT_MS[unit] for unit, amount in amounts.items()))
    if found["sign"] == "-":
        total = -total
    if total < 0:
        raise ConfigError(f"{key} must not be a negative duration, as {shown(value)} is")
    return total
