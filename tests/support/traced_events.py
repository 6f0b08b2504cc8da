"""Finds every event that the source emits from its syntax: the place, the kind and the fields."""

import ast
from collections.abc import Iterator, Mapping

import attrs

from tests.support.source_code import Module

# Names under which a tracer is called: `env.trace(...)`, `self._trace(...)`.
_TRACERS = ("trace", "_trace", "_tracer")


@attrs.frozen
class EmittedEvent:
    """One call. `fields` are the names of its keyword arguments."""

    module: str
    line: int
    kind: str
    fields: frozenset[str]


@attrs.frozen
class Wrapper:
    """A method that passes its `kind` to a tracer, with `fields` of its own and those of its caller."""

    module: str
    line: int
    name: str
    fields: frozenset[str]


def emitted_events(modules: Mapping[str, Module]) -> tuple[list[EmittedEvent], list[Wrapper], list[str]]:
    """The events, the wrappers, and the remaining calls of tracers, as text."""
    trees = {name: module.tree for name, module in modules.items() if "trace" in module.text}
    wrappers = [wrapper for name, tree in trees.items() for wrapper in _wrappers(name, tree)]
    names = {*_TRACERS, *(wrapper.name for wrapper in wrappers if wrapper.name != "__call__")}
    passing = {(wrapper.module, wrapper.line) for wrapper in wrappers}
    events: list[EmittedEvent] = []
    unclear: list[str] = []
    for name, tree in trees.items():
        for call in _calls(tree, names):
            kind = _literal_kind(call)
            has_rest = any(keyword.arg is None for keyword in call.keywords)
            if kind is not None and not has_rest:
                fields = frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None)
                events.append(EmittedEvent(name, call.lineno, kind, fields))
            elif (name, call.lineno) not in passing and (kind is not None or has_rest):
                unclear.append(f"{name}:{call.lineno} {ast.unparse(call)}")
    return events, wrappers, unclear


def _calls(tree: ast.Module, names: set[str]) -> Iterator[ast.Call]:
    """Calls of a tracer. In a class that is itself a tracer (`__call__`), also calls of `self`."""
    calls_self = {
        node for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) and _is_tracer(cls) for node in ast.walk(cls)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in names or (name == "self" and node in calls_self):
                yield node


def _wrappers(module: str, tree: ast.Module) -> Iterator[Wrapper]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or _called(call) not in _TRACERS or not call.args:
                continue
            first = call.args[0]
            if isinstance(first, ast.Name) and first.id == "kind":
                fields = frozenset(keyword.arg for keyword in call.keywords if keyword.arg is not None)
                yield Wrapper(module, call.lineno, function.name, fields)


def _is_tracer(cls: ast.ClassDef) -> bool:
    return any(
        isinstance(member, ast.FunctionDef)
        and member.name == "__call__"
        and any(argument.arg == "kind" for argument in (*member.args.posonlyargs, *member.args.args))
        for member in cls.body
    )


def _called(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def _literal_kind(call: ast.Call) -> str | None:
    """The text that names the kind: the first argument, or the second one if the first is an object."""
    for argument in call.args[:2]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
    return None
