"""The dashboard for Grafana and the alert rules for Prometheus, made from the catalogue: `make docs`."""

from broker.metrics.operations.alerts import ALERTS, Alert, alert_rules
from broker.metrics.operations.dashboard import ROWS, Panel, Query, Row, dashboard

__all__ = ["ALERTS", "ROWS", "Alert", "Panel", "Query", "Row", "alert_rules", "dashboard"]
