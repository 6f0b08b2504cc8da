"""The arguments of `simulate`, which are checked and brought into one form."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.client import NewTopic
from jepsen.simulation.applications.machine import Application
from jepsen.simulation.applications.view import Check

# Names of machines that the simulator has, or may have.
_RESERVED: Final = ("admin", "localhost", "nemesis")


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
        is_like_node = name[:1] == "n" and name[1:].isdigit()
        if not name or is_like_node or name in _RESERVED:
            raise ValueError(f"a process cannot be called {name!r}: the simulator has a machine of that name")
    return named


def _is_async(function: Application) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def new_topics(topics: Mapping[str, int] | Iterable[NewTopic]) -> list[NewTopic]:
    if isinstance(topics, Mapping):
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
    return given if isinstance(given, tuple) else (given,)
