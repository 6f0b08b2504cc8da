"""Prints the sizes of packages, and the small modules with their importers: `python -m tests.support.small_modules`.

The totals come first. With a package, such as `broker/storage`, only that package is printed. A module has an importer
in the product code if it is imported there at any level of nesting; tests are left out.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from tests.support.source_code import PACKAGES, Module, imported_module, imports, is_within, read_modules

SMALL_BELOW: Final = 60


@attrs.frozen
class PackageSize:
    """The number of files and lines of a package with all that it contains.

    `small` is the number of modules below `SMALL_BELOW` lines, without `__init__.py`.
    """

    files: int
    lines: int
    small: int
    small_with_one_importer: int


def importers(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """The sorted names of the modules that import each module."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for imported in imports(module):
            found[imported_module(imported, modules)].add(module.name)
    return {name: sorted(found[name] - {name}) for name in modules}


def small_modules(modules: Iterable[Module]) -> list[Module]:
    return [module for module in modules if not module.is_package and _lines(module) < SMALL_BELOW]


def size_of(modules: Iterable[Module], users: Mapping[str, Sequence[str]]) -> PackageSize:
    """The size of a package that has these modules. `users` maps each module to its importers."""
    inside = list(modules)
    small = small_modules(inside)
    return PackageSize(
        files=len(inside),
        lines=sum(map(_lines, inside)),
        small=len(small),
        small_with_one_importer=sum(len(users[module.name]) == 1 for module in small),
    )


def report(modules: Mapping[str, Module], package: str = "") -> str:
    """The text that the command prints: sizes, then the small modules."""
    users = importers(modules)
    names = [package] if package else [*PACKAGES, *_second_level(modules)]
    rows = [(name, size_of(_within(modules, name), users)) for name in names]
    if not package:
        rows.insert(0, ("total", size_of(modules.values(), users)))
    lines = [f"{'':24}{'files':>7}{'lines':>8}{'small':>7}{'small, one importer':>21}"]
    lines += [
        f"{name:24}{size.files:7}{size.lines:8}{size.small:7}{size.small_with_one_importer:21}" for name, size in rows
    ]
    lines += ["", f"modules below {SMALL_BELOW} lines, and their importers"]
    lines += [
        f"{module.name} {_lines(module)}: {', '.join(users[module.name]) or 'none'}"
        for module in small_modules(_within(modules, package))
    ]
    return "\n".join(lines)


def _within(modules: Mapping[str, Module], package: str) -> list[Module]:
    return [module for name, module in sorted(modules.items()) if not package or is_within(name, package)]


def _second_level(modules: Mapping[str, Module]) -> list[str]:
    """The packages that are directly in one of `PACKAGES`."""
    return sorted(name for name, module in modules.items() if module.is_package and name.count(".") == 1)


def _lines(module: Module) -> int:
    return module.text.count("\n")


if __name__ == "__main__":
    print(report(read_modules(), "".join(sys.argv[1:2]).strip("/").replace("/", ".")))
