"""`python -m jepsen sim --application module:function`: runs seeds of an application, or one seed again."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from jepsen.simulation.applications.replay import CHOICE, Choice
from jepsen.simulation.applications.simulate import SimulationFailed, simulate

# Arguments of `simulate` by the options of the command that an application itself takes.
OPTIONS: Final[Mapping[str, str]] = MappingProxyType({"time": "seconds", "faults": "faults", "nodes": "nodes"})
_ALL_FAULTS: Final = "all"
_NO_FAULTS: Final = "none"


def run_application(reference: str, seeds: Sequence[int], jobs: int, given: Mapping[str, object]) -> int:
    """Run seeds of `module:function`. Returns the exit status, which is 0 if all of them have passed.

    The function is an application, with the options of the command that are `given`, or it calls `simulate`, with any
    seeds and its own options. Raises SystemExit if it is neither, and for options that do not apply.
    """
    function = _function(reference)
    is_application = inspect.iscoroutinefunction(function)
    if given and not is_application:
        names = ", ".join(f"--{name}" for name in given)
        raise SystemExit(f"{names}: {reference} calls simulate, whose arguments say that; change them there")
    reports: list[object] = []
    options = "".join(
        f" --{name} {value:g}" if name == "time" else f" --{name} {value}" for name, value in given.items()
    )
    command = partial("python -m jepsen sim --application {}{} --seed {}".format, reference, options)
    token = CHOICE.set(Choice(seeds, jobs, command, reports.append))
    try:
        if is_application:
            simulate(function, **_arguments(given))
        else:
            function()
    except SimulationFailed as failed:
        print(failed)
        return 1
    except (TypeError, ValueError) as error:
        if not is_application:
            raise
        raise SystemExit(str(error)) from None
    finally:
        CHOICE.reset(token)
    if not reports:
        raise SystemExit(f"{reference} has not called jepsen.testing.simulate")
    print(*reports, sep="\n")
    return 0


def _arguments(given: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of `simulate` for these options. Raises SystemExit."""
    arguments: dict[str, Any] = {OPTIONS[name]: value for name, value in given.items()}
    if (nodes := arguments.get("nodes")) is not None:
        if not nodes.isdecimal():
            raise SystemExit(f"--nodes is the number of nodes of an application's cluster, not {nodes!r}")
        arguments["nodes"] = int(nodes)
    if (names := arguments.pop("faults", _ALL_FAULTS)) != _ALL_FAULTS:
        arguments["faults"] = () if names == _NO_FAULTS else names.split(",")
    return arguments


def _function(reference: str) -> Callable[..., Any]:
    sys.path.insert(0, os.getcwd())
    module_name, _, name = reference.partition(":")
    try:
        function: Callable[..., Any] | None = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise SystemExit(f"{reference} cannot be imported: {error}") from None
    if callable(function):
        return function
    raise SystemExit(f"{reference} is no function; write module:function")
