"""The public calls of the client library with valid arguments, and values that are wrong for most of them."""

import inspect
import math
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

import attrs
from hypothesis import strategies as st

import broker.client
from broker.client import (
    AclOperation,
    Admin,
    AsyncioAdmin,
    AsyncioConsumer,
    AsyncioProducer,
    AsyncioShareConsumer,
    Consumer,
    Producer,
    ShareConsumer,
    ShareRecord,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    SyncShareConsumer,
    TimestampType,
    TopicPartition,
)
from broker.client.config import ClientConfig

CLIENTS: Final = (
    *(Producer, Consumer, ShareConsumer, Admin),
    *(AsyncioProducer, AsyncioConsumer, AsyncioShareConsumer, AsyncioAdmin),
    *(SyncProducer, SyncConsumer, SyncShareConsumer, SyncAdmin),
)
TOPIC: Final = "calls"
# Calls whose whole purpose is to wait for ever.
_TIMEOUTS: Final = ("timeout_s", "timeout_ms")


class Call(NamedTuple):
    """A public method of a client, and its parameters."""

    client: type[Any]
    name: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.client.__name__}.{self.name}"


class Wrong(Exception):
    """Raised by the methods of `Unfriendly`."""


class Unfriendly:
    """An object of which nothing can be asked."""

    def __eq__(self, other: object) -> bool:
        raise Wrong

    def __hash__(self) -> int:
        raise Wrong

    def __repr__(self) -> str:
        raise Wrong

    def __bool__(self) -> bool:
        raise Wrong

    def __iter__(self) -> Iterator[Any]:
        raise Wrong

    def __index__(self) -> int:
        raise Wrong


class Kind(Enum):
    """An enum that the library does not know."""

    ONE = 1


def public_calls() -> list[Call]:
    """Every public method that takes arguments, of every client and its faces.

    Those for asyncio that are derived from Trio's methods are left out: the blocking ones check in the same way.
    """
    return [
        Call(client, name, parameters)
        for client in CLIENTS
        for name, method in inspect.getmembers(client, callable)
        if name == "__init__" or not name.startswith("_")
        if not (client.__name__.startswith("Asyncio") and _is_derived(client, method))
        if (parameters := _parameters(method))
    ]


def _is_derived(client: type[Any], method: Callable[..., Any]) -> bool:
    """True for `name = awaited(Client.name)` and the like."""
    return not inspect.unwrap(method).__qualname__.startswith(client.__name__)


def _parameters(method: Callable[..., Any]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(name for name, each in inspect.signature(method).parameters.items() if each.kind in kinds)[1:]


def kind_of(client: type[Any]) -> str:
    """Producer, Consumer, ShareConsumer or Admin."""
    return client.__name__.removeprefix("Sync").removeprefix("Asyncio")


def config_keys(client: type[Any]) -> list[str]:
    """The config keys of a client."""
    config: type[ClientConfig] = getattr(broker.client, f"{kind_of(client)}Config")
    return [field.name for field in attrs.fields(config)]


def valid_arguments(call: Call) -> dict[str, Any]:
    """Arguments that are right, for the parameters that have to be given, and timeouts."""
    signature = inspect.signature(getattr(call.client, call.name))
    return {
        name: _valid(name, str(signature.parameters[name].annotation))
        for name in call.parameters
        if signature.parameters[name].default is inspect.Parameter.empty or name in _TIMEOUTS
    }


def _valid(name: str, annotation: str) -> Any:
    first = TopicPartition(TOPIC, 0)
    if name in _TIMEOUTS:
        return 0.01 if name == "timeout_s" else 300
    if name == "bootstrap_servers":
        return "localhost:1"
    if "Mapping" in annotation:
        return {}
    if "Iterable" in annotation or "Sequence" in annotation:
        return []
    if "TopicPartition" in annotation:
        return first
    if "ShareRecord" in annotation:
        return ShareRecord(TOPIC, 0, 0, 0, TimestampType.CREATE_TIME, b"", b"", (), None, 1)
    if "int" in annotation:
        return 0
    if "bytes" in annotation:
        return bytes(16)
    return TOPIC


def waits_for_ever(parameter: str, value: object) -> bool:
    """True for a right timeout that is long."""
    return parameter in _TIMEOUTS and (value is None or (isinstance(value, int | float) and not value <= 1_000))


def _generator(*items: Any) -> Iterator[Any]:
    yield from items


def _failing_generator() -> Iterator[Any]:
    yield TOPIC
    raise Wrong


def _self_referencing() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


_SCALARS: Final = st.sampled_from(
    [
        *(None, True, False, 0, -1, 0.5, -0.5, math.nan, math.inf, 2**15, 2**31, 2**63, 10**400, -(10**400)),
        *("", "text", "\ud800", "x" * 40_000, "\x00", b"", b"bytes", bytearray(b"array"), memoryview(b"view")),
        *(Kind.ONE, AclOperation.READ, AclOperation, int, object, len, Unfriendly, re.compile(b"bytes")),
    ]
)
_UNFRIENDLY: Final = st.builds(Unfriendly)
_MAKERS: Final = st.sampled_from(
    [
        lambda: _generator(None, 1),
        lambda: _generator(b"bytes"),
        _failing_generator,
        _self_referencing,
        lambda: {TOPIC: _self_referencing()},
        lambda: range(3),
        lambda: {1, "text"},
    ]
).map(lambda make: make())


def _values() -> st.SearchStrategy[Any]:
    """Objects of the library's value classes whose fields have wrong values, as far as these let themselves be made."""
    classes = [
        found
        for name in broker.client.__all__
        if isinstance(found := getattr(broker.client, name), type)
        and (attrs.has(found) or hasattr(found, "_fields"))
        and not issubclass(found, ClientConfig)
    ]
    return st.sampled_from(sorted(classes, key=lambda cls: cls.__name__)).flatmap(_value_of)


def _value_of(cls: type[Any]) -> st.SearchStrategy[Any]:
    names = getattr(cls, "_fields", None) or [each.name for each in attrs.fields(cls) if each.init]

    def make(values: list[Any]) -> Any:
        try:
            return cls(**dict(zip(names, values, strict=True)))
        except (TypeError, ValueError, AttributeError, Wrong):
            return None

    scalars = st.sampled_from([TOPIC, 0, 1, None]) | _SCALARS | _UNFRIENDLY
    return st.lists(scalars, min_size=len(names), max_size=len(names)).map(make)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hashable = inner.filter(_is_hashable)
    return st.lists(inner, max_size=2) | st.tuples(inner, inner) | st.dictionaries(hashable, inner, max_size=2)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except (TypeError, Wrong):
        return False
    return True


@cache
def wrong_values() -> st.SearchStrategy[Any]:
    """Values of every type. Few of them are right anywhere.

    The strategy is made once, because it takes ten times as long as an example.
    """
    simple = _SCALARS | _UNFRIENDLY | _values()
    return simple | _MAKERS | _containers(simple | _MAKERS)
