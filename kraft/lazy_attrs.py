"""attrs classes whose methods attrs generates when they are first used: `define` and `frozen`.

    @lazy_attrs.frozen(kw_only=True)
    class Vote:
        epoch: int
        candidate: int = attrs.field(default=-1)

They are those of attrs, with the same options and results, also for `attrs.fields` and `attrs.evolve`. A node declares
300 such classes at every start and uses half of them. attrs compiles the methods of a class when it is declared, which
took a third of the CPU time of a start.

A class gets its slots at once. In place of each method stands a descriptor. Its first use lets attrs make a class of
the same declaration, from which the method is taken. Comparisons and the text of objects are generated apart from the
constructor, because most classes are used without them: a constructor alone takes two fifths of the time. Fields need
annotations, as for mypy.

The first objects of a class need no constructor of attrs, which takes 300 µs to generate: `_FirstObjects` assigns their
fields in 5 µs. Two thirds of the classes that a start uses have one or two objects, such as the parts of a node.
"""

import inspect
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, get_origin

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen

__all__ = ["complete", "define", "field_metadata", "frozen"]

# Members of the class that the declaration made, which belong to that class alone.
_NOT_KEPT: Final = frozenset({"__dict__", "__weakref__"})
_OF_EACH_CLASS: Final = ("__init__", "__match_args__", "__getstate__", "__setstate__", "__attrs_attrs__")
# The options of a class, which attrs 25.4 and later keep in it. They are right if all members are generated.
_PROPERTIES: Final = ("__attrs_props__",) if hasattr(attrs, "inspect") else ()
_ORDER: Final = ("__lt__", "__le__", "__gt__", "__ge__")
_COMPARISONS: Final = ("__eq__", "__ne__", "__hash__", *_ORDER)
_TEXT: Final = ("__repr__", *_PROPERTIES)
_NOT_TAKEN: Final = frozenset(
    {"__slots__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
)
# The objects of a class that are made before attrs generates its constructor.
_FIRST_OBJECTS: Final = 8
_FIELD: Final = type(attrs.field())
# The options of fields that a constructor only assigns.
_USUAL: Final = {"_validator": None, "converter": None, "init": True, "alias": None, "on_setattr": None}
# With other options, or own methods of these names, attrs makes the class at once.
_OPTIONS: Final = frozenset({"eq", "kw_only", "order", "repr"})
_OWN: Final = frozenset({"__init__", "__eq__", "__ne__", "__hash__", "__setattr__", "__getstate__", "__setstate__"})


def complete(module: ModuleType) -> None:
    """Let attrs make the constructors of all classes that a module declares, for a process whose forks will use them.

    Forks generate the comparisons and texts that they use: few classes have any of them used.
    """
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and cls.__module__ == module.__name__ and "__attrs_attrs__" in vars(cls):
            attrs.fields(cls)


def field_metadata(cls: type) -> dict[str, Mapping[Any, Any]]:
    """The metadata of the fields of a class by their names, as in `attrs.fields`, which makes a constructor."""
    late = vars(cls).get("__attrs_attrs__")
    if not isinstance(late, _LateMember) or _inherits_fields(cls):
        return {field.name: field.metadata for field in attrs.fields(cls)}
    given: dict[str, Any] = {name: vars(late.declaration.cls).get(name) for name in _field_names(cls)}
    return {name: each.metadata if type(each) is _FIELD else {} for name, each in given.items()}


class _Group(Enum):
    """Members that are generated together: `CONSTRUCTOR` has all that are in no other group."""

    CONSTRUCTOR = auto()
    COMPARISONS = auto()
    TEXT = auto()


# The options of the members that are not generated with the constructor.
_GENERATED_BY: Final = {"eq": _Group.COMPARISONS, "order": _Group.COMPARISONS, "repr": _Group.TEXT}


class _Declaration:
    """A class as it was declared, and the options with which `make` of attrs makes it. `made` stands for it."""

    def __init__(self, make: Callable[..., Any], cls: type, options: dict[str, Any], *, is_frozen: bool) -> None:
        self.make, self.cls, self.options, self.is_frozen = make, cls, options, is_frozen
        self.made: type = cls
        self._first_objects: _FirstObjects | None = None
        self._count = 0

    def construct(self, instance: object, /, *arguments: Any, **named: Any) -> None:
        """Initialize an object, as `__init__` of the class before attrs has generated one. Raises TypeError as that."""
        if self._count == 0:
            self._first_objects = _FirstObjects.of(self)
        self._count += 1
        first = self._first_objects if self._count <= _FIRST_OBJECTS else None
        if first is None or not first.construct(instance, arguments, named):
            self._first_objects = None
            self.made.__init__(instance, *arguments, **named)  # type: ignore[misc]

    def complete(self, group: _Group) -> None:
        """Let attrs generate a group of members. Threads may do so at the same time: each has the same result."""
        for base in self.cls.__bases__:  # attrs asks base classes whether they are frozen
            if attrs.has(base):
                attrs.fields(base)
        options = {**self.options}
        for name, generated_by in _GENERATED_BY.items():
            if group is not generated_by:
                options[name] = False
        twin, kept = self.make(self.cls, **options), vars(self.made)
        slots = {*kept["__slots__"], "__weakref__"}
        assert slots == {*vars(twin)["__slots__"], "__weakref__"}, f"{self.cls.__qualname__} has other fields for attrs"
        own = {name for name in vars(self.cls) if name not in _NOT_KEPT}
        generated = {
            name: member
            for name, member in vars(twin).items()
            if name not in own | slots | _NOT_TAKEN and name[:2] == "__" and _group_of(name) is group
        }
        first = generated.pop("__init__", None)  # at last: it says that the group is complete
        for name, member in generated.items():
            setattr(self.made, name, member)
        if first is not None:
            self.made.__init__ = first  # type: ignore[misc]


def _group_of(member: str) -> _Group:
    if member in _COMPARISONS:
        return _Group.COMPARISONS
    return _Group.TEXT if member in _TEXT else _Group.CONSTRUCTOR


class _FirstObjects:
    """Makes objects of a class whose constructor only assigns its fields.

    `fields` maps each parameter of the constructor to the name of a field and its default, which is NOTHING of attrs
    for a required one. `positional` has the parameters that can be given by position.
    """

    def __init__(self, fields: dict[str, tuple[str, Any]], positional: list[str], assign: Callable[..., None]) -> None:
        self._fields, self._positional, self._assign = fields, positional, assign
        self._required = {parameter for parameter, (_, default) in fields.items() if default is attrs.NOTHING}

    @classmethod
    def of(cls, declaration: _Declaration) -> Self | None:
        """Returns None for a class that inherits fields, or has some that are converted, validated or computed."""
        declared, fields, positional = declaration.cls, {}, []
        if (
            _inherits_fields(declared)
            or issubclass(declared, BaseException)
            or declared.__setattr__ is not object.__setattr__
        ):
            return None
        is_keyword_only = bool(declaration.options.get("kw_only"))
        for name in _field_names(declared):
            given = vars(declared).get(name, attrs.NOTHING)
            options = given if type(given) is _FIELD else attrs.field(default=given)
            default = options._default
            needs_object = type(default) is attrs.Factory and default.takes_self
            if needs_object or any(getattr(options, option) != usual for option, usual in _USUAL.items()):
                return None
            fields[name.lstrip("_")] = (name, default)
            if not (is_keyword_only or options.kw_only):
                positional.append(name.lstrip("_"))
        return cls(fields, positional, object.__setattr__ if declaration.is_frozen else setattr)

    def construct(self, instance: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Initialize an object. Returns False, and does nothing, if these are not arguments of the constructor."""
        given = {**dict(zip(self._positional, arguments, strict=False)), **named}
        if len(given) != len(arguments) + len(named) or not self._required <= given.keys() <= self._fields.keys():
            return False
        for parameter, (name, default) in self._fields.items():
            value = given.get(parameter, default)
            if value is default and type(value) is attrs.Factory:
                value = value.factory()
            self._assign(instance, name, value)
        if hasattr(instance, "__attrs_post_init__"):
            instance.__attrs_post_init__()
        return True


class _LateMember:
    """Stands in a class for a member that attrs will generate: a method, or data of the class such as its fields."""

    __slots__ = ("_name", "declaration", "group")

    def __init__(self, name: str, declaration: _Declaration) -> None:
        self._name, self.declaration, self.group = name, declaration, _group_of(name)

    def __get__(self, instance: object, owner: type) -> Any:
        made = self.declaration.made
        if vars(made)[self._name] is self:
            if self._name == "__init__" and instance is not None:
                return partial(self.declaration.construct, instance)
            self.declaration.complete(self.group)
        member = vars(made)[self._name]
        bind = getattr(type(member), "__get__", None)
        return member if bind is None else bind(member, instance, owner)


def _declare(make: Callable[..., Any], cls: type, options: dict[str, Any], *, is_frozen: bool) -> type:
    members = vars(cls)
    if not _OPTIONS.issuperset(options) or not _OWN.isdisjoint(members) or _mentions_itself(members):
        return make(cls, **options)  # type: ignore[no-any-return]
    names = _field_names(cls)
    taken = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    has_weak = any("__weakref__" in vars(base) for base in cls.__mro__[1:])
    slots = [name for name in names if name not in taken] + ([] if has_weak else ["__weakref__"])
    late = [*_OF_EACH_CLASS, *_PROPERTIES]
    late += ["__repr__"] if options.get("repr") is not False and "__repr__" not in members else []
    namespace = {name: member for name, member in members.items() if name not in names and name not in _NOT_KEPT}
    if options.get("eq") is not False:
        late += ["__eq__", "__ne__", *(["__hash__"] if is_frozen else []), *(_ORDER if options.get("order") else [])]
        namespace["__hash__"] = None
    late += ["__setattr__", "__delattr__"] if is_frozen else []
    declaration = _Declaration(make, cls, options, is_frozen=is_frozen)
    for name in late:
        namespace[name] = _LateMember(name, declaration)
    declaration.made = type(cls)(cls.__name__, cls.__bases__, {**namespace, "__slots__": tuple(slots)})
    return declaration.made


def _inherits_fields(cls: type) -> bool:
    return any("__attrs_attrs__" in vars(base) for base in cls.__mro__[1:])


def _field_names(cls: type) -> list[str]:
    """The names of the fields that a class itself declares."""
    return [name for name, kind in inspect.get_annotations(cls).items() if not _is_class_variable(kind)]


def _is_class_variable(kind: object) -> bool:
    if isinstance(kind, str):
        return kind.partition("[")[0].endswith("ClassVar")
    return kind is ClassVar or get_origin(kind) is ClassVar


def _mentions_itself(members: Any) -> bool:
    """True if a method uses `super()` or `__class__`, whose class attrs replaces."""
    return any(isinstance(each, FunctionType) and "__class__" in each.__code__.co_freevars for each in members.values())


if not TYPE_CHECKING:

    def define(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda declared: _declare(attrs.define, declared, options, is_frozen=False)
        return _declare(attrs.define, cls, options, is_frozen=False)

    def frozen(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda declared: _declare(attrs.frozen, declared, options, is_frozen=True)
        return _declare(attrs.frozen, cls, options, is_frozen=True)
