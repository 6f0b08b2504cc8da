"""Random messages of broker/wire, and functions on messages that only tests need."""

from importlib.util import find_spec
from random import Random
from typing import Any, Final

from kio.schema.errors import ErrorCode as KioErrorCode

from broker.wire.api import APIS, Api
from broker.wire.api.describe_log_dirs import DAMAGE_TAG
from broker.wire.schema import FieldSpec, FieldType

_INTEGER_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
# kio refuses newer codes.
_ERROR_CODES: Final = tuple(int(code) for code in KioErrorCode)


def message_versions() -> list[tuple[Api, int, str]]:
    """Every API, version and direction."""
    return [
        (api, version, kind)
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
        for kind in ("request", "response")
    ]


def versions_of(api: Api) -> list[tuple[int, str]]:
    """Every version and direction of an API. A test of one API checks all: 552 tests took longer than their checks."""
    return [(version, kind) for each, version, kind in message_versions() if each is api]


def is_newer_than_kio(api: Api, version: int) -> bool:
    """True if kio does not have this version of the API."""
    name = f"kio.schema.{api.module}"
    return find_spec(name) is None or find_spec(f"{name}.v{version}") is None


_NARROW_TIMES: Final = (
    "log_append_time_ms",
    "retention_time_ms",
    "max_lifetime_ms",
    "renew_period_ms",
    "expiry_time_period_ms",
    "session_lifetime_ms",
)
# The times of a delegation token, with the unit in some names and not in others.
_TOKEN_TIMES: Final = frozenset(
    f"{time}_timestamp{unit}" for time in ("issue", "expiry", "max") for unit in ("", "_ms")
)


def random_message(cls: type[Any], version: int, flexible: bool, rng: Random) -> Any:
    """A random message with the fields that `version` has, and with defaults in all other fields."""
    return cls(
        **{spec.name: _field(spec, version, flexible, rng) for spec in cls.__fields__ if version in spec.versions}
    )


def as_dict(value: Any) -> Any:
    """Convert a message to plain values that compare by content."""
    if hasattr(value, "__fields__"):
        return {spec.name: as_dict(getattr(value, spec.name)) for spec in value.__fields__}
    if isinstance(value, list):
        return [as_dict(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _field(spec: FieldSpec, version: int, flexible: bool, rng: Random) -> Any:
    if spec.name.endswith("error_code"):
        return int(rng.choice(_ERROR_CODES))
    if spec.name in _NARROW_TIMES:
        return rng.randint(-1, 1 << 41)  # kio decodes these as a date and a timedelta, whose ranges are smaller
    if spec.name == "transaction_start_time_ms" or spec.name in _TOKEN_TIMES:
        return rng.randint(0, 1 << 41)  # kio has no value for "not begun"
    if version in spec.nullable and rng.random() < 0.3:
        return None
    if flexible and version in spec.tagged:
        # Other implementations do not know the fields that Kafka does not have; these have the highest tags.
        if rng.random() < 0.5 or (spec.tag is not None and spec.tag >= DAMAGE_TAG):
            return spec.default() if callable(spec.default) else spec.default
        if isinstance(spec.type, type):
            # A canonical encoding leaves a field out if all its values are defaults.
            value = random_message(spec.type, version, flexible, rng)
            return None if as_dict(value) == as_dict(spec.type()) else value
    return _value(spec.type, version, flexible, rng)


def _value(type_: FieldType, version: int, flexible: bool, rng: Random) -> Any:
    if isinstance(type_, list):
        # Sometimes so many that a compact count takes two bytes.
        count = rng.choice((0, 1, 1, 2, 3, 130 if isinstance(type_[0], str) else 4))
        return [_value(type_[0], version, flexible, rng) for _ in range(count)]
    if isinstance(type_, type):
        return random_message(type_, version, flexible, rng)
    if type_ in _INTEGER_BITS:
        bits = _INTEGER_BITS[type_]
        number = rng.choice((0, 1, rng.getrandbits(bits), (1 << bits) - 1, 1 << (bits - 1)))
        return number if type_.startswith("u") or number < 1 << (bits - 1) else number - (1 << bits)
    if type_ == "float64":
        return rng.choice((0.0, -1.5, 1e308, rng.random()))
    if type_ == "string":
        return rng.choice(("", "a", "topic-é-漢-🐘", "x" * rng.randint(120, 130), "y" * 20_000))
    if type_ == "uuid":
        return rng.choice((bytes(16), rng.randbytes(16)))
    assert type_ in ("bool", "bytes", "records"), type_
    return rng.random() < 0.5 if type_ == "bool" else rng.randbytes(rng.choice((0, 1, 126, 127, 128, 16_383, 16_384)))
