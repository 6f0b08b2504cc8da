"""How a configuration is defined: its keys, their types, defaults and rules, and the errors that clients expect.

Types, parsing and the wording of messages follow Kafka's ConfigDef, because tools show those messages to people and
tests of client libraries compare them. Kafka writes values as Java prints them, so `java_text` does too.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final, TypeAlias

import attrs

# What `String.trim` removes: everything up to and including the space, and nothing of Unicode's other spaces.
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
_JAVA_SPACES: Final = " \t\n\x0b\f\r"  # what `\\s` stands for in Java's patterns
_DOUBLE: Final = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"


class ConfigError(ValueError):
    """A configuration is wrong; `message` is what Kafka would say about it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigType(IntEnum):
    """The type of a key's values; the numbers are those of DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """How much a key matters to who runs a cluster, in Kafka's judgement."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Where a broker's key may be changed while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    """The one value that says: this key has no default, somebody has to set it."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


@attrs.frozen(repr=False)
class Password:
    """A secret: printing it, or a structure that holds it, never shows the value."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"


ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | Password
Validator: TypeAlias = Callable[[str, ConfigValue | None], None]


@attrs.frozen
class ConfigKey:
    """One key of a configuration. `default` is None where Kafka's is null, and REQUIRED where there is none.

    `validator` is called with the name and the parsed value, and raises ConfigError. Internal keys exist for tests and
    are kept out of descriptions. `doc` is the text that DescribeConfigs gives as documentation.
    """

    name: str
    type: ConfigType
    default: ConfigValue | Required | None
    validator: Validator | None
    importance: Importance
    doc: str
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The value that `text` stands for; raises ConfigError for a malformed or a forbidden one."""
        value = parse_value(self.name, text, self.type)
        if self.validator is not None:
            self.validator(self.name, value)
        return value


class ConfigDef:
    """A set of keys in order, and how a mapping of strings becomes values."""

    def __init__(self, *groups: Iterable[ConfigKey]) -> None:
        self.keys: Final[Mapping[str, ConfigKey]] = {key.name: key for group in groups for key in group}
        self._defaults: Final[dict[str, ConfigValue | None]] = {
            key.name: key.default for key in self.keys.values() if not isinstance(key.default, Required)
        }
        self._required: Final = tuple(key.name for key in self.keys.values() if isinstance(key.default, Required))

    def parse(self, texts: Mapping[str, str]) -> dict[str, ConfigValue | None]:
        """Every key's value: what `texts` say, else the default. Names that are not defined are passed over.

        Raises ConfigError about the first bad value, in the order of definition, or about a missing required key.
        """
        values = self._defaults.copy()
        for name in self._required:
            if name not in texts:
                raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        for name, key in self.keys.items():
            if name in texts:
                values[name] = key.parse(texts[name])
        return values

    def type_of(self, name: str) -> ConfigType:
        key = self.keys.get(name)
        return ConfigType.UNKNOWN if key is None else key.type

    def default_text(self, name: str) -> str | None:
        """A key's default as text; None where it has none, is null, or is not defined at all."""
        value = self._defaults.get(name)
        return None if value is None else value_text(value)


def parse_value(name: str, text: str, config_type: ConfigType) -> ConfigValue:
    """Read `text` as Kafka's type; raises ConfigError with Kafka's message about the key `name`.

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


def invalid_value(name: str, value: ConfigValue | None, reason: str | None) -> ConfigError:
    """The error about one key's value, worded as Kafka's ConfigException words it."""
    text = f"Invalid value {java_text(value)} for configuration {name}"
    return ConfigError(text if reason is None else f"{text}: {reason}")


def value_text(value: ConfigValue) -> str:
    """A value as it would be written into a properties file and as DescribeConfigs shows it: lists joined by commas."""
    return ",".join(value) if isinstance(value, tuple) else java_text(value)


def java_text(value: ConfigValue | None) -> str:
    """A value as Java prints it: this is what Kafka's messages hold."""
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
    # The length is bounded before `int` sees it: Python refuses, with an error of its own, to read 4,300 digits.
    if digits.isdecimal() and len(digits.lstrip("0")) < 20:
        value = int(trimmed)
        limit = 1 << (_INTEGER_BITS[config_type] - 1)
        if -limit <= value < limit:
            return value
    raise invalid_value(name, text, f"Not a number of type {config_type.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    if not re.fullmatch(_DOUBLE, trimmed):
        raise invalid_value(name, text, "Not a number of type DOUBLE")
    return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))


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
