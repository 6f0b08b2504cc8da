"""Imports the public names of `broker.client` when they are first used.

The package's `__init__.py` lists the names once, as imports that type checkers read. This module reads that list from
the source of the file, so that there is no second list. Reading takes about a millisecond, once per process.
"""

import ast
from functools import cache
from importlib import import_module
from pkgutil import get_data
from typing import Any, Final

_PACKAGE: Final = "broker.client"


def __getattr__(name: str) -> Any:
    """Import and return a public name of the package. Raises AttributeError."""
    if name == "__all__":
        return __dir__()
    if name.startswith("_") or name not in _modules():
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
    return getattr(import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return sorted(_modules())


@cache
def _modules() -> dict[str, str]:
    """The module of each public name."""
    source = get_data(_PACKAGE, "__init__.py")
    assert source is not None, "a package that comes as source, also in an archive"
    return {
        alias.name: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if alias.asname is not None and not alias.name.startswith("_")
    }
