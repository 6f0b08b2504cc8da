"""The architecture rules as functions of source code. Each returns the violations, as readable lines."""

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from tests.support.source_code import Module, imported_module, imports, is_within

# The modules that a pure package must not use: time, random numbers, and the operating system.
IMPURE = frozenset(
    {
        *(
            "trio",
            "asyncio",
            "threading",
            "multiprocessing",
            "concurrent",
            "subprocess",
            "signal",
            "select",
            "selectors",
        ),
        *("socket", "ssl", "time", "random", "secrets", "uuid", "os", "io", "pathlib", "shutil", "tempfile", "glob"),
        *("fcntl", "mmap", "ctypes"),
    }
)
# The modules that use the operating system other than through Env and Trio.
SYSTEM_MODULES = IMPURE - {"trio", "ssl", "io"}
# Functions of Trio and built-in functions that also use it.
SYSTEM_CALLS = (
    "open",
    "input",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "trio.Path",
    "trio.open_file",
    "trio.run_process",
    "trio.to_thread.run_sync",
    "trio.from_thread.run",
    "trio.from_thread.run_sync",
    "trio.lowlevel.spawn_system_task",
    "trio.lowlevel.start_thread_soon",
)
FORBIDDEN_NAMES = re.compile(r"(?:.*_)?(?:utils?|helpers?|common|misc)")

# The base classes of enumerations of numbers.
_NUMBERED = ("IntEnum", "OpenEnum")

_SETS = (ast.Set, ast.SetComp)
# Targets of assignments that may be sets.
_TARGETS = (ast.Name, ast.Attribute, ast.Subscript)
_SET_TYPES = ("set", "frozenset", "Set", "AbstractSet", "MutableSet")
# Functions whose result does not depend on the order of their argument.
_ORDERLESS = ("sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len", "Counter")
_ORDERED = ("list", "tuple", "iter", "enumerate", "next", "map", "filter", "zip", "reversed", "dict", "deque")
_MUTABLE_CALLS = ("list", "dict", "set", "bytearray", "deque", "defaultdict", "Counter", "OrderedDict", "array")
_MUTATORS = (
    *("append", "appendleft", "extend", "insert", "remove", "pop", "popleft", "popitem", "clear"),
    *("add", "discard", "update", "setdefault", "sort", "reverse"),
)


def broken_directions(modules: Mapping[str, Module], allowed: Mapping[str, Collection[str]]) -> list[str]:
    """Imports of project modules that the importing package's entry in `allowed` does not contain.

    The most specific entry counts, for the importer and for the imported module. Every package may import itself.
    """
    problems = []
    for module in modules.values():
        package = package_of(module.name, allowed)
        if package is None:
            problems.append(f"{module.name} belongs to no package")
            continue
        for imported in imports(module):
            target = imported_module(imported, modules)
            if target not in modules:
                continue
            target_package = package_of(target, allowed)
            if target_package != package and not any(is_within(target, prefix) for prefix in allowed[package]):
                problems.append(f"{module.name}:{imported.line} imports {target}, {package} must not")
    return problems


def package_of(module: str, packages: Iterable[str]) -> str | None:
    """The most specific of `packages` that contains a module, or None."""
    return max((package for package in packages if is_within(module, package)), key=len, default=None)


def impurities(module: Module) -> list[str]:
    """The impure uses of a module. Naming the type of a socket or of a random generator is permitted."""
    used = _used_names(module.nodes)
    return [
        f"{module.name}:{imported.line} uses {imported.module}"
        for imported in imports(module)
        if (imported.top_level in IMPURE or imported.module == "kraft.env") and imported.bound_name in used
    ]


def system_access(module: Module) -> set[str]:
    """The modules and functions with which a module uses the operating system other than through Env and Trio."""
    nodes = module.nodes
    used = _used_names(nodes)
    found = {
        imported.top_level
        for imported in imports(module)
        if imported.top_level in SYSTEM_MODULES and imported.bound_name in used
    }
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted_name(node)) in SYSTEM_CALLS:
            found.add(name)
    return found


