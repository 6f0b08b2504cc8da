"""The seeds that a person wants to run again, and the line that runs a seed again."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Final

import attrs

SEED_VARIABLE: Final = "SIMULATE_SEED"
_TEST_VARIABLE: Final = "PYTEST_CURRENT_TEST"


@attrs.frozen
class Choice:
    """The seeds and jobs that a command has chosen. `command` is the line that runs a seed again."""

    seeds: Sequence[int] | None
    jobs: int | None
    command: Callable[[int], str]
    report: Callable[[object], None]


# The choice of `python -m jepsen sim --application` for the calls of `simulate` below it.
CHOICE: Final[ContextVar[Choice | None]] = ContextVar("chosen_seeds", default=None)


def chosen_seeds(seeds: Sequence[int]) -> Sequence[int]:
    """The seeds that the command or the environment variable names, or else `seeds`. Raises ValueError."""
    choice = CHOICE.get()
    if choice is not None:
        return choice.seeds or seeds
    text = os.environ.get(SEED_VARIABLE)
    if text is None:
        return seeds
    try:
        return [int(text)]
    except ValueError:
        raise ValueError(f"{SEED_VARIABLE} has to be a number, not {text!r}") from None


def replay_command(seed: int) -> str:
    """A line for a shell that runs this seed of the present call of `simulate` again."""
    choice = CHOICE.get()
    if choice is not None:
        return choice.command(seed)
    test = os.environ.get(_TEST_VARIABLE)
    if test is not None:
        command = ["python", "-m", "pytest", test.rpartition(" (")[0]]
    else:
        command = ["python", *sys.argv]
    hashes = os.environ.get("PYTHONHASHSEED")
    variables = [f"{SEED_VARIABLE}={seed}"] + ([] if hashes is None else [f"PYTHONHASHSEED={hashes}"])
    return " ".join([*variables, *map(shlex.quote, command)])
