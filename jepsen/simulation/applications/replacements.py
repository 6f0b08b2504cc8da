"""Replaces functions within a block, also where modules have imported them by their names."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

# New functions and classes, by the module or class that has the old one, and its name there.
Replacements: TypeAlias = Mapping[tuple[Any, str], Any]

# Modules that never run as a part of an application, or that need the real functions to carry it out.
_NOT_OF_APPLICATIONS: Final = sys.stdlib_module_names | {"broker", "jepsen", "kraft", "metadata", "trio"}


@contextmanager
def replaced(new: Replacements) -> Iterator[None]:
    """Replace functions and classes within the block.

    A module that has done `from time import sleep` gets the new function under its own name, too. A reference in
    another place, such as a default argument, stays.
    """
    changed: list[tuple[Any, str, Any]] = []
    try:
        by_identity = {id(getattr(owner, name)): value for (owner, name), value in new.items()}
        for (owner, name), value in new.items():
            changed.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        for module, name, old in _imported(by_identity):
            changed.append((module, name, old))
            setattr(module, name, by_identity[id(old)])
        yield
    finally:
        for owner, name, old in reversed(changed):
            setattr(owner, name, old)


def _imported(wanted: Mapping[int, object]) -> list[tuple[Any, str, object]]:
    """The modules that have imported one of these objects, which are known by their identity, and its name there."""
    return [
        (module, name, value)
        for module_name, module in list(sys.modules.items())
        if module_name.partition(".")[0] not in _NOT_OF_APPLICATIONS
        for name, value in list(getattr(module, "__dict__", {}).items())
        if id(value) in wanted
    ]
