"""Imports the public names of `broker.cli.grammar` when they are first used. A test compares them with the package."""

from importlib import import_module
from typing import Any, Final

EXPORTS: Final = {
    "ClusterCommand": "command",
    "Command": "command",
    "Invocation": "command",
    "CommandFailed": "failures",
    "Exit": "failures",
    "WrongSettings": "failures",
    "CommandGroup": "groups",
    "kraft": "root",
    "run": "root",
    "ClusterSettings": "settings",
}


def __getattr__(name: str) -> Any:
    """Import and return a public name of the package. Raises AttributeError."""
    if name not in EXPORTS:
        raise AttributeError(f"module 'broker.cli.grammar' has no attribute {name!r}")
    return getattr(import_module(f"broker.cli.grammar.{EXPORTS[name]}"), name)
