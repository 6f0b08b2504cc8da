"""The definition of configuration keys: types, defaults, validators, and the errors that clients expect.

Types, parsing and messages follow Kafka's ConfigDef, because tools show these messages, and tests of client libraries
compare them. Kafka's messages contain values as Java prints them, so `java_text` formats values like Java.
"""

import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast, overload

import attrs

from kraft import lazy_attrs
from metadata.protocol import ConfigType

# The characters that `String.trim` removes: those up to the space, but no other spaces of Unicode.
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
_JAVA_SPACES: Final = " \t\n\x0b\f\r"  # the characters that `\\s` matches in Java's patterns
_INT_LIMIT: Final = 1 << 31
_DOUBLE: Final = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
_HEX_DOUBLE: Final = r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9})[fFdD]?"


class InvalidConfig(ValueError):
    """A configuration is invalid; `message` is Kafka's message about it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Importance(Enum):
    """The importance of a key for operators, as defined by Kafka."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether a key may be changed in a running broker: for one broker, for all brokers, or not at all (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    """The default of a key without a default: it must be set."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


@lazy_attrs.frozen(repr=False)
class Password:
    """A secret value, which its repr does not show."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"


ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | Password
Values: TypeAlias = Mapping[str, ConfigValue | None]
Validator: TypeAlias = Callable[[str, ConfigValue | None], None]


class Scope(Enum):
    """The part of a node that a broker's key belongs to."""

    NODE = "node"
    LISTENER = "listener"
    """While a broker runs, set for one listener only: `listener.name.<listener>.<key>`."""
    MECHANISM = "mechanism"
    """Set for one mechanism of a listener: `listener.name.<listener>.<mechanism>.<key>`."""


class Synonym(NamedTuple):
    """A broker's key that is the default of a topic's or group's key, which is `factor` times the broker's value."""

    name: str
    factor: int = 1


class ConfigValues:
    """The base of classes that declare keys. On an instance, each declared key is an attribute with the key's value.

    `values` holds the value of every declared key, by Kafka's name, as `ConfigDef.parse` returns it.
    """

    def __init__(self, values: Values) -> None:
        self.values: Final = values


_Declaring: TypeAlias = type[ConfigValues]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@lazy_attrs.frozen
class ValueType(Generic[T_co]):
    """A key's type, and the Python type of its values for the type checker."""

    config_type: ConfigType


@lazy_attrs.define(eq=False)
class ConfigKey(Generic[T_co]):
    """One key of a configuration, and everything that is known about it.

    A key is declared by `key` in the body of a subclass of ConfigValues, and gets its name from there: the attribute
    `log_roll_ms` is `log.roll.ms`. On the class the attribute is the key, on an instance it is the key's value.

    `default` is None where Kafka's is null, and REQUIRED where there is none. `validator` is called with the name and
    the parsed value, and raises InvalidConfig. Internal keys exist for tests and are left out of descriptions. `doc` is
    the text that DescribeConfigs returns as documentation. A key that does not take effect is checked, stored and
    described only. `synonyms` are the broker's keys whose values are the defaults of a topic's or a group's key; the
    first that is set counts. `described_as` is the type in DescribeConfigs, if it is another one than that of the
    parsed values: Kafka reads some texts with a grammar of their own as lists. An element that a list has several times
    counts once, unless the list `may_repeat` (KIP-1161).
    """

    type: ConfigType
    default: T_co | Required | None
    validator: Validator | None
    importance: Importance
    doc: str
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    scope: Scope = Scope.NODE
    internal: bool = False
    takes_effect: bool = True
    synonyms: tuple[Synonym, ...] = ()
    described_as: ConfigType | None = None
    may_repeat: bool = False
    name: str = attrs.field(default="", init=False)

    def __set_name__(self, owner: _Declaring, name: str) -> None:
        self.name = name.replace("_", ".")

    @overload
    def __get__(self, holder: None, owner: _Declaring) -> "ConfigKey[T_co]": ...
    @overload
    def __get__(self, holder: ConfigValues, owner: _Declaring) -> T_co: ...
    def __get__(self, holder: ConfigValues | None, owner: _Declaring) -> "ConfigKey[T_co] | T_co":
        return self if holder is None else cast(T_co, holder.values[self.name])

    @property
    def described_type(self) -> ConfigType:
        return self.type if self.described_as is None else self.described_as

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """Parse `text`. Raises InvalidConfig for a malformed or invalid value."""
        value = parse_value(self.name, text, self.type)
        if isinstance(value, tuple) and not self.may_repeat:
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator(self.name, value)
        return value


@overload
def key(
    value_type: ValueType[T],
    default: None,
    validator: Validator | None,
    importance: Importance,
    doc: str,
    update_mode: UpdateMode = ...,
    *,
    scope: Scope = ...,
    internal: bool = ...,
    takes_effect: bool = ...,
    synonyms: tuple[Synonym, ...] = ...,
    described_as: ConfigType | None = ...,
    may_repeat: bool = ...,
) -> ConfigKey[T | None]: ...
@overload
def key(
    value_type: ValueType[T],
    default: T | Required,
    validator: Validator | None,
    importance: Importance,
    doc: str,
    update_mode: UpdateMode = ...,
    *,
    scope: Scope = ...,
    internal: bool = ...,
    takes_effect: bool = ...,
    synonyms: tuple[Synonym, ...] = ...,
    described_as: ConfigType | None = ...,
    may_repeat: bool = ...,
) -> ConfigKey[T]: ...
def key(
    value_type: ValueType[T],
    default: T | Required | None,
    validator: Validator | None,
    importance: Importance,
    doc: str,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    **details: Any,
) -> ConfigKey[Any]:
    """Declare a key (see ConfigKey). Its values are never None, unless `default` is."""
    return ConfigKey(value_type.config_type, default, validator, importance, doc, update_mode, **details)


