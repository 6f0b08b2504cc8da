"""Options as Spark passes them: texts under names whose letters may be in any case."""

import re
from collections.abc import Mapping
from typing import Final

_DURATION: Final = re.compile(r"(-?[0-9]{1,20})\s*(us|ms|s|m|min|h|d)?", re.IGNORECASE)
_MS_PER_UNIT: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class IllegalOption(ValueError):
    """An option that is missing, does not go with another, or has a value that cannot be used."""


class OptionMap:
    """Looks options up without regard to the case of their names, and reads their values.

    Error messages spell names as the caller does, since Spark passes them in lower case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """The value as it was given, or None if the option is not set."""
        return self._values.get(name.lower())

    def names(self) -> list[str]:
        """The names of all options, in lower case."""
        return list(self._values)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, by the rest of their names in lower case."""
        return {name[len(prefix) :]: value for name, value in self._values.items() if name.startswith(prefix)}

    def flag(self, name: str, *, default: bool) -> bool:
        """Reads true or false, in any case of letters. Raises IllegalOption for other values."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise IllegalOption(f"{name} must be true or false, not {value!r}")
        return value.lower() == "true"

    def positive(self, name: str, *, at_most: int = _INT64_MAX) -> int | None:
        """A whole number above 0, or None if the option is not set. Raises IllegalOption."""
        number = self.whole_number(name, at_most=at_most)
        if number is not None and number <= 0:
            raise IllegalOption(f"{name} must be positive")
        return number

    def not_negative(self, name: str) -> int | None:
        """A whole number from 0 on, or None if the option is not set. Raises IllegalOption."""
        number = self.whole_number(name)
        if number is not None and number < 0:
            raise IllegalOption(f"{name} must not be negative")
        return number

    def positive_int32(self, name: str) -> int | None:
        """Like `positive`, for options of 32 bits."""
        return self.positive(name, at_most=_INT32_MAX)

    def whole_number(self, name: str, *, at_most: int = _INT64_MAX) -> int | None:
        """A whole number, or None if the option is not set. Raises IllegalOption."""
        value = self.text(name)
        return None if value is None else read_whole_number(name, value, at_most=at_most)

    def duration_ms(self, name: str) -> int | None:
        """Milliseconds, from a number with one of Spark's units: us, ms, s, m, min, h, d; without one it is ms.

        None if the option is not set. Raises IllegalOption.
        """
        value = self.text(name)
        if value is None:
            return None
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise IllegalOption(
                f"{name} must be a time with a unit (us, ms, s, m, min, h, or d), as 50s or 250ms, not {value!r}"
            )
        number, unit = int(match[1]), (match[2] or "ms").lower()
        duration = number // 1_000 if unit == "us" else number * _MS_PER_UNIT[unit]
        if not 0 <= duration <= _INT64_MAX:
            raise IllegalOption(f"{name} must be a time from 0 on, not {value!r}")
        return duration


def read_whole_number(name: str, value: str, *, at_most: int = _INT64_MAX) -> int:
    """Reads an option's value as a whole number. Raises IllegalOption."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", value):
        raise IllegalOption(f"{name} must be a whole number, not {value!r}")
    number = int(value)
    if not -at_most - 1 <= number <= at_most:
        raise IllegalOption(f"{name} must be at most {at_most}, not {value}")
    return number
