"""The arguments of `kraft start`, read without the command framework.

A node's process lives for months, so neither its start nor its memory should pay for the tools beside it. The forms
that scripts and service managers use are read here. Everything else (help, a mistake) goes to the grammar, which
defines the command and reads these forms in the same way.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


class StartArguments(NamedTuple):
    """`properties` is the path of a server.properties file, `overrides` are `key=value` texts.

    `log_level` is one of LOG_LEVELS, `log_format` one of LOG_FORMATS.
    """

    properties: str | None = None
    overrides: tuple[str, ...] = ()
    stop_at_eof: bool = False
    log_level: str = "info"
    log_format: str = "text"


_VALUES: Final = {"--log-level": LOG_LEVELS, "--log-format": LOG_FORMATS}


def read_start_arguments(argv: Sequence[str]) -> StartArguments | None:
    """The arguments after `start`; None if only the grammar can tell what they mean."""
    properties: str | None = None
    overrides: list[str] = []
    chosen = {"--log-level": "info", "--log-format": "text"}
    stop_at_eof = False
    remaining = iter(argv)
    for argument in remaining:
        option, has_value, value = argument.partition("=")
        if option == "--override" or option in _VALUES:
            given = value if has_value else next(remaining, None)
            if given is None or given not in _VALUES.get(option, (given,)):
                return None
            if option == "--override":
                overrides.append(given)
            else:
                chosen[option] = given
        elif argument == "--stop-at-eof":
            stop_at_eof = True
        elif argument.startswith("-") or properties is not None:
            return None
        else:
            properties = argument
    return StartArguments(properties, tuple(overrides), stop_at_eof, chosen["--log-level"], chosen["--log-format"])
