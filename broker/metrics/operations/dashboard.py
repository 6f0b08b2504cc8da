"""The dashboard for Grafana, as the JSON that its import takes."""

import json
from typing import Any, Final

from broker.metrics.catalogue import clients, controller, coordinators, logs, process, replication, requests, topics
from broker.metrics.metric import Metric
from broker.metrics.operations.promql import mean, quantile, rate, total
from kraft import lazy_attrs

# Grafana replaces it by a window that fits the time between two scrapes.
_WINDOW: Final = "$__rate_interval"
_PANELS_IN_ROW: Final = 3
_WIDTH: Final = 24 // _PANELS_IN_ROW
_HEIGHT: Final = 8
_SCHEMA_VERSION: Final = 39


@lazy_attrs.frozen
class Query:
    """An expression, and the text of the legend, which may have `{{label}}` in it."""

    expression: str
    legend: str


@lazy_attrs.frozen
class Panel:
    """A graph over time. `unit` is one of Grafana's."""

    title: str
    unit: str
    queries: tuple[Query, ...]


@lazy_attrs.frozen
class Row:
    title: str
    panels: tuple[Panel, ...]


def _graph(title: str, unit: str, *queries: tuple[str, str]) -> Panel:
    return Panel(title, unit, tuple(Query(*query) for query in queries))


def _sums(title: str, unit: str, *metrics: tuple[Metric, str]) -> Panel:
    """Gauges, each added up over all nodes."""
    return _graph(title, unit, *((total(metric), legend) for metric, legend in metrics))


def _largest(metric: Metric) -> str:
    """The largest value of each client, as each broker throttles by itself."""
    return f"max by (user, client_id) ({metric.name})"


