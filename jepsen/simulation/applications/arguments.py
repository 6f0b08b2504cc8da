"""The arguments of `simulate`, which are checked and brought into one form."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from broker.client import NewTopic
from jepsen.simulation.applications.machine import Application
from jepsen.simulation.applications.view import Check

# Names of machines that the simulator has, or may have.
_RESERVED: Final = ("admin", "localhost", "nemesis")
# Names of processes are names of hosts and of directories.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_NODES_MAX: Final = 100
# Eleven days. Larger numbers are mistakes: infinity, for example.
_SECONDS_MAX: Final = 1_000_000


def named_applications(
    application: Application | Mapping[str, Application] | Sequence[Application],
) -> dict[str, Application]:
    if isinstance(application, Mapping):
        named = dict(application)
    else:
        functions = list(application) if isinstance(application, Sequence) else [application]
        names = [getattr(each, "__name__", "application") for each in functions]
        named = {}
        for at, (name, function) in enumerate(zip(names, functions, strict=True)):
            named[name if names.count(name) == 1 else f"{name}-{names[: at + 1].count(name)}"] = function
    if not named:
        raise ValueError("application has to have at least one process")
    for name, function in named.items():
        if not callable(function) or not _is_async(function):
            raise TypeError(f"{name} has to be an async function that takes a Machine, not {function!r}")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"a process cannot be called {name!r}: letters, digits, '_', '-' and '.' make a name")
        is_like_node = name[:1] == "n" and name[1:].isdigit()
        if is_like_node or name in _RESERVED:
            raise ValueError(f"a process cannot be called {name!r}: the simulator has a machine of that name")
    return named


def _is_async(function: Application) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def new_topics(topics: Mapping[str, int] | Iterable[NewTopic]) -> list[NewTopic]:
    if isinstance(topics, Mapping):
        for name, partitions in topics.items():
            if not isinstance(name, str) or type(partitions) is not int:
                raise TypeError(f"topics has to map names to numbers of partitions, not {name!r} to {partitions!r}")
        return [NewTopic(name, partitions) for name, partitions in topics.items()]
    made = list(topics)
    for topic in made:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"topics has to map names to numbers of partitions, or to be NewTopics, not {topic!r}")
    return made


def checks(given: Check | Sequence[Check]) -> tuple[Check, ...]:
    found = tuple(given) if isinstance(given, Sequence) else (given,)
    for check in found:
        if not callable(check) or inspect.iscoroutinefunction(check):
            raise TypeError(f"a check has to be a plain function that takes a SimulatedCluster, not {check!r}")
    return found


def config_texts(config: Mapping[str, object] | None) -> dict[str, str]:
    """The configs as texts, as Kafka writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (config or {}).items()
    }


def error_types(given: type[Exception] | tuple[type[Exception], ...]) -> tuple[type[Exception], ...]:
    found = given if isinstance(given, tuple) else (given,)
    for error in found:
        if not isinstance(error, type) or not issubclass(error, Exception):
            raise TypeError(f"restart_on has to be a class of exceptions or a tuple of them, not {error!r}")
    return found


def check_nodes(plan: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """A validator of a number of nodes. Raises ValueError."""
    if type(value) is not int or not 1 <= value <= _NODES_MAX:
        raise ValueError(f"{attribute.name} has to be an integer from 1 to {_NODES_MAX}, not {value!r}")


def check_seconds(plan: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """A validator of a number of seconds. Raises ValueError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _SECONDS_MAX:
        raise ValueError(f"{attribute.name} has to be a number from 0 to {_SECONDS_MAX}, not {value!r}")
