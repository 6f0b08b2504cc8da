"""The project's source code as syntax trees: modules by name, what each imports, and how large it is."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
PACKAGES = ("kraft", "metadata", "broker", "jepsen", "benchmarks", "pyspark_kraft")


@attrs.frozen
class Module:
    """One source file. `name` is dotted; a package's `__init__.py` bears the package's name."""

    name: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


@attrs.frozen
class Import:
    """One name that a module imports. `name` is empty for `import module`; `bound_name` is what it is called there."""

    module: str
    name: str
    bound_name: str
    line: int
    type_checking: bool
    module_level: bool

    @property
    def top_level(self) -> str:
        return self.module.partition(".")[0]


@attrs.frozen
class Function:
    name: str
    lines: int


def read_modules() -> dict[str, Module]:
    """Every module of the project's packages by name."""
    modules = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            modules[name] = Module(name, path.read_text(), is_package)
    return modules


def imports(module: Module) -> list[Import]:
    """Everything that a module imports, wherever it does."""
    return list(_imports(module.tree, type_checking=False, module_level=True))


def _imports(node: ast.AST, *, type_checking: bool, module_level: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                bound_name = alias.asname or alias.name.partition(".")[0]
                yield Import(alias.name, "", bound_name, child.lineno, type_checking, module_level)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None, "imports are absolute, as ruff's TID252 holds"
            for alias in child.names:
                bound_name = alias.asname or alias.name
                yield Import(child.module, alias.name, bound_name, child.lineno, type_checking, module_level)
        elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _imports(child, type_checking=True, module_level=module_level)
        else:
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, type_checking=type_checking, module_level=module_level and not inner)


def imported_module(imported: Import, modules: Mapping[str, Module]) -> str:
    """The module that an import means: `from package import module` means the module."""
    full = f"{imported.module}.{imported.name}"
    return full if full in modules else imported.module


def is_within(module: str, prefix: str) -> bool:
    """Whether a dotted name is `prefix` or lies in it."""
    return module == prefix or module.startswith(prefix + ".")


def functions(module: Module) -> list[Function]:
    """Functions and methods with their length, docstrings apart."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                assert first.end_lineno is not None
                lines -= first.end_lineno - first.lineno + 1
            found.append(Function(node.name, lines))
    return found
