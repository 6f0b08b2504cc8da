"""The short words in which the tables of keys are written."""

import sys
from typing import Final

from metadata.configuration.definition import ConfigType, Importance, UpdateMode

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
DOUBLE_MAX: Final = sys.float_info.max
