"""The levels of a node's loggers, which can be changed while the node runs (KIP-412).

There is a logger for each package that reports events, such as `broker.replication`, one for each package that contains
it (`broker`), and `root`. A logger without a level of its own has that of the nearest logger above it. Levels are not
stored: a node starts with the level of its command line.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kraft.events import Level
from metadata.controller import ConfigChange
from metadata.protocol import ConfigOperation, ErrorCode, KafkaError

ROOT: Final = "root"

# The names of the levels in Kafka's configs, and the least level of the events that they let through.
LEVELS: Final = {
    "TRACE": 0,
    "DEBUG": Level.DEBUG,
    "INFO": Level.INFO,
    "WARN": Level.WARNING,
    "ERROR": Level.ERROR,
    "FATAL": Level.ERROR + 1,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()}


class LogLevels:
    """The loggers of `packages`, of the packages that contain them, and the root, which starts with `level`."""

    def __init__(self, packages: Iterable[str] = (), level: Level = Level.INFO) -> None:
        parts = [package.split(".") for package in packages]
        names = {".".join(part[: length + 1]) for part in parts for length in range(len(part))}
        self._own: dict[str, str | None] = dict.fromkeys(sorted(names))
        self._own[ROOT] = _NAMES[level]
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def describe(self) -> dict[str, str]:
        """The level of each logger by its name, its own or that of a logger above it."""
        return {name: self._level(name) for name in sorted(self._own)}

    def prints(self, package: str, level: Level) -> bool:
        """True if events of this level of the package are printed."""
        return level >= LEVELS[self._level(package)]

    def _level(self, logger: str) -> str:
        while True:
            level = self._own.get(logger)
            if level is not None:
                return level
            logger = logger.rpartition(".")[0] or ROOT

    def check(self, changes: Sequence[ConfigChange]) -> None:
        """Validate changes. Raises KafkaError INVALID_CONFIG and INVALID_REQUEST, with Kafka's messages."""
        for change in changes:
            if change.op in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
                op = ConfigOperation(change.op).name
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{op} operation is not allowed for the BROKER_LOGGER resource"
                )
            if change.op not in (ConfigOperation.SET, ConfigOperation.DELETE):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unknown operation type {change.op} is not allowed for the BROKER_LOGGER resource",
                )
            if change.name not in self._own:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
            if change.op == ConfigOperation.SET and change.value not in LEVELS:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(sorted(LEVELS))}",
                )
            if change.op == ConfigOperation.DELETE and change.name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )

    def apply(self, changes: Sequence[ConfigChange]) -> None:
        """Apply changes that `check` has accepted."""
        for change in changes:
            self._own[change.name] = change.value if change.op == ConfigOperation.SET else None
        for listener in self._listeners:
            listener()
