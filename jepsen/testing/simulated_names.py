"""Imports the names of `jepsen.simulation.applications` when they are first used: the simulator imports whole nodes."""

from importlib import import_module
from typing import Any, Final

_SIMULATOR: Final = "jepsen.simulation.applications"
_NAMES: Final = ("Machine", "SimulatedCluster", "SimulatedRun", "SimulationFailed", "SimulationReport", "simulate")


def __getattr__(name: str) -> Any:
    """A name of `jepsen.testing` that the simulator defines. Raises AttributeError."""
    if name not in _NAMES:
        raise AttributeError(f"module 'jepsen.testing' has no attribute {name!r}")
    return getattr(import_module(_SIMULATOR), name)
