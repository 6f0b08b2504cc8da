"""The alert rules. Their expressions name metrics by the objects of the catalogue, so that they cannot drift."""

import json
from typing import Final

from broker.metrics.catalogue import clients, controller, coordinators, logs, process, replication, requests
from broker.metrics.operations.promql import quantile
from kraft import lazy_attrs

_CRITICAL: Final = "critical"
_WARNING: Final = "warning"


@lazy_attrs.frozen
class Alert:
    """A rule. It fires when `expression` has had a result for `for_s` seconds. `summary` may use `{{ $labels.x }}`."""

    name: str
    expression: str
    for_s: int
    severity: str
    summary: str


ALERTS: Final = (
    Alert("KraftNodeDown", 'up{job="kraft"} == 0', 60, _CRITICAL, "{{ $labels.instance }} does not answer"),
    Alert(
        "KraftNotReady",
        f"{process.IS_READY.name} == 0",
        300,
        _WARNING,
        "{{ $labels.instance }} runs, and does not serve its clients; /readyz says why",
    ),
    Alert(
        "KraftNoActiveController",
        f"(sum({controller.ACTIVE_CONTROLLER.name}) or vector(0)) < 1",
        60,
        _CRITICAL,
        "There is no active controller: leaders cannot be elected, topics cannot be changed",
    ),
    Alert(
        "KraftSeveralActiveControllers",
        f"sum({controller.ACTIVE_CONTROLLER.name}) > 1",
        60,
        _CRITICAL,
        "{{ $value }} nodes take themselves for the active controller",
    ),
    Alert(
        "KraftVoterDown",
        f"max({controller.RAFT_SILENT_VOTERS.name}) > 0",
        60,
        _WARNING,
        "{{ $value }} voters of the quorum do not fetch from its leader: they are down, or have another disk",
    ),
    Alert(
        "KraftOfflinePartitions",
        f"max({controller.OFFLINE_PARTITIONS.name}) > 0",
        60,
        _CRITICAL,
        "{{ $value }} partitions have no leader: they can be neither read nor written",
    ),
    Alert(
        "KraftUnderMinIsr",
        f"sum({replication.UNDER_MIN_ISR.name}) > 0",
        60,
        _CRITICAL,
        "{{ $value }} partitions have fewer replicas in sync than min.insync.replicas: acks=all fails",
    ),
    Alert(
        "KraftUnderReplicated",
        f"sum({replication.UNDER_REPLICATED.name}) > 0",
        300,
        _WARNING,
        "{{ $value }} partitions have fewer replicas in sync than assigned",
    ),
    Alert(
        "KraftFencedBrokers",
        f"max({controller.FENCED_BROKERS.name}) > 0",
        300,
        _WARNING,
        "{{ $value }} registered brokers are fenced",
    ),
    Alert(
        "KraftUncleanElection",
        f"max(increase({controller.UNCLEAN_ELECTIONS.name}[10m])) > 0",
        0,
        _CRITICAL,
        "A replica was elected that was neither in sync nor eligible: acknowledged records may be lost",
    ),
    Alert(
        "KraftLogDirectoryOffline",
        f"{logs.DIRECTORY_OFFLINE.name} > 0",
        0,
        _CRITICAL,
        "The log directory {{ $labels.logdirectory }} of {{ $labels.instance }} failed",
    ),
    Alert(
        "KraftDamagedReplicas",
        f"{replication.DAMAGED_REPLICA_COUNT.name} > 0",
        0,
        _CRITICAL,
        "{{ $value }} replicas of {{ $labels.instance }} are damaged; `kraft cluster health` says what repairs them",
    ),
    Alert(
        "KraftDiskNearlyFull",
        f"{logs.DIRECTORY_FREE_BYTES.name} / {logs.DIRECTORY_TOTAL_BYTES.name} < 0.1",
        300,
        _WARNING,
        "Less than a tenth of the volume of {{ $labels.logdirectory }} on {{ $labels.instance }} is free",
    ),
    Alert(
        "KraftDamageFound",
        f"increase({logs.SCRUB_DAMAGED.name}[60m]) > 0",
        0,
        _WARNING,
        "The scrubber has found damaged files on {{ $labels.instance }}: its disk, or its memory, may fail",
    ),
    Alert(
        "KraftMetadataDamaged",
        f"{logs.SCRUB_UNREPAIRED.name} > 0",
        300,
        _CRITICAL,
        "{{ $value }} files of the metadata log of {{ $labels.instance }} are damaged, and were not replaced",
    ),
    Alert(
        "KraftSlowFsync",
        f"{quantile(0.99, logs.FSYNC_TIME, '5m', by=('instance',))} > 1000",
        300,
        _WARNING,
        "An fsync on {{ $labels.instance }} takes {{ $value }} ms (99th percentile)",
    ),
    Alert(
        "KraftEventLoopHeld",
        f"{quantile(0.99, process.LOOP_LAG, '5m', by=('instance',))} > 100",
        300,
        _WARNING,
        "The event loop of {{ $labels.instance }} is late by {{ $value }} ms (99th percentile)",
    ),
    Alert(
        "KraftSlowProduce",
        f"{quantile(0.99, requests.TOTAL_TIME, '5m', by=('instance',), where={'request': 'Produce'})} > 1000",
        300,
        _WARNING,
        "Produce requests to {{ $labels.instance }} take {{ $value }} ms (99th percentile)",
    ),
    Alert(
        "KraftGroupStuck",
        f"{coordinators.GROUP_LAG.name} > 0 and changes({coordinators.GROUP_OFFSET.name}[10m]) == 0",
        600,
        _WARNING,
        "The group {{ $labels.consumergroup }} does not move on in {{ $labels.topic }}-{{ $labels.partition }}",
    ),
    Alert(
        "KraftConnectionsRefused",
        f"rate({clients.CONNECTIONS_REFUSED.name}[5m]) > 1",
        300,
        _WARNING,
        "The listener {{ $labels.listener }} of {{ $labels.instance }} refuses connections because of a limit",
    ),
    *(
        Alert(
            f"KraftClientThrottled{what}",
            f"max by (user, client_id) ({metric.name}) > 1000",
            300,
            _WARNING,
            f"The quota {key} of {{{{ $labels.user }}}} {{{{ $labels.client_id }}}} makes clients pause for "
            "{{ $value }} ms after each request",
        )
        for what, metric, key in (
            ("Producing", clients.PRODUCE_THROTTLE_TIME, "producer_byte_rate"),
            ("Fetching", clients.FETCH_THROTTLE_TIME, "consumer_byte_rate"),
        )
    ),
    Alert(
        "KraftClockOff",
        f"abs({process.WALL_CLOCK.name} - timestamp({process.WALL_CLOCK.name})) > 10",
        60,
        _WARNING,
        "The clock of {{ $labels.instance }} is {{ $value }} s off that of Prometheus: retention is wrong",
    ),
    Alert(
        "KraftDescriptorsRunOut",
        f"{process.OPEN_DESCRIPTORS.name} / {process.MAX_DESCRIPTORS.name} > 0.85",
        300,
        _WARNING,
        "{{ $labels.instance }} has nearly as many files and connections open as it may",
    ),
)


def alert_rules(time_scale: float = 1.0) -> str:
    """The rules as Prometheus' YAML. Tests shorten the times with `time_scale`."""
    lines = [
        "# Made by `make docs` from broker/metrics/operations/alerts.py. Do not edit it.",
        "groups:",
        "  - name: kraft",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {max(1, round(alert.for_s * time_scale)) if alert.for_s else 0}s",
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(alert_rules(), end="")