def _used_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are used other than as types in annotations, by all nodes of a tree."""
    annotations: set[int] = set()
    for node in nodes:
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.expr):
                annotations.update(id(inner) for inner in ast.walk(annotation))
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in annotations}


def repeated_enumerations(modules: Iterable[Module]) -> list[str]:
    """Pairs of enumerations of numbers of which one has all members of the other: they enumerate the same things."""
    found = [
        (f"{module.name}.{each.name}", _members(each))
        for module in modules
        for each in _classes(module)
        if any(ast.unparse(base) in _NUMBERED for base in each.bases)
    ]
    return [
        f"{name} is {other}"
        for at, (name, members) in enumerate(found)
        for other, others in found[at + 1 :]
        if members and others and (members <= others or others <= members)
    ]


def repeated_exceptions(modules: Iterable[Module]) -> list[str]:
    """Names that exceptions of two modules have."""
    classes = [(module.name, each) for module in modules for each in _classes(module)]
    raised = {"BaseException"} | {name for name, value in vars(builtins).items() if _is_exception(value)}
    size = 0
    while size != len(raised):  # until no class adds another one that is derived from it
        size = len(raised)
        raised |= {each.name for _, each in classes if any(ast.unparse(base) in raised for base in each.bases)}
    places: dict[str, list[str]] = {}
    for module, each in classes:
        if each.name in raised:
            places.setdefault(each.name, []).append(module)
    return [f"{name} is in {' and '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _classes(module: Module) -> Iterator[ast.ClassDef]:
    return (each for each in module.tree.body if isinstance(each, ast.ClassDef))


def _members(enumeration: ast.ClassDef) -> set[tuple[str, str]]:
    return {
        (ast.unparse(statement.targets[0]), ast.unparse(statement.value))
        for statement in enumeration.body
        if isinstance(statement, ast.Assign)
    }


def import_cycle(modules: Mapping[str, Module]) -> list[str]:
    """One cycle of imports, as the names along it; empty if there is none. Imports within functions, and those for mypy
    only, count like others.

    Importing a module also runs the packages that contain it. Those edges are left out, because packages re-export
    their modules.
    """
    graph = {
        module.name: [imported_module(imported, modules) for imported in imports(module)] for module in modules.values()
    }
    finished: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in finished:
            return []
        for target in graph.get(name, ()):
            if cycle := search(target, [*path, name]):
                return cycle
        finished.add(name)
        return []

    return next((cycle for name in graph if (cycle := search(name, []))), [])


def package_content(module: Module) -> list[str]:
    """The statements of an `__init__.py` besides a docstring, imports and `__all__`.

    Imports may differ between run time and type checking, for names that are imported at their first use.
    """
    body = [
        inner
        for node in module.tree.body
        for inner in ([*node.body, *node.orelse] if _is_for_type_checking(node) else [node])
    ]
    if ast.get_docstring(module.tree) is None:
        return [f"{module.name} has no docstring"]
    return [
        f"{module.name}:{node.lineno} has more than imports"
        for node in body[1:]
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    ]


def _is_for_type_checking(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def mutable_globals(module: Module) -> list[str]:
    """Module and class attributes that hold state.

    A list, dict or set may be a table: named as a constant (or `Final`), and never changed by a function. `global`
    always counts as state.
    """
    tree = module.tree
    tables: set[str] = set()
    problems = []
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for name, line, is_final in _mutable_assignments(scope):
            if is_final or name.isupper() or name == "__all__":
                tables.add(name)
            else:
                problems.append(f"{module.name}:{line} {name} is mutable, and no constant")
    for function in module.nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            problems += [f"{module.name}:{line} {what}" for line, what in _changes(function, tables)]
    return problems


def _mutable_assignments(scope: ast.AST) -> Iterator[tuple[str, int, bool]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Assign):
            targets, value, annotation = node.targets, node.value, ""
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value, annotation = [node.target], node.value, ast.unparse(node.annotation)
        else:
            continue
        if _is_mutable(value):
            for target in targets:
                yield _text(target), node.lineno, annotation.startswith("Final")


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and _last_name(value.func) in _MUTABLE_CALLS


def _changes(function: ast.AST, tables: Collection[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}"
        elif (changed := _changed(node)) is not None and _text(changed) in tables:
            assert isinstance(node, ast.expr)
            yield node.lineno, f"{ast.unparse(changed)} is changed"


def _changed(node: ast.AST) -> ast.expr | None:
    """The target of an item assignment, a deletion, or a call of a changing method."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        return node.func.value
    return None


def set_iterations(module: Module) -> list[str]:
    """Iterations over sets, as far as syntax shows them; their order differs between processes."""
    nodes = module.nodes
    sets = _known_sets(nodes)
    orderless = {
        id(argument)
        for node in nodes
        if isinstance(node, ast.Call) and _last_name(node.func) in _ORDERLESS
        for argument in node.args
    }
    problems = []
    for node in nodes:
        iterables: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            iterables = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) and id(node) not in orderless:
            iterables = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and (_last_name(node.func) in _ORDERED or _is_join(node)):
            if id(node) not in orderless:
                iterables = list(node.args)
        elif isinstance(node, ast.Starred):
            iterables = [node.value]
        problems += [
            f"{module.name}:{each.lineno} iterates over the set {ast.unparse(each)}"
            for each in iterables
            if _is_set(each, sets)
        ]
    return problems


def _known_sets(nodes: Iterable[ast.AST]) -> set[str]:
    """Names and attributes that are annotated as sets, or only ever assigned sets, in a tree of these nodes."""
    sets: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            (sets if _is_set_type(node.annotation) else others).add(node.arg)
        elif isinstance(node, ast.AnnAssign):
            (sets if _is_set_type(node.annotation) else others).add(_text(node.target))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                (sets if _is_set(node.value, ()) else others).add(_text(target))
    return sets - others


def _is_set(node: ast.expr, known: Collection[str]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, known) or (isinstance(node.op, ast.BitAnd) and _is_set(node.right, known))
    if isinstance(node, ast.Call):
        return _last_name(node.func) in ("set", "frozenset")
    return isinstance(node, _SETS) or (isinstance(node, _TARGETS) and _text(node) in known)


def _is_set_type(annotation: ast.expr) -> bool:
    text = _text(annotation).removeprefix("Final[")
    return re.split(r"\W", text, maxsplit=1)[0] in _SET_TYPES


def _is_join(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "join"


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else _text(function)


def _text(node: ast.expr) -> str:
    """The source of an expression. `ast.unparse` alone takes most of the time of these rules."""
    return _dotted_name(node) or ast.unparse(node)


def _dotted_name(node: ast.expr) -> str:
    """The source of a name with or without attributes; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        value = _dotted_name(node.value)
        return value and f"{value}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
