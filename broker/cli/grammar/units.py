"""Sizes, durations and times as people write and read them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SIZE_LETTERS: Final = "kmgtp"
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)")
_DURATION_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


INT64_MAX: Final = 2**63 - 1


def is_digits(text: str) -> bool:
    """True for a number of ASCII digits that is not longer than one of 64 bits; Python takes others, as `\u0663`."""
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= INT64_MAX


def _bounded(number: float, text: str) -> int:
    """The number without its fraction. Raises ValueError if it has more than 64 bits."""
    if number > INT64_MAX:
        raise ValueError(f"{text!r} is too large")
    return int(number)


def parse_size(text: str) -> int:
    """Bytes: `1048576`, `1MiB` and `1m` are the same; `1MB` is a million. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or a unit as in 64KiB, 10MB or 1g")
    number, letter, binary = found[1], found[2].lower(), found[3]
    is_decimal = bool(letter) and not binary and found[0].lower().endswith("b")
    power = _SIZE_LETTERS.index(letter) + 1 if letter else 0
    return _bounded(float(number) * (1000 if is_decimal else 1024) ** power, text)


def parse_number(text: str) -> float:
    """A number with or without a fraction. Raises ValueError, also for what only Python takes, as `1_000`."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def format_number(number: float) -> str:
    """Format a number so that `parse_number` reads the same: `1048576`, `12.5`, `1e+300`."""
    return repr(number).removesuffix(".0")


def format_size(size: int) -> str:
    """Format a size as `1.5 GiB`. A negative size is unknown."""
    if size < 0:
        return "unknown"
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def parse_duration_ms(text: str) -> int:
    """Milliseconds: `1h30m`, `250ms`, `7d`; a bare number is seconds. Raises ValueError."""
    stripped = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", stripped):
        return _bounded(float(stripped) * 1000, text)
    parts = list(_DURATION_PART.finditer(stripped))
    if not parts or "".join(part[0] for part in parts) != stripped:
        raise ValueError(f"{text!r} is not a duration; write for example 500ms, 30s, 5m, 1h30m or 7d")
    return _bounded(sum(float(part[1]) * _DURATION_MS[part[2]] for part in parts), text)


def format_count(number: int, noun: str, *, has_separators: bool = False) -> str:
    """A number of things: `1 record`, `2 records`; with separators `2,000 records`."""
    digits = f"{number:,}" if has_separators else str(number)
    return f"{digits} {noun}" if number == 1 else f"{digits} {noun}s"


def format_ids(ids: Iterable[int]) -> str:
    """Ids of brokers or nodes: `1,2,3`, or `-` for none."""
    return ",".join(map(str, ids)) or "-"


def format_duration_ms(duration_ms: int) -> str:
    """Format a duration in its two largest units, such as `2h 5m`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, duration_ms = divmod(duration_ms, _DURATION_MS[unit])
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0")) or parts[0]


def format_time_ms(time_ms: int | None) -> str:
    """A time in UTC, to the millisecond; `-` for no time."""
    if time_ms is None or time_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03}"


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970.

    `2026-01-31`, `2026-01-31T08:00` (UTC unless it names a zone), `1769846400000`, or how long ago, as `-2h`.
    Raises ValueError.
    """
    stripped = text.strip()
    if stripped.startswith("-"):
        return max(0, now_ms - parse_duration_ms(stripped[1:]))
    if stripped == "now":
        return now_ms
    if is_digits(stripped):
        return int(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time; write for example 2026-01-31T08:00, milliseconds since 1970, or -2h"
        ) from error
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # Kafka's protocol gives negative times other meanings: -1 is the end of a partition.
    return max(0, (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
