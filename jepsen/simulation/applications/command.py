"""`python -m jepsen sim --application module:function`: runs seeds of an application, or one seed again."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jepsen.simulation.applications.replay import CHOICE, Choice
from jepsen.simulation.applications.simulate import SimulationFailed, simulate


def run_application(reference: str, seeds: Sequence[int], jobs: int) -> int:
    """Run seeds of `module:function`. Returns the exit status, which is 0 if all of them have passed.

    The function calls `simulate`, with any seeds, or it is an application itself. Raises SystemExit if it is neither.
    """
    function = _function(reference)
    reports: list[object] = []
    command = partial("python -m jepsen sim --application {} --seed {}".format, reference)
    token = CHOICE.set(Choice(seeds, jobs, command, reports.append))
    try:
        if inspect.iscoroutinefunction(function):
            simulate(function)
        else:
            function()
    except SimulationFailed as failed:
        print(failed)
        return 1
    finally:
        CHOICE.reset(token)
    if not reports:
        raise SystemExit(f"{reference} has not called jepsen.testing.simulate")
    print(*reports, sep="\n")
    return 0


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
