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
"""

import inspect
from collections.abc import Callable
from enum import Enum, auto
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_origin

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen

__all__ = ["complete", "define", "frozen"]

# Members of the class that the declaration made, which belong to that class alone.
_NOT_KEPT: Final = frozenset({"__dict__", "__weakref__"})
_OF_EACH_CLASS: Final = ("__init__", "__match_args__", "__getstate__", "__setstate__", "__attrs_attrs__")
# The options of a class, which attrs 25.4 and later keep in it. They are right if all members are generated.
_PROPERTIES: Final = ("__attrs_props__",) if hasattr(attrs, "inspect") else ()
_COMPARISONS: Final = ("__eq__", "__ne__", "__hash__")
_TEXT: Final = ("__repr__", *_PROPERTIES)
_NOT_TAKEN: Final = frozenset(
    {"__slots__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
)
# With other options, or own methods of these names, attrs makes the class at once.
_OPTIONS: Final = frozenset({"eq", "kw_only", "repr"})
_OWN: Final = frozenset({"__init__", "__eq__", "__ne__", "__hash__", "__setattr__", "__getstate__", "__setstate__"})


def complete(module: ModuleType) -> None:
    """Let attrs make the constructors of all classes that a module declares, for a process whose forks will use them.

    Forks generate the comparisons and texts that they use: few classes have any of them used.
    """
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and cls.__module__ == module.__name__ and "__attrs_attrs__" in vars(cls):
            attrs.fields(cls)


class _Group(Enum):
    """Members that are generated together: `CONSTRUCTOR` has all that are in no other group."""

    CONSTRUCTOR = auto()
    COMPARISONS = auto()
    TEXT = auto()


class _Declaration:
    """A class as it was declared, and the options with which `make` of attrs makes it. `made` stands for it."""

    def __init__(self, make: Callable[..., Any], cls: type, options: dict[str, Any]) -> None:
        self.make, self.cls, self.options = make, cls, options
        self.made: type = cls

    def complete(self, group: _Group) -> None:
        """Let attrs generate a group of members. Threads may do so at the same time: each has the same result."""
        for base in self.cls.__bases__:  # attrs asks base classes whether they are frozen
            if attrs.has(base):
                attrs.fields(base)
        options = {**self.options}
        for name, generated_by in (("eq", _Group.COMPARISONS), ("repr", _Group.TEXT)):
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


class _LateMember:
    """Stands in a class for a member that attrs will generate: a method, or data of the class such as its fields."""

    __slots__ = ("_name", "declaration", "group")

    def __init__(self, name: str, declaration: _Declaration) -> None:
        self._name, self.declaration, self.group = name, declaration, _group_of(name)

    def __get__(self, instance: object, owner: type) -> Any:
        made = self.declaration.made
        if vars(made)[self._name] is self:
            self.declaration.complete(self.group)
        member = vars(made)[self._name]
        bind = getattr(type(member), "__get__", None)
        return member if bind is None else bind(member, instance, owner)


def _declare(make: Callable[..., Any], cls: type, options: dict[str, Any], *, is_frozen: bool) -> type:
    members = vars(cls)
    if not _OPTIONS.issuperset(options) or not _OWN.isdisjoint(members) or _mentions_itself(members):
        return make(cls, **options)  # type: ignore[no-any-return]
    names = [name for name, kind in inspect.get_annotations(cls).items() if not _is_class_variable(kind)]
    taken = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    has_weak = any("__weakref__" in vars(base) for base in cls.__mro__[1:])
    slots = [name for name in names if name not in taken] + ([] if has_weak else ["__weakref__"])
    late = [*_OF_EACH_CLASS, *_PROPERTIES]
    late += ["__repr__"] if options.get("repr") is not False and "__repr__" not in members else []
    namespace = {name: member for name, member in members.items() if name not in names and name not in _NOT_KEPT}
    if options.get("eq") is not False:
        late = [*late, "__eq__", "__ne__", *(["__hash__"] if is_frozen else [])]
        namespace["__hash__"] = None
    declaration = _Declaration(make, cls, options)
    for name in late:
        namespace[name] = _LateMember(name, declaration)
    declaration.made = type(cls)(cls.__name__, cls.__bases__, {**namespace, "__slots__": tuple(slots)})
    return declaration.made


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
