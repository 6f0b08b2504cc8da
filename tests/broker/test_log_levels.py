"""KIP-412: the levels of loggers, and the changes that are refused with Kafka's messages."""

import pytest

from broker.log_levels import LogLevels
from kraft.events import Level
from metadata.controller import ConfigChange
from metadata.protocol import ConfigOperation, KafkaError

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def levels() -> LogLevels:
    return LogLevels(["kraft", "broker.node", "broker.storage"])


def change(levels: LogLevels, logger: str, level: str | None) -> None:
    changes = [ConfigChange(logger, DELETE if level is None else SET, level)]
    levels.check(changes)
    levels.apply(changes)


def test_loggers_are_packages_those_that_contain_them_and_the_root(levels: LogLevels) -> None:
    names = ["broker", "broker.node", "broker.storage", "kraft", "root"]
    assert levels.describe() == dict.fromkeys(names, "INFO")


def test_logger_has_the_level_of_the_nearest_one_above_it(levels: LogLevels) -> None:
    change(levels, "root", "ERROR")
    change(levels, "broker", "WARN")
    change(levels, "broker.node", "TRACE")
    assert levels.describe() == {
        "broker": "WARN",
        "broker.node": "TRACE",
        "broker.storage": "WARN",
        "kraft": "ERROR",
        "root": "ERROR",
    }
    change(levels, "broker", None)
    assert levels.describe()["broker.storage"] == "ERROR"
    assert levels.describe()["broker.node"] == "TRACE"


@pytest.mark.parametrize(
    ("level", "printed"),
    [
        ("TRACE", list(Level)),
        ("DEBUG", list(Level)),
        ("INFO", [Level.INFO, Level.WARNING, Level.ERROR]),
        ("WARN", [Level.WARNING, Level.ERROR]),
        ("ERROR", [Level.ERROR]),
        ("FATAL", []),
    ],
)
def test_level_lets_events_through(levels: LogLevels, level: str, printed: list[Level]) -> None:
    change(levels, "root", level)
    assert [each for each in Level if levels.prints("kraft", each)] == printed


def test_level_of_the_command_line_is_that_of_the_root() -> None:
    assert LogLevels(["kraft"], Level.DEBUG).describe() == {"kraft": "DEBUG", "root": "DEBUG"}
    assert LogLevels(level=Level.WARNING).describe() == {"root": "WARN"}


def test_listeners_are_called_after_each_change(levels: LogLevels) -> None:
    seen = []
    levels.add_listener(lambda: seen.append(levels.describe()["kraft"]))
    change(levels, "kraft", "DEBUG")
    change(levels, "kraft", None)
    assert seen == ["DEBUG", "INFO"]


@pytest.mark.parametrize(
    ("refused", "name", "message"),
    [
        (ConfigChange("broker.nod", SET, "INFO"), "INVALID_CONFIG", "Logger broker.nod does not exist!"),
        (ConfigChange("broker.nod", DELETE, None), "INVALID_CONFIG", "Logger broker.nod does not exist!"),
        (
            ConfigChange("kraft", SET, "LOUD"),
            "INVALID_CONFIG",
            "Cannot set the log level of kraft to LOUD as it is not a supported log level. Valid log levels are DEBUG, "
            "ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            ConfigChange("root", DELETE, None),
            "INVALID_REQUEST",
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ConfigChange("kraft", APPEND, "INFO"),
            "INVALID_REQUEST",
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ConfigChange("kraft", SUBTRACT, "INFO"),
            "INVALID_REQUEST",
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ConfigChange("kraft", 9, "INFO"),
            "INVALID_REQUEST",
            "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_invalid_change_of_a_logger_is_refused(
    levels: LogLevels, refused: ConfigChange, name: str, message: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        levels.check([ConfigChange("kraft", SET, "DEBUG"), refused])
    assert (caught.value.code.name, caught.value.message) == (name, message)
