"""The metrics that clients have pushed (KIP-714), and those about the pushes."""

from collections.abc import Iterable
from typing import Final

from broker.metrics.catalogue import telemetry
from broker.metrics.metric import Family, Metric, MetricType, Sample
from broker.telemetry import ClientTelemetry, PushedFamily

_HELP: Final = "Pushed by clients (KIP-714)"


class TelemetryCollector:
    """Reads the telemetry of a broker's clients."""

    def __init__(self, clients: ClientTelemetry) -> None:
        self._clients = clients

    def collect(self) -> Iterable[Family]:
        clients, counts = self._clients, self._clients.counts
        yield telemetry.INSTANCES.single(clients.instance_count)
        yield telemetry.THROTTLED.single(counts.throttled)
        yield telemetry.UNKNOWN_SUBSCRIPTIONS.single(counts.unknown_subscriptions)
        yield telemetry.PUSHES.single(counts.pushes)
        yield telemetry.INVALID_PUSHES.single(counts.invalid_pushes)
        yield telemetry.DROPPED_POINTS.single(clients.dropped_points)
        yield telemetry.SKIPPED_METRICS.single(counts.skipped_metrics)
        for family in clients.families():
            yield family_of(family)


def family_of(pushed: PushedFamily) -> Family:
    kind = MetricType.COUNTER if pushed.is_counter else MetricType.GAUGE
    metric = Metric(pushed.name, kind, _HELP, is_alone=pushed.is_alone)
    return metric, (Sample(*series) for series in pushed.series)
