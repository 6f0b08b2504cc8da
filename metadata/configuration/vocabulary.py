"""Short names for the declarations of keys: types, importance, update modes, scopes and units."""

import sys
from typing import Final

from metadata.configuration.definition import Importance, Password, Scope, UpdateMode, ValueType
from metadata.protocol import ConfigType

BOOLEAN: Final = ValueType[bool](ConfigType.BOOLEAN)
STRING: Final = ValueType[str](ConfigType.STRING)
INT: Final = ValueType[int](ConfigType.INT)
SHORT: Final = ValueType[int](ConfigType.SHORT)
LONG: Final = ValueType[int](ConfigType.LONG)
DOUBLE: Final = ValueType[float](ConfigType.DOUBLE)
LIST: Final = ValueType[tuple[str, ...]](ConfigType.LIST)
CLASS: Final = ValueType[str](ConfigType.CLASS)
PASSWORD: Final = ValueType[Password](ConfigType.PASSWORD)

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

LISTENER: Final = Scope.LISTENER
MECHANISM: Final = Scope.MECHANISM

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DOUBLE_MAX: Final = sys.float_info.max
