"""The options and the results of simulated runs of an application."""

from collections.abc import Mapping, Sequence

import attrs

from broker.client import NewTopic
from jepsen.simulation.applications.arguments import (
    check_nodes,
    check_seconds,
    checks,
    config_texts,
    error_types,
    named_applications,
    new_topics,
)
from jepsen.simulation.applications.faults import faults_of
from jepsen.simulation.applications.machine import Application
from jepsen.simulation.applications.timeline import TimelineEntry
from jepsen.simulation.applications.view import Check


@attrs.frozen
class Plan:
    """The options of all runs, see `simulate`. `faults` are the names of the simulator's faults."""

    applications: Mapping[str, Application] = attrs.field(converter=named_applications)
    nodes: int = attrs.field(validator=check_nodes)
    faults: Sequence[str] = attrs.field(converter=faults_of)
    seconds: float = attrs.field(validator=check_seconds)
    recovery_seconds: float = attrs.field(validator=check_seconds)
    topics: Sequence[NewTopic] = attrs.field(converter=new_topics)
    always: Sequence[Check] = attrs.field(converter=checks)
    eventually: Sequence[Check] = attrs.field(converter=checks)
    restart_on: tuple[type[Exception], ...] = attrs.field(converter=error_types)
    configs: Mapping[str, str] = attrs.field(converter=config_texts)
    step_seconds_max: float = attrs.field(validator=[check_seconds, attrs.validators.gt(0)])


@attrs.frozen
class SimulatedRun:
    """The result of one seed.

    `digest` is a hash of all that happened: two runs with the same digest are the same. `failure` is None, or says what
    was wrong and where. `faults` counts those that were injected, by name. `timeline`
    says what happened; `print(*run.timeline, sep="\n")` prints it.
    """

    seed: int
    digest: str
    failure: str | None
    virtual_seconds: float
    cpu_seconds: float
    faults: Mapping[str, int]
    timeline: Sequence[TimelineEntry]