ROWS: Final = (
    Row(
        "Cluster",
        (
            _sums("Active controllers", "none", (controller.ACTIVE_CONTROLLER, "active controllers")),
            _graph(
                "Partitions in trouble",
                "none",
                (f"max({controller.OFFLINE_PARTITIONS.name})", "offline"),
                (total(replication.UNDER_MIN_ISR), "under min ISR"),
                (total(replication.UNDER_REPLICATED), "under-replicated"),
            ),
            _graph(
                "Brokers",
                "none",
                (f"max({controller.ACTIVE_BROKERS.name})", "active"),
                (f"max({controller.FENCED_BROKERS.name})", "fenced"),
                (total(process.IS_READY), "ready"),
            ),
            _graph(
                "Elections and ISR changes",
                "ops",
                (f"max(rate({controller.LEADER_ELECTIONS.name}[{_WINDOW}]))", "leader elections"),
                (f"max(rate({controller.UNCLEAN_ELECTIONS.name}[{_WINDOW}]))", "unclean"),
                (rate(replication.ISR_SHRINKS, _WINDOW), "ISR shrinks"),
                (rate(replication.ISR_EXPANDS, _WINDOW), "ISR expands"),
            ),
            _graph("Leaders by broker", "none", (total(replication.LEADER_COUNT, by=("instance",)), "{{instance}}")),
            _graph(
                "Metadata offset by node", "none", (total(controller.RAFT_LOG_END, by=("instance",)), "{{instance}}")
            ),
        ),
    ),
    Row(
        "Traffic",
        (
            _graph("Bytes in by topic", "Bps", (rate(topics.BYTES_IN, _WINDOW, by=("topic",)), "{{topic}}")),
            _graph("Bytes out by topic", "Bps", (rate(topics.BYTES_OUT, _WINDOW, by=("topic",)), "{{topic}}")),
            _graph("Records in by topic", "ops", (rate(topics.MESSAGES_IN, _WINDOW, by=("topic",)), "{{topic}}")),
            _graph(
                "Replication by broker",
                "Bps",
                (rate(topics.REPLICATION_BYTES_IN, _WINDOW, by=("instance",)), "{{instance}} in"),
                (rate(topics.REPLICATION_BYTES_OUT, _WINDOW, by=("instance",)), "{{instance}} out"),
            ),
            _graph(
                "Refused",
                "ops",
                (rate(topics.FAILED_PRODUCES, _WINDOW, by=("topic",)), "produce {{topic}}"),
                (rate(topics.FAILED_FETCHES, _WINDOW, by=("topic",)), "fetch {{topic}}"),
            ),
            _graph(
                "Follower lag by topic",
                "none",
                (f"max by (topic, replica) ({replication.FOLLOWER_LAG.name})", "{{topic}} on {{replica}}"),
            ),
            _graph(
                "Lag of copies for other log directories",
                "none",
                (f"max by (instance) ({replication.MOVE_MAX_LAG.name})", "{{instance}}"),
            ),
        ),
    ),
    Row(
        "Requests",
        (
            _graph("Requests by API", "reqps", (rate(requests.REQUESTS, _WINDOW, by=("request",)), "{{request}}")),
            _graph(
                "99th percentile of the time, by API",
                "ms",
                (quantile(0.99, requests.TOTAL_TIME, _WINDOW, by=("request",)), "{{request}}"),
            ),
            _graph(
                "Mean time by part",
                "ms",
                (mean(requests.REQUEST_QUEUE_TIME, _WINDOW, by=("request",)), "{{request}} queue"),
                (mean(requests.LOCAL_TIME, _WINDOW, by=("request",)), "{{request}} local"),
                (mean(requests.REMOTE_TIME, _WINDOW, by=("request",)), "{{request}} remote"),
                (mean(requests.THROTTLE_TIME, _WINDOW, by=("request",)), "{{request}} throttle"),
                (mean(requests.RESPONSE_QUEUE_TIME, _WINDOW, by=("request",)), "{{request}} response queue"),
                (mean(requests.RESPONSE_SEND_TIME, _WINDOW, by=("request",)), "{{request}} send"),
            ),
            _graph(
                "Waiting requests",
                "none",
                (total(replication.PURGATORY_SIZE, by=("delayed_operation",)), "{{delayed_operation}}"),
            ),
            _graph(
                "Connections by software",
                "none",
                (
                    total(clients.CONNECTIONS, by=("client_software_name", "client_software_version")),
                    "{{client_software_name}} {{client_software_version}}",
                ),
            ),
            _graph(
                "Connections per second",
                "ops",
                (rate(clients.CONNECTIONS_CREATED, _WINDOW, by=("listener",)), "{{listener}} accepted"),
                (rate(clients.CONNECTIONS_REFUSED, _WINDOW, by=("listener",)), "{{listener}} refused"),
            ),
        ),
    ),
    Row(
        "Groups, transactions and quotas",
        (
            _graph(
                "Lag by group and topic",
                "none",
                (total(coordinators.GROUP_LAG, by=("consumergroup", "topic")), "{{consumergroup}} {{topic}}"),
            ),
            _graph(
                "Groups", "none", (total(coordinators.GROUP_COUNT, by=("protocol", "state")), "{{protocol}} {{state}}")
            ),
            _graph("Transactions", "none", (total(coordinators.TRANSACTIONS, by=("state",)), "{{state}}")),
            _graph(
                "Clients with a quota: bytes",
                "Bps",
                (total(clients.PRODUCE_BYTE_RATE, by=("user", "client_id")), "{{user}} {{client_id}} produce"),
                (total(clients.FETCH_BYTE_RATE, by=("user", "client_id")), "{{user}} {{client_id}} fetch"),
            ),
            _graph(
                "Clients with a quota: throttle time",
                "ms",
                (_largest(clients.PRODUCE_THROTTLE_TIME), "{{user}} {{client_id}} produce"),
                (_largest(clients.FETCH_THROTTLE_TIME), "{{user}} {{client_id}} fetch"),
                (_largest(clients.REQUEST_THROTTLE_TIME), "{{user}} {{client_id}} request"),
            ),
            _graph(
                "Clients with a quota: event loop",
                "percent",
                (total(clients.REQUEST_TIME, by=("user", "client_id")), "{{user}} {{client_id}}"),
            ),
        ),
    ),
    Row(
        "Nodes",
        (
            _graph("Log size by broker", "bytes", (total(logs.LOG_SIZE, by=("instance",)), "{{instance}}")),
            _graph("Free space", "bytes", (logs.DIRECTORY_FREE_BYTES.name, "{{instance}} {{logdirectory}}")),
            _graph(
                "99th percentile of fsyncs",
                "ms",
                (quantile(0.99, logs.FSYNC_TIME, _WINDOW, by=("instance",)), "{{instance}}"),
            ),
            _graph(
                "99th percentile of the event loop's delay",
                "ms",
                (quantile(0.99, process.LOOP_LAG, _WINDOW, by=("instance",)), "{{instance}}"),
            ),
            _graph("CPU", "percentunit", (rate(process.CPU_SECONDS, _WINDOW, by=("instance",)), "{{instance}}")),
            _graph(
                "Garbage collection", "percentunit", (rate(process.GC_TIME, _WINDOW, by=("instance",)), "{{instance}}")
            ),
            _graph("Memory", "bytes", (process.RESIDENT_MEMORY.name, "{{instance}}")),
            _graph("Open files and connections", "none", (process.OPEN_DESCRIPTORS.name, "{{instance}}")),
        ),
    ),
)


def dashboard() -> str:
    """The dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        position = {"x": 0, "y": y, "w": 24, "h": 1}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": position, "panels": []})
        y += 1
        for number, panel in enumerate(row.panels):
            x, below = number % _PANELS_IN_ROW * _WIDTH, number // _PANELS_IN_ROW * _HEIGHT
            position = {"x": x, "y": y + below, "w": _WIDTH, "h": _HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, position))
        y += -(-len(row.panels) // _PANELS_IN_ROW) * _HEIGHT
    content = {
        "uid": "kraft",
        "title": "Kraft",
        "description": "Made by `make docs` from broker/metrics/operations/dashboard.py",
        "schemaVersion": _SCHEMA_VERSION,
        "tags": ["kafka", "kraft"],
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(content, indent=1) + "\n"


def _panel(panel: Panel, panel_id: int, position: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": panel_id,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": source,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    print(dashboard(), end="")
