"""The dashboard and the alert rules name metrics and labels of the catalogue only, and are up to date."""

import json
import re

import pytest

from broker.metrics.catalogue import METRICS
from broker.metrics.metric import MetricType
from broker.metrics.operations import ALERTS, ROWS, alert_rules, dashboard
from tests.support.promql_names import Names, names_of
from tests.support.source_code import ROOT

# Prometheus adds these labels and this metric.
OF_PROMETHEUS = {"instance", "job"}
UP = "up"

QUERIES = [(query.expression, query.legend) for row in ROWS for panel in row.panels for query in panel.queries]
EXPRESSIONS = [expression for expression, _ in QUERIES] + [alert.expression for alert in ALERTS]


def labels_of(name: str) -> set[str]:
    """The labels of a series. Raises KeyError for a name that no metric has."""
    if name == UP:
        return OF_PROMETHEUS
    metric = METRICS.get(name)
    if metric is None:
        base, _, part = name.rpartition("_")
        metric = METRICS[base]
        assert metric.type is MetricType.HISTOGRAM
        assert part in ("bucket", "sum", "count")
        return {*metric.labels, *OF_PROMETHEUS, *(["le"] if part == "bucket" else [])}
    assert metric.type is not MetricType.HISTOGRAM, f"{name} has only buckets, a sum and a count"
    return {*metric.labels, *OF_PROMETHEUS}


def check(expression: str) -> Names:
    names = names_of(expression)
    assert names.metrics
    for metric in names.metrics:
        assert names.grouped | names.selected <= labels_of(metric), f"labels of {metric} in {expression}"
    assert all(re.fullmatch(r"\d+[sm]|\$__rate_interval", window) for window in names.windows)
    return names


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_use_metrics_and_labels_of_the_catalogue(expression: str) -> None:
    check(expression)


@pytest.mark.parametrize(("expression", "legend"), QUERIES)
def test_legends_use_labels_of_the_result(expression: str, legend: str) -> None:
    names = names_of(expression)
    labels = names.grouped or set.intersection(*map(labels_of, names.metrics))
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels


def test_summaries_of_alerts_use_labels_of_the_result() -> None:
    for alert in ALERTS:
        names = names_of(alert.expression)
        labels = names.grouped or set.intersection(*map(labels_of, names.metrics))
        if alert.expression.startswith(("sum(", "max(", "(sum(")):
            labels = set()
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= labels, alert.name


@pytest.mark.parametrize(
    "expression",
    [
        "sum(kafka_server_no_such_metric)",
        "sum by (colour) (kafka_log_log_size)",
        'kafka_log_log_size{partitions="0"}',
        "kafka_log_logflushstats_logflushtimems",
        "rate(kafka_log_logflushstats_logflushtimems_total[5m])",
        "sum(kafka_log_log_size",
    ],
)
def test_check_finds_names_that_do_not_exist(expression: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(expression)


def test_files_are_up_to_date() -> None:
    assert (ROOT / "docs" / "dashboards" / "kraft.json").read_text() == dashboard(), "make docs"
    assert (ROOT / "docs" / "dashboards" / "alerts.yml").read_text() == alert_rules(), "make docs"


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = json.loads(dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


def test_most_metrics_of_the_catalogue_are_shown() -> None:
    shown = {metric for expression in EXPRESSIONS for metric in names_of(expression).metrics}
    families = {name if name in METRICS else name.rpartition("_")[0] for name in shown} - {""}
    assert len(families & set(METRICS)) > len(METRICS) / 2
