"""Hypothesis strategies for the messages of broker/wire, and ways to look at them that the product has no need of."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from broker.wire.api import APIS, Api
from broker.wire.errors import ErrorCode
from broker.wire.schema import FieldSpec, FieldType

_INTEGERS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True), "int64": (64, True)}


def message_versions() -> list[tuple[Api, int, str]]:
    """Every API, version and direction."""
    return [
        (api, version, kind)
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        for kind in ("request", "response")
    ]


def message_id(value: Any) -> str:
    """For pytest.mark.parametrize."""
    return value.name if isinstance(value, Api) else str(value)


@cache
def messages(cls: type[Any], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    """Messages that hold what `version` can say, and defaults in all fields it does not have."""
    present = [spec for spec in cls.__fields__ if version in spec.versions]
    return st.builds(cls, **{spec.name: _field(spec, version, flexible) for spec in present})


def as_dict(value: Any) -> Any:
    """A message as plain values that compare by content."""
    if hasattr(value, "__fields__"):
        return {spec.name: as_dict(getattr(value, spec.name)) for spec in value.__fields__}
    if isinstance(value, list):
        return [as_dict(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _field(spec: FieldSpec, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if spec.name == "error_code":
        return st.sampled_from(ErrorCode).map(int)
    values = _value(spec.type, version, flexible)
    if version in spec.nullable:
        return st.none() | values
    if isinstance(spec.type, type) and flexible and version in spec.tagged:
        # All defaults are said by leaving the field out, so a canonical encoder never says them.
        return st.none() | values.filter(lambda value: as_dict(value) != as_dict(type(value)()))
    return values


def _value(type_: FieldType, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(type_, list):
        return st.lists(_value(type_[0], version, flexible), max_size=3)
    if isinstance(type_, type):
        return messages(type_, version, flexible)
    if type_ in _INTEGERS:
        bits, signed = _INTEGERS[type_]
        limit = 1 << (bits - signed)
        return st.integers(-limit if signed else 0, limit - 1)
    if type_ == "string":
        # Up to sizes whose compact length takes two bytes.
        return st.text(max_size=8) | st.integers(120, 130).map(lambda size: "x" * size)
    if type_ in ("bytes", "records"):
        return st.binary(max_size=8) | st.integers(120, 130).map(bytes)
    assert type_ in ("bool", "uuid"), type_
    return st.booleans() if type_ == "bool" else st.binary(min_size=16, max_size=16)
