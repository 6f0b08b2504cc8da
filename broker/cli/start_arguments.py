"""The arguments of `kraft start`, read without the command framework.

A node's process lives for months, so neither its start nor its memory should pay for the tools beside it. The forms
that scripts and service managers use are read here. Everything else (help, a mistake) goes to the grammar, which
defines the command and reads these forms in the same way.
"""

from collections.abc import Sequence
from typing import NamedTuple


class StartArguments(NamedTuple):
    """`properties` is the path of a server.properties file, `overrides` are `key=value` texts."""

    properties: str | None = None
    overrides: tuple[str, ...] = ()
    stop_at_eof: bool = False


def read_start_arguments(argv: Sequence[str]) -> StartArguments | None:
    """The arguments after `start`; None if only the grammar can tell what they mean."""
    properties: str | None = None
    overrides: list[str] = []
    stop_at_eof = False
    remaining = iter(argv)
    for argument in remaining:
        if argument == "--override":
            override = next(remaining, None)
            if override is None:
                return None
            overrides.append(override)
        elif argument.startswith("--override="):
            overrides.append(argument.removeprefix("--override="))
        elif argument == "--stop-at-eof":
            stop_at_eof = True
        elif argument.startswith("-") or properties is not None:
            return None
        else:
            properties = argument
    return StartArguments(properties, tuple(overrides), stop_at_eof)
