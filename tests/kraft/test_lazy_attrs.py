"""Classes of `kraft.lazy_attrs` beside the same classes of attrs."""

import copy
import inspect
import pickle
import weakref
from collections.abc import Callable
from threading import Barrier, Thread
from types import FunctionType
from typing import Any, ClassVar, Generic, TypeVar

import attrs
import pytest

from kraft import lazy_attrs

T = TypeVar("T")


@lazy_attrs.frozen(kw_only=True)
class Named:
    """A base class."""

    KIND: ClassVar[str] = "named"
    name: "str" = "none"
    extras: list[int] = attrs.field(factory=list, repr=False, eq=False)


@lazy_attrs.frozen
class Point(Named):
    x: int
    y: int = attrs.field(default=0, converter=int)

    def moved(self, by: int) -> "Point":
        return attrs.evolve(self, x=self.x + by)


def _declared(define: Callable[..., Any], **options: Any) -> Any:
    @define(**options)
    class Declared(Generic[T]):
        first: int
        _second: str = "two"
        third: list[int] = attrs.field(factory=list)
        KIND: ClassVar[int] = 3

        def __attrs_post_init__(self) -> None:
            self.third.append(self.first)

        def __str__(self) -> str:
            return f"declared {self.first}"

    return Declared


OPTIONS = [
    ("frozen", {}),
    ("frozen", {"eq": False}),
    ("define", {}),
    ("define", {"eq": False}),
    ("define", {"repr": 0}),
]
# Results of a class that has two objects, in any order of first uses.
USES: dict[str, Callable[[Any, Any, Any], object]] = {
    "fields": lambda cls, one, two: [(f.name, f.alias, f.default, f.type, f.inherited) for f in attrs.fields(cls)],
    "has": lambda cls, one, two: attrs.has(cls),
    "repr": lambda cls, one, two: repr(one) if "object at" not in repr(one) else "plain",
    "text": lambda cls, one, two: str(one),
    "equal": lambda cls, one, two: (one == two, one != two, one == copy.copy(one), one == 3),
    "hashable": lambda cls, one, two: (cls.__hash__ is None, cls.__hash__ is object.__hash__),
    "evolve": lambda cls, one, two: attrs.asdict(attrs.evolve(one, second="other")),
    "match": lambda cls, one, two: cls.__match_args__,
    "signature": lambda cls, one, two: str(inspect.signature(cls)),
    "slots": lambda cls, one, two: (sorted(cls.__slots__), hasattr(one, "__dict__"), weakref.ref(one)() is one),
    "members": lambda cls, one, two: (attrs.fields(cls), sorted(vars(cls)))[1],
    "generic": lambda cls, one, two: cls[int](5).first,
    "assigned": lambda cls, one, two: _assigned(one),
}


def _assigned(instance: Any) -> object:
    try:
        instance.first = 8
    except attrs.exceptions.FrozenInstanceError:
        return "frozen"
    return instance.first


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("maker", "options"), OPTIONS)
def test_lazy_class_behaves_as_that_of_attrs_from_its_first_use_on(
    maker: str, options: dict[str, Any], use: str
) -> None:
    lazy, eager = _declared(getattr(lazy_attrs, maker), **options), _declared(getattr(attrs, maker), **options)
    classes_first = {"fields", "has", "match", "signature", "hashable"}
    made = [(cls, None, None) if use in classes_first else (cls, cls(1), cls(2)) for cls in (lazy, eager)]
    results = [USES[use](*each) for each in made]
    assert results[0] == results[1]


# Calls of constructors with their arguments: of one that takes them by position, and of one that takes them by name.
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "a"), {}),
    ((1, "a", [3]), {}),
    ((1, "a", [3], 4), {}),
    ((), {}),
    ((), {"first": 1}),
    ((), {"second": "a"}),
    ((1,), {"first": 1}),
    ((1,), {"second": "a", "third": []}),
    ((1,), {"_second": "a"}),
    ((1,), {"KIND": 3}),
    ((1,), {"instance": 3}),
]


@pytest.mark.parametrize("options", [{}, {"kw_only": True}])
@pytest.mark.parametrize("maker", ["define", "frozen"])
def test_first_objects_are_those_of_a_generated_constructor(maker: str, options: dict[str, Any]) -> None:
    for arguments, named in CALLS:
        first, generated = _declared(getattr(lazy_attrs, maker), **options), _declared(getattr(attrs, maker), **options)
        assert _made(first, arguments, named) == _made(generated, arguments, named), (arguments, named)


