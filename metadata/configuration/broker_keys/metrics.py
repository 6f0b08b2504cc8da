"""Metrics, telemetry and the windows of quotas (MetricConfigs and QuotaConfig in Kafka)."""

from metadata.configuration.definition import ConfigKey
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    MIB,
    STRING,
)

# A table: name, type, default, rule, importance; then what it means, and where it may change in a running broker.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("metrics.num.samples", INT, 2, at_least(1), LOW,
        "Samples from which a metric is computed."),
    ConfigKey("metrics.sample.window.ms", LONG, 30_000, at_least(1), LOW,
        "Length in ms of one sample."),
    ConfigKey("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), None, LOW,
        "Classes that report metrics.", CLUSTER_WIDE),
    ConfigKey("metrics.recording.level", STRING, "INFO", None, LOW,
        "The most detailed level of metrics that is recorded."),
    ConfigKey("kafka.metrics.reporters", LIST, (), None, LOW,
        "Classes that report Apache Kafka's older metrics."),
    ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW,
        "How often in seconds those classes are asked to report."),
    ConfigKey("telemetry.max.bytes", INT, MIB, at_least(1), LOW,
        "Largest telemetry message of a client (KIP-714), uncompressed."),
    ConfigKey("quota.window.num", INT, 11, at_least(1), LOW,
        "Samples that are kept for client quotas."),
    ConfigKey("quota.window.size.seconds", INT, 1, at_least(1), LOW,
        "Length in seconds of a client quota's sample."),
    ConfigKey("replication.quota.window.num", INT, 11, at_least(1), LOW,
        "Samples that are kept for replication quotas."),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW,
        "Length in seconds of a replication quota's sample."),
    ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), LOW,
        "Samples that are kept for the quota on moves between log directories."),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), LOW,
        "Length in seconds of such a sample."),
    ConfigKey("controller.quota.window.num", INT, 11, at_least(1), LOW,
        "Samples that are kept for quotas on changes of metadata."),
    ConfigKey("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW,
        "Length in seconds of such a sample."),
    ConfigKey("client.quota.callback.class", CLASS, None, None, LOW,
        "The class that decides on clients' quotas."),
)
# fmt: on
