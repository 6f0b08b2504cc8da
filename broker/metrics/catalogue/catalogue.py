"""Joins the metrics of all subjects, in the order of docs/metrics.md."""

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from broker.metrics.catalogue import (
    clients,
    controller,
    coordinators,
    logs,
    process,
    replication,
    requests,
    shares,
    telemetry,
    topics,
)
from broker.metrics.metric import Metric
from kraft import lazy_attrs


@lazy_attrs.frozen
class Section:
    """The metrics of one subject. `text` explains them, in paragraphs."""

    title: str
    text: str
    metrics: tuple[Metric, ...]


def _section(module: ModuleType) -> Section:
    title, _, text = (module.__doc__ or "").partition(".")
    return Section(
        title, f"\n{text.strip()}\n", tuple(value for value in vars(module).values() if isinstance(value, Metric))
    )


SECTIONS: Final = tuple(
    map(_section, (topics, requests, clients, replication, logs, controller, coordinators, shares, process, telemetry))
)
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for section in SECTIONS for metric in section.metrics}
assert len(METRICS) == sum(len(section.metrics) for section in SECTIONS), "each name is declared once"