def synonym(broker_key: ConfigKey[Any], factor: int = 1) -> Synonym:
    """The broker's key as the default of a topic's key, which is `factor` times the broker's value."""
    return Synonym(broker_key.name, factor)


def from_broker(broker_key: ConfigKey[T], *, doc: str | None = None, takes_effect: bool = True) -> ConfigKey[T]:
    """Declare a key of topics or groups: the broker's key under another name, and the broker's value is its default."""
    return ConfigKey(
        broker_key.type,
        broker_key.default,
        broker_key.validator,
        Importance.MEDIUM,
        broker_key.doc if doc is None else doc,
        internal=broker_key.internal,
        takes_effect=takes_effect,
        synonyms=(synonym(broker_key),),
    )


class ConfigDef:
    """The keys that a class declares, in order, and how a mapping of strings becomes values."""

    def __init__(self, declared: type[ConfigValues]) -> None:
        self.keys: Final[Mapping[str, ConfigKey[Any]]] = {
            each.name: each for base in declared.__mro__ for each in vars(base).values() if isinstance(each, ConfigKey)
        }
        self._defaults: Final[dict[str, ConfigValue | None]] = {
            key.name: key.default for key in self.keys.values() if not isinstance(key.default, Required)
        }
        self._required: Final = tuple(key.name for key in self.keys.values() if isinstance(key.default, Required))

    def parse(self, texts: Mapping[str, str]) -> dict[str, ConfigValue | None]:
        """The values of all keys: those in `texts`, else the defaults. Undefined names are ignored.

        Raises InvalidConfig for the first invalid value, in the order of definition, or for a missing required key.
        """
        values = self._defaults.copy()
        for name in self._required:
            if name not in texts:
                raise InvalidConfig(f'Missing required configuration "{name}" which has no default value.')
        for name, key in self.keys.items():
            if name in texts:
                values[name] = key.parse(texts[name])
        return values

    def type_of(self, name: str) -> ConfigType:
        key = self.keys.get(name)
        return ConfigType.UNKNOWN if key is None else key.described_type

    def default_text(self, name: str) -> str | None:
        """A key's default as text; None if the default is null or missing, or the key is not defined."""
        value = self._defaults.get(name)
        return None if value is None else value_text(value)


def parse_value(name: str, text: str, config_type: ConfigType) -> ConfigValue:
    """Read `text` as Kafka's type; raises InvalidConfig with Kafka's message about the key `name`.

    A CLASS is the name of a Java class and stays a string: there is no class to load here.
    """
    trimmed = text.strip(_JAVA_BLANKS)
    match config_type:
        case ConfigType.BOOLEAN:
            return _parse_boolean(name, text, trimmed)
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(name, text, trimmed, config_type)
        case ConfigType.DOUBLE:
            return _parse_double(name, text, trimmed)
        case ConfigType.LIST:
            return tuple(element.strip(_JAVA_SPACES) for element in trimmed.split(",")) if trimmed else ()
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case _:
            return trimmed


def parse_int(text: str) -> int | None:
    """The number that Java's `Integer.parseInt` reads, or None where it fails: it allows no blanks."""
    if not re.fullmatch("[+-]?[0-9]{1,20}", text):
        return None
    value = int(text)
    return value if -_INT_LIMIT <= value < _INT_LIMIT else None


def invalid_value(name: str, value: ConfigValue | None, reason: str | None) -> InvalidConfig:
    """The error about one key's value, with the message of Kafka's ConfigException."""
    text = f"Invalid value {java_text(value)} for configuration {name}"
    return InvalidConfig(text if reason is None else f"{text}: {reason}")


def value_text(value: ConfigValue) -> str:
    """A value as text for a properties file and for DescribeConfigs. Lists are joined by commas."""
    return ",".join(value) if isinstance(value, tuple) else java_text(value)


def java_text(value: ConfigValue | None) -> str:
    """A value as Java prints it, for Kafka's messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return f"[{', '.join(value)}]"
        case _:
            return str(value)


def _parse_boolean(name: str, text: str, trimmed: str) -> bool:
    lowered = trimmed.lower()
    if lowered not in ("true", "false"):
        raise invalid_value(name, text, "Expected value to be either true or false")
    return lowered == "true"


_INTEGER_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def _parse_integer(name: str, text: str, trimmed: str, config_type: ConfigType) -> int:
    digits = trimmed[1:] if trimmed.startswith(("+", "-")) else trimmed
    # The length is bounded first, because `int` raises another error for 4,300 digits or more.
    if digits.isdecimal() and len(digits.lstrip("0")) < 20:
        value = int(trimmed)
        limit = 1 << (_INTEGER_BITS[config_type] - 1)
        if -limit <= value < limit:
            return value
    raise invalid_value(name, text, f"Not a number of type {config_type.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    if hexadecimal := re.fullmatch(_HEX_DOUBLE, trimmed):
        return _parse_hexadecimal(hexadecimal[1])
    if not re.fullmatch(_DOUBLE, trimmed):
        raise invalid_value(name, text, "Not a number of type DOUBLE")
    return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))


def _parse_hexadecimal(text: str) -> float:
    """Java rounds what is too large to infinity; Python raises OverflowError."""
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _java_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Python would write 1e-05 or 10000000.0 with the same digits; Java writes 1.0E-5 and 1.0E7.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"
