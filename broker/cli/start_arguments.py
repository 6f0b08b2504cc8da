"""Parses the arguments of `kraft start` without the command framework.

A node runs for months, so that neither its start nor its memory should pay for the other commands. This module parses
the forms that scripts and service managers use. The grammar handles everything else, such as help and mistakes. The
grammar defines the command, and parses these forms in the same way.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


class StartArguments(NamedTuple):
    """`properties` is the path of a server.properties file, `overrides` are `key=value` texts.

    `brokers` is the value of `--brokers`, which stands for a last override of `kraft.brokers`. `log_level` is one of
    LOG_LEVELS, `log_format` one of LOG_FORMATS.
    """

    properties: str | None = None
    overrides: tuple[str, ...] = ()
    stop_at_eof: bool = False
    log_level: str = "info"
    log_format: str = "text"
    brokers: str | None = None

    @property
    def settings(self) -> tuple[str, ...]:
        """All overrides."""
        return self.overrides if self.brokers is None else (*self.overrides, f"kraft.brokers={self.brokers}")


_VALUES: Final = {"--log-level": LOG_LEVELS, "--log-format": LOG_FORMATS}


def read_start_arguments(argv: Sequence[str]) -> StartArguments | None:
    """Parse the arguments after `start`. Returns None if they need the grammar."""
    properties: str | None = None
    brokers: str | None = None
    overrides: list[str] = []
    chosen = {"--log-level": "info", "--log-format": "text"}
    stop_at_eof = False
    remaining = iter(argv)
    for argument in remaining:
        option, has_value, value = argument.partition("=")
        if option in ("--override", "--brokers") or option in _VALUES:
            given = value if has_value else next(remaining, None)
            if given is None or given not in _VALUES.get(option, (given,)):
                return None
            if option == "--override":
                overrides.append(given)
            elif option == "--brokers":
                brokers = given
            else:
                chosen[option] = given
        elif argument == "--stop-at-eof":
            stop_at_eof = True
        elif argument.startswith("-") or properties is not None:
            return None
        else:
            properties = argument
    return StartArguments(
        properties, tuple(overrides), stop_at_eof, chosen["--log-level"], chosen["--log-format"], brokers
    )
