"""Durations in ISO 8601, as Kafka's configs and tools have them: those of java.time.Duration."""

import re
from decimal import Decimal
from typing import Final

# Days, hours, minutes and seconds. 18 digits exceed any 64-bit time.
_DURATION: Final = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>[+-]?\d{1,18})D)?"
    r"(?P<time>T(?:(?P<hours>[+-]?\d{1,18})H)?(?:(?P<minutes>[+-]?\d{1,18})M)?(?:(?P<seconds>[+-]?\d{1,18}(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def duration_ms(text: str) -> int | None:
    """The duration in ms, such as 3,600,000 of "PT1H"; it may be negative. None if the text is no duration."""
    found = _DURATION.fullmatch(text)
    amounts = {} if found is None else {unit: found[unit] for unit in _UNIT_MS if found[unit] is not None}
    if found is None or not amounts or found["time"] in ("T", "t"):
        return None
    total = int(sum(Decimal(amount.replace(",", ".")) * _UNIT_MS[unit] for unit, amount in amounts.items()))
    return -total if found["sign"] == "-" else total