def _made(cls: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> object:
    try:
        made = cls(*arguments, **named)
    except TypeError as error:
        return str(error)
    return made.first, made._second, made.third, made.KIND


def test_constructor_is_generated_for_a_class_of_many_objects() -> None:
    cls = _declared(lazy_attrs.frozen)
    made = []
    while not isinstance(vars(cls)["__init__"], FunctionType):
        made.append(cls(len(made)))
        assert len(made) < 20
    assert len(made) > 2
    assert [(each.first, each.third) for each in [*made, cls(1)]] == [*((n, [n]) for n in range(len(made))), (1, [1])]


def _with_odd_fields(define: Callable[..., Any]) -> Any:
    @define
    class Odd:
        number: int = attrs.field(converter=int)
        double: int = attrs.field(default=attrs.Factory(lambda odd: 2 * odd.number, takes_self=True))
        _hidden: list[int] = attrs.field(factory=list, init=False)
        named: str = attrs.field(default="", kw_only=True, alias="known_as")

    return Odd


@pytest.mark.parametrize("maker", ["define", "frozen"])
def test_first_object_has_converted_and_computed_fields(maker: str) -> None:
    lazy, eager = (_with_odd_fields(getattr(module, maker)) for module in (lazy_attrs, attrs))
    assert attrs.asdict(lazy("4", known_as="a")) == attrs.asdict(eager("4", known_as="a"))


def test_factories_of_a_first_object_are_called_in_the_order_of_fields() -> None:
    called: list[str] = []

    @lazy_attrs.define
    class Ordered:
        second: None = attrs.field(factory=lambda: called.append("second"), kw_only=True)
        first: None = attrs.field(factory=lambda: called.append("first"))

    Ordered()
    assert called == ["second", "first"]


@pytest.mark.parametrize("is_used", [False, True])
def test_metadata_of_fields_is_that_of_attrs(is_used: bool) -> None:
    @lazy_attrs.frozen
    class Described:
        KIND: ClassVar[int] = 3
        plain: int
        numbered: int = attrs.field(default=0, metadata={"number": 4})

    @lazy_attrs.frozen
    class Derived(Described):
        own: int = attrs.field(default=0, metadata={"number": 5})

    if is_used:
        Derived(1)
        attrs.fields(Described)
    numbers = {name: dict(metadata) for name, metadata in lazy_attrs.field_metadata(Described).items()}
    assert numbers == {"plain": {}, "numbered": {"number": 4}}
    assert [dict(each) for each in lazy_attrs.field_metadata(Derived).values()] == [{}, {"number": 4}, {"number": 5}]


def test_ordered_class_compares_its_objects() -> None:
    @lazy_attrs.frozen(order=True)
    class Place:
        row: int
        seat: int

    assert Place(1, 2) < Place(1, 3) < Place(2, 0) >= Place(2, 0)


def test_subclass_of_a_lazy_class_inherits_fields_methods_and_immutability() -> None:
    point = Point(3, y="4", name="p")
    assert (point.x, point.y, point.name, point.KIND, point.moved(2).x) == (3, 4, "p", "named", 5)
    assert point == Point(3, 4, name="p", extras=[1]) != Named(name="p")
    assert hash(point) == hash(Point(3, 4, name="p"))
    assert repr(point) == "Point(name='p', x=3, y=4)"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point.x = 1  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(3, z=4)  # type: ignore[call-arg]


def test_pickle_makes_an_object_of_a_class_that_was_not_used_yet() -> None:
    point = Point(1, name="p")
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point


def test_plain_subclass_calls_the_constructor_of_an_unused_lazy_class() -> None:
    class Loud(_declared(lazy_attrs.define)):  # type: ignore[misc]
        def __init__(self, first: int) -> None:
            super().__init__(first * 2)

    assert Loud(4).first == 8


def test_class_that_names_itself_in_a_method_is_made_at_once() -> None:
    @lazy_attrs.frozen
    class Own:
        number: int

        def itself(self) -> type:
            return __class__  # type: ignore[name-defined, no-any-return]

    assert Own(1).itself() is Own


def test_threads_that_use_a_class_first_get_one_class() -> None:
    for _ in range(20):
        cls, barrier, made = _declared(lazy_attrs.frozen), Barrier(4), []

        def make(cls: Any = cls, barrier: Barrier = barrier, made: list[Any] = made) -> None:
            barrier.wait()
            made.append(cls(7))

        threads = [Thread(target=make) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert [(each, type(each)) for each in made] == [(cls(7), cls)] * 4
