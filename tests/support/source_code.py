"""The project's source code as syntax trees: modules by name, their imports and their sizes."""

import ast
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
# The fields of statements that are lists of statements, or of the branches that have them.
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
PACKAGES = ("kraft", "metadata", "broker", "jepsen", "benchmarks", "pyspark_kraft")


@attrs.frozen
class Module:
    """One source file. `name` is dotted; the name of an `__init__.py` is that of its package."""

    name: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        """The syntax tree. It is the same object for all that ask."""
        return _nodes(self)[0]  # type: ignore[return-value]

    @property
    def nodes(self) -> Sequence[ast.AST]:
        """All nodes of the tree, as `ast.walk` finds them."""
        return _nodes(self)


@cache
def _nodes(module: Module) -> Sequence[ast.AST]:
    return tuple(ast.walk(ast.parse(module.text)))


@attrs.frozen
class Import:
    """One imported name. `name` is empty for `import module`; `bound_name` is its name in the importing module."""

    module: str
    name: str
    bound_name: str
    line: int

    @property
    def top_level(self) -> str:
        return self.module.partition(".")[0]


@attrs.frozen
class Function:
    name: str
    lines: int


def project_files(root: Path = ROOT) -> list[Path]:
    """The project's files, as paths below `root`: those in git's list or, without one, all that git does not ignore."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    # The list of a repository that has the tree within itself, and does not track it, is empty.
    return [Path(name) for name in listed.split("\0") if name] or sorted(_not_ignored(root))


def _not_ignored(root: Path) -> Iterator[Path]:
    lines = (root / ".gitignore").read_text().splitlines()
    patterns = [line.removesuffix("/") for line in lines if line and not line.startswith("#")]
    directories = [root]
    while directories:
        for path in directories.pop().iterdir():
            below = path.relative_to(root)
            if below.name == ".git" or any(_is_ignored(below, pattern) for pattern in patterns):
                continue
            if path.is_dir():
                directories.append(path)
            else:
                yield below


def _is_ignored(path: Path, pattern: str) -> bool:
    """True if a path below the root has this pattern of .gitignore; one with a slash means a path, others any name."""
    return fnmatch(f"/{path}", f"/{pattern.lstrip('/')}") if "/" in pattern else fnmatch(path.name, pattern)


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


@cache
def imports(module: Module) -> Sequence[Import]:
    """All imports of a module, at any level of nesting, and those for mypy only."""
    return tuple(_imports(module.tree))


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound_name = alias.asname or alias.name.partition(".")[0]
                yield Import(alias.name, "", bound_name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "imports are absolute, as ruff's TID252 holds"
            for alias in node.names:
                bound_name = alias.asname or alias.name
                yield Import(node.module, alias.name, bound_name, node.lineno)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module or a statement, and all statements within it. `ast.walk` takes four times as long, because it also
    visits expressions.
    """
    yield node
    for block in _BLOCKS:
        for child in getattr(node, block, ()):
            yield from statements(child)


def imported_module(imported: Import, modules: Mapping[str, Module]) -> str:
    """The imported module's name: `from package import module` imports the module."""
    full = f"{imported.module}.{imported.name}"
    return full if full in modules else imported.module


def is_within(module: str, prefix: str) -> bool:
    """True if a dotted name is `prefix` or a name below it."""
    return module == prefix or module.startswith(prefix + ".")


def functions(module: Module) -> list[Function]:
    """The functions and methods with their lengths, without docstrings."""
    found = []
    for node in statements(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                assert first.end_lineno is not None
                lines -= first.end_lineno - first.lineno + 1
            found.append(Function(node.name, lines))
    return found
