"""Client telemetry (KIP-714): what clients are asked to push, and the metrics that they have pushed."""

from broker.telemetry.client_telemetry import ClientTelemetry, TelemetryClient, TelemetryLimits
from broker.telemetry.pushed_metrics import PushedFamily

__all__ = ["ClientTelemetry", "PushedFamily", "TelemetryClient", "TelemetryLimits"]
