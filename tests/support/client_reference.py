"""The reference of the client library, docs/client-reference.md and docs/client-reference/, made from its source.

It has a page for each section, and one with all names and keys. `make docs` writes it.

Signatures, fields and their docstrings are read from syntax trees, so they look as in the source on every Python.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, TypeAlias

import broker.client
from tests.support.client_config_reference import config_reference
from tests.support.source_code import Module, read_modules

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LINE_LENGTH: Final = 100
_FACES: Final = ("blocking", "on_loop", "awaited", "awaited_on_loop")
_ENVIRONMENT: Final = "environment"
_SPECIAL_METHODS: Final = ("__init__", "__call__")

# The sections by the names of their pages: the heading, and the modules whose public names the section contains. Errors
# have a section of their own, and classes of Admin that have only fields another.
_SECTIONS: Final = {
    "producer": ("Producer", ("broker.client.producer",)),
    "consumer": ("Consumer", ("broker.client.consumer",)),
    "share-consumer": ("ShareConsumer", ("broker.client.share_consumer",)),
    "admin": ("Admin", ("broker.client.admin",)),
    "admin-values": (
        "Values that Admin takes and returns",
        ("broker.client.admin", "broker.client.results", "metadata.protocol.enums"),
    ),
    "asyncio": ("Clients for asyncio", ("broker.client.aio",)),
    "blocking": ("Blocking clients", ("broker.client.blocking",)),
    "serializers": ("Serializers", ("broker.client.serializers",)),
    "values": (
        "Values that several clients take and return",
        ("broker.client.types", "broker.client.metadata_cache", "broker.wire.records", "metadata.protocol.errors"),
    ),
    "requests": ("Requests and responses", ("broker.client.connection", "broker.client.payloads")),
}
_ADMIN, _ADMIN_VALUES = "admin", "admin-values"
_FIRST: Final = tuple(
    f"{face}{kind}" for face in ("", "Asyncio", "Sync") for kind in ("Producer", "Consumer", "ShareConsumer", "Admin")
)
# Classes that applications construct, in addition to those that have only fields.
_CONSTRUCTED: Final = (*_FIRST, "StringDeserializer", "StringSerializer")
_KEYS_END: Final = ("Config", "Settings")
_HEAD: Final = """# The client library's reference

Every public name of `broker.client`, made from its signatures and docstrings by `make docs`; a test holds it to that.
[The tour](client.md) shows the library by example, [the migration table](migration.md) beside other clients.

