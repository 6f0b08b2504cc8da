"""Declarations of messages: one class for all versions of a message, each field with the versions it exists in.

    @request(key=23, versions="2-4", flexible="4+")
    class OffsetForLeaderEpochRequest:
        replica_id: int = field("int32", "3+", default=-2)
        topics: list[OffsetForLeaderTopic] = field([OffsetForLeaderTopic], "0+", factory=list)

Names, types and version ranges are those of Kafka's message definitions. Decoding leaves a field that its version does
not have at its default; encoding leaves it out. Instances compare by identity.

These are no attrs classes: a node makes 350 of them at every start, and uses some tens. attrs compiles the constructor
of each class, a fifth of the time of all imports; here it is compiled for the first instance.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, TypeVar, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview

# Code letters of the struct module; a field of any other type is no fixed number of bytes.
FIXED_CODES: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

# The longest string that a length of two bytes allows. Kafka refuses longer ones in flexible versions too.
STRING_BYTES_MAX: Final = 0x7FFF

_FOREVER: Final = 1 << 15
# In place of an argument that is not given.
_MISSING: Final = object()


class OpaqueRecords(Protocol):
    """Records that the encoder passes through: a buffer, or anything that knows its size, such as a range of a file."""

    def __len__(self) -> int: ...


class EncodedArray:
    """An array whose elements are encoded already, for the version that it is sent in."""

    __slots__ = ("_count", "parts")

    def __init__(self, count: int, parts: list[bytes]) -> None:
        self._count = count
        self.parts = parts

    def __len__(self) -> int:
        return self._count


class VersionRange(NamedTuple):
    """Versions `first` to `last`, both included; empty when first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS: Final = VersionRange(1, 0)

# The name of a primitive, the class of a struct, or a list of exactly one of these.
FieldType: TypeAlias = str | type[Any] | list[Any]


class FieldSpec(NamedTuple):
    """The declaration of a field. `tag` is None for a field that is never tagged; `default` is a constant, or the
    function that makes one for each instance. `pre_encoded` arrays may be given as `EncodedArray`. A representation of
    the message does not show a field that `is_secret`.
    """

    name: str
    type: FieldType
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    default: object
    pre_encoded: bool = False
    is_secret: bool = False

    @property
    def fixed_code(self) -> str | None:
        return FIXED_CODES.get(self.type) if isinstance(self.type, str) else None


class MessageSpec(NamedTuple):
    """Where a message belongs: its API key, the versions that can be coded, the flexible ones among them (KIP-482).

    For what is kept in a log, `key` is the type of the record. `elements_max` bounds the elements of all arrays of the
    message together, where it is less than what the codec allows all requests.
    """

    key: int
    versions: VersionRange
    flexible: VersionRange
    is_request: bool
    elements_max: int | None = None


class Struct(Protocol):
    """Any class made by `struct`, `request` or `response`."""

    __fields__: ClassVar[tuple[FieldSpec, ...]]


class Message(Struct, Protocol):
    """Any class made by `request` or `response`."""

    __message__: ClassVar[MessageSpec]


T = TypeVar("T")
S = TypeVar("S", bound=Struct)

# Members of a class without slots.
_NOT_KEPT: Final = ("__dict__", "__weakref__")


@cache
def version_range(text: str) -> VersionRange:
    """Read Kafka's notation: "3", "3-7", or "3+"."""
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), _FOREVER)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))


def field(
    type_: FieldType,
    versions: str,
    *,
    default: object = _MISSING,
    factory: Callable[[], object] | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    pre_encoded: bool = False,
    is_secret: bool = False,
) -> Any:
    """Declare a field: its wire type, the versions that have it, may be null in it, and carry it as tagged field `tag`.

    One of `default` and `factory` is required, so that a handler only names what it has to say. A tagged struct is
    optional: None, the default, leaves it out.
    """
    spec = FieldSpec(
        "",
        type_,
        version_range(versions),
        NO_VERSIONS if nullable is None else version_range(nullable),
        tag,
        NO_VERSIONS if tagged is None else version_range(tagged),
        default if factory is None else factory,
        pre_encoded,
        is_secret,
    )
    assert spec.default is not _MISSING, "every field of a message has a default"
    return spec


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """A part of a message."""
    members = vars(cls)
    fields = tuple(spec._replace(name=name) for name, spec in members.items() if isinstance(spec, FieldSpec))
    names = tuple(spec.name for spec in fields)
    kept = {name: value for name, value in members.items() if name not in names and name not in _NOT_KEPT}

    def make_first(self: Any, *args: object, **kwargs: object) -> None:
        made.__init__ = _constructor(fields)
        made.__init__(self, *args, **kwargs)

    own = {"__slots__": names, "__fields__": fields, "__init__": make_first, "__repr__": _describe}
    made: Any = type(cls.__name__, cls.__bases__, kept | own)
    return made  # type: ignore[no-any-return]


def replaced(message: S, **changes: object) -> S:
    """A copy of a message or a struct, with other values of some fields."""
    values = {spec.name: getattr(message, spec.name) for spec in message.__fields__}
    return type(message)(**values | changes)


def _constructor(fields: tuple[FieldSpec, ...]) -> Callable[..., None]:
    """Compile the `__init__` of a class with these fields."""
    namespace: dict[str, Any] = {"missing": _MISSING}
    parameters, body = ["self"], []
    for number, spec in enumerate(fields):
        default = f"d{number}"
        namespace[default] = spec.default
        if callable(spec.default):
            parameters.append(f"{spec.name}=missing")
            body.append(f"    self.{spec.name} = {default}() if {spec.name} is missing else {spec.name}")
        else:
            parameters.append(f"{spec.name}={default}")
            body.append(f"    self.{spec.name} = {spec.name}")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *(body or ["    pass"])]), namespace)
    return namespace["__init__"]  # type: ignore[no-any-return]


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def request(*, key: int, versions: str, flexible: str, elements_max: int | None = None) -> Callable[[type[T]], type[T]]:
    """A request's body. `flexible` are the versions with compact lengths and tagged fields."""
    return _message(MessageSpec(key, version_range(versions), version_range(flexible), True, elements_max))


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def response(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """A response's body."""
    return _message(MessageSpec(key, version_range(versions), version_range(flexible), is_request=False))


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def data(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declares the key or the value of a record type in one of Kafka's own logs; `key` is the type's number."""
    return _message(MessageSpec(key, version_range(versions), version_range(flexible), is_request=False))


def _message(spec: MessageSpec) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        made: Any = struct(cls)
        made.__message__ = spec
        return made  # type: ignore[no-any-return]

    return decorate


def _describe(message: Any) -> str:
    """For people: only what differs from its default. Records, which are large and not ours, and secrets have sizes."""
    shown = []
    for spec in message.__fields__:
        value = getattr(message, spec.name)
        if (spec.type == "records" or spec.is_secret) and value is not None:
            shown.append(f"{spec.name}=<{len(value)} bytes>")
        elif value != (spec.default() if callable(spec.default) else spec.default):
            shown.append(f"{spec.name}={value!r}")
    return f"{type(message).__name__}({', '.join(shown)})"