"""
_BACK: Final = "[All names](../client-reference.md)\n\n"
_OTHER_HEAD: Final = "Signatures above have these types too. Each is imported from the module in parentheses.\n\n"


def reference() -> dict[str, str]:
    """The pages, by their paths below docs."""
    source = _Source()
    errors = [name for name in broker.client.__all__ if _is_error(name)]
    sections = {
        section: (heading, _names_of(source, section, packages, errors))
        for section, (heading, packages) in _SECTIONS.items()
    }
    pages, index = dict[str, str](), list[str]()
    for section, (heading, names) in {**sections, "errors": ("Errors", errors)}.items():
        place = f"client-reference/{section}.md"
        pages[place] = _page([f"# {heading}\n\n", _BACK, *_described(source, names)])
        links = ", ".join(f"[{name}]({place}#{name.lower()})" for name in names)
        index.append(f"- [{heading}]({place}): {links}.\n")
    place = "client-reference/types.md"
    pages[place] = _page(
        ["# Types in signatures\n\n", _BACK, _OTHER_HEAD, *_described(source, sorted(source.other_types))]
    )
    index.append(f"- [Types in signatures]({place}) that are not public names.\n\n")
    return {"client-reference.md": _page([_HEAD, *index, config_reference()]), **pages}


def _names_of(source: "_Source", section: str, packages: tuple[str, ...], errors: list[str]) -> list[str]:
    names = [name for name in broker.client.__all__ if name not in errors and source.is_in(name, packages)]
    if section in (_ADMIN, _ADMIN_VALUES):
        names = [name for name in names if name.startswith("Admin") == (section == _ADMIN)]
    return sorted(names, key=lambda name: (name not in _FIRST, name))


def _described(source: "_Source", names: list[str]) -> Iterator[str]:
    for name in names:
        yield from source.describe(name)


def _page(parts: list[str]) -> str:
    return "".join(parts).rstrip("\n") + "\n"


class _Source:
    """The library's modules. `other_types` are classes in the described signatures that are not public names."""

    def __init__(self) -> None:
        library = ("broker.client", "broker.wire", "metadata.protocol")
        modules = {name: module for name, module in read_modules().items() if name.startswith(library)}
        self._definitions: dict[str, dict[str, ast.stmt]] = {}
        self._aliases: dict[str, ast.expr] = {}
        for name, module in modules.items():
            self._read(name, module)
        self.other_types: dict[str, str] = {}

    def _read(self, name: str, module: Module) -> None:
        definitions = self._definitions[name] = {}
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                definitions[statement.name] = statement
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                definitions[statement.target.id] = statement
                if ast.unparse(statement.annotation) == "TypeAlias" and name.startswith("broker.client"):
                    assert statement.value is not None, "an alias has a value"
                    self._aliases[statement.target.id] = _without_bounds(statement.value)

    def is_in(self, name: str, packages: tuple[str, ...]) -> bool:
        module = self._module_of(name)
        return any(module == package or module.startswith(f"{package}.") for package in packages)

    def describe(self, name: str) -> Iterator[str]:
        module = self._module_of(name)
        definition = self._definitions[module][name]
        origin = "" if name in broker.client.__all__ else f" (`{module}`)"
        if isinstance(definition, ast.ClassDef):
            yield f"## {name}{origin}\n\n{_prose(ast.get_docstring(definition))}\n\n"
            yield from self._class(module, definition)
        elif isinstance(definition, ast.FunctionDef):
            yield f"## {name}{origin}\n\n{self._signature(module, definition)}"
            yield f"{_prose(ast.get_docstring(definition))}\n\n"
        else:
            assert isinstance(definition, ast.AnnAssign), name
            assert definition.value is not None, name
            yield f"## {name}{origin}\n\n    {name} = {self._text(module, definition.value)}\n\n"
            yield f"{_prose(self._docstring_below(module, definition))}\n\n"

    def _class(self, module: str, definition: ast.ClassDef) -> Iterator[str]:
        found = getattr(import_module(module), definition.name)
        if definition.name.endswith(_KEYS_END):
            yield "Its keys are [there](../client-reference.md#config-keys).\n\n"
            return
        if issubclass(found, Exception):
            yield from self._error(definition)
            return
        members = [
            (base.__module__, statement)
            for base in found.__mro__
            if (own := self._definitions.get(base.__module__, {}).get(base.__name__)) is not None
            for statement in getattr(own, "body", ())
        ]
        yield from self._values(members)
        seen: set[str] = set()
        for origin, member in members:
            if isinstance(member, _Function) and member.name not in seen:
                seen.add(member.name)
                yield from self._method(origin, definition.name, member)
        faces = [statement for _, statement in members if _is_face(statement)]
        if faces:
            names = ", ".join(f"`{ast.unparse(face.targets[0])}`" for face in faces if isinstance(face, ast.Assign))
            face = "Sync" if definition.name.startswith("Sync") else "Asyncio"
            original = definition.name.removeprefix(face)
            how = "block" if face == "Sync" else "are awaited"
            yield f"These methods have the parameters of `{original}`'s and {how}: {names}.\n\n"

    def _error(self, definition: ast.ClassDef) -> Iterator[str]:
        bases = ", ".join(f"`{ast.unparse(base)}`" for base in definition.bases)
        attributes = [
            f"`{target.attr}`"
            for function in definition.body
            if isinstance(function, ast.FunctionDef) and function.name == "__init__"
            for statement in function.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and target.attr != "args"
        ]
        yield f"Base class: {bases}."
        yield f" Attributes: {', '.join(attributes)}.\n\n" if attributes else "\n\n"

    def _values(self, members: list[tuple[str, ast.stmt]]) -> Iterator[str]:
        """A table of the fields, or the members of an enumeration."""
        fields = [
            (ast.unparse(field.target), self._text(origin, field.annotation), self._default(origin, field.value))
            for origin, field in members
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_")
        ]
        if fields:
            yield "| field | type | default |\n|---|---|---|\n"
            yield from (f"| `{name}` | `{_cell(kind)}` | {default} |\n" for name, kind, default in fields)
            yield "\n"
        values = [
            ast.unparse(member.targets[0])
            for _, member in members
            if isinstance(member, ast.Assign) and not _is_face(member)
        ]
        if shown := ", ".join(f"`{value}`" for value in values if not value.startswith("_")):
            yield f"Values: {shown}.\n\n"

    def _default(self, module: str, value: ast.expr | None) -> str:
        if value is None:
            return ""
        if isinstance(value, ast.Call):  # a field with a factory, or with a default and something else
            found = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
            shown = found.get("default") or (f"{found['factory']}()" if "factory" in found else "")
            return f"`{_cell(shown)}`" if shown else ""
        return f"`{_cell(self._text(module, value))}`"

    def _method(self, module: str, owner: str, method: _Function) -> Iterator[str]:
        name = method.name
        if name.startswith("_") and name not in _SPECIAL_METHODS:
            return
        if name == "__init__" and owner not in _CONSTRUCTED:
            return
        text = _prose(ast.get_docstring(method))
        if "property" in (ast.unparse(decorator) for decorator in method.decorator_list):
            assert method.returns is not None, (owner, name)
            yield f"**`{owner}.{name}`**: `{self._text(module, method.returns)}`. {text}".rstrip() + "\n\n"
            return
        if name not in _SPECIAL_METHODS:
            yield f"### {owner}.{name}\n\n"
        yield self._signature(module, method, owner)
        yield f"{text}\n\n" if text else ""

    def _signature(self, module: str, function: _Function, owner: str = "") -> str:
        """The signature as a block of code, without `self` and without parameters that only simulations pass."""
        arguments = function.args
        shown: list[str] = []
        positional = [*arguments.posonlyargs, *arguments.args]
        missing = len(positional) - len(arguments.defaults)
        for index, argument in enumerate(positional):
            if index or argument.arg not in ("self", "cls"):
                default = arguments.defaults[index - missing] if index >= missing else None
                shown.append(self._parameter(module, argument, default))
            if argument in arguments.posonlyargs[-1:] and shown:
                shown.append("/")
        if arguments.kwonlyargs:
            shown.append("*")
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if argument.arg != _ENVIRONMENT:
                shown.append(self._parameter(module, argument, default))
        if arguments.kwarg is not None:
            shown.append(f"**{self._parameter(module, arguments.kwarg, None)}")
        name = owner if function.name == "__init__" else function.name
        begin = f"{'await ' if isinstance(function, ast.AsyncFunctionDef) else ''}{name}("
        has_result = name != owner and function.returns is not None
        returns = f" -> {self._text(module, _unquoted(function.returns))}" if has_result else ""
        line = f"{begin}{', '.join(shown)}){returns}"
        if len(line) > _LINE_LENGTH:
            line = "\n    ".join([begin, *(f"    {each}," for each in shown), f"){returns}"])
        return f"    {line}\n\n"

    def _parameter(self, module: str, argument: ast.arg, default: ast.expr | None) -> str:
        kind = "" if argument.annotation is None else f": {self._text(module, argument.annotation)}"
        return f"{argument.arg}{kind}{'' if default is None else f' = {self._text(module, default)}'}"

    def _text(self, module: str, expression: ast.expr) -> str:
        """The expression's source. Aliases and constants that are not public names are replaced by their values."""
        expanded = _Expansion(self, module).visit(ast.parse(ast.unparse(expression), mode="eval").body)
        return ast.unparse(expanded)

    def expand(self, module: str, name: ast.Name) -> ast.expr:
        if name.id in broker.client.__all__:
            return name
        if name.id in self._aliases:
            alias = _Expansion(self, module).visit(ast.parse(ast.unparse(self._aliases[name.id]), mode="eval").body)
            assert isinstance(alias, ast.expr), "an alias is an expression"
            return alias
        found = getattr(import_module(module), name.id, None)
        if isinstance(found, int) and not isinstance(found, bool) and name.id.isupper():
            return ast.Constant(found)
        origin = getattr(found, "__module__", "")
        if inspect.isclass(found) and not name.id.endswith(_KEYS_END) and name.id in self._definitions.get(origin, {}):
            self.other_types[name.id] = origin
        return name

    def _module_of(self, name: str) -> str:
        if name in self.other_types:
            return self.other_types[name]
        found = getattr(broker.client, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            return str(found.__module__)
        return next(module for module, names in self._definitions.items() if name in names and ".client" in module)

    def _docstring_below(self, module: str, definition: ast.stmt) -> str:
        """The string after an assignment, which Sphinx reads as its docstring."""
        text = ast.parse(inspect.getsource(import_module(module))).body
        after = next(index for index, each in enumerate(text) if each.lineno == definition.lineno) + 1
        statement = text[after] if after < len(text) else None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return inspect.cleandoc(str(statement.value.value))
        return ""


class _Expansion(ast.NodeTransformer):
    def __init__(self, source: _Source, module: str) -> None:
        self._source = source
        self._module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._source.expand(self._module, node)


def _without_bounds(alias: ast.expr) -> ast.expr:
    """The type of `Annotated[type, ...]`, whose bounds the calls check."""
    if isinstance(alias, ast.Subscript) and ast.unparse(alias.value) == "Annotated":
        assert isinstance(alias.slice, ast.Tuple), "a type and a bound"
        return alias.slice.elts[0]
    return alias


def _is_error(name: str) -> bool:
    found: Any = getattr(broker.client, name)
    return inspect.isclass(found) and issubclass(found, Exception)


def _unquoted(annotation: ast.expr) -> ast.expr:
    """Remove the quotes of an annotation that names a class defined later."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def _is_face(statement: ast.stmt) -> bool:
    """True for `name = blocking(Client.name)` and the like."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and ast.unparse(statement.value.func) in _FACES
    )


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown: each paragraph on one line, with indented blocks unchanged."""
    paragraphs = (docstring or "").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith("    ") else " ".join(paragraph.split()) for paragraph in paragraphs
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
