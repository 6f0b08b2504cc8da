"""Metrics, telemetry and the windows of quotas (MetricConfigs and QuotaConfig in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, no_empty_elements
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


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class MetricConfigs(ConfigValues):
    """Metrics and the windows of quotas."""

    metrics_num_samples = key(INT, 2, at_least(1), LOW,
        "Samples from which a metric is computed.", takes_effect=False)
    metrics_sample_window_ms = key(LONG, 30_000, at_least(1), LOW,
        "Length in ms of one sample.", takes_effect=False)
    metric_reporters = key(LIST, ("org.apache.kafka.common.metrics.JmxReporter",), no_empty_elements, LOW,
        "Classes that report metrics.", CLUSTER_WIDE, takes_effect=False)
    metrics_recording_level = key(STRING, "INFO", None, LOW,
        "The most detailed level of metrics that is recorded.", takes_effect=False)
    kafka_metrics_reporters = key(LIST, (), no_empty_elements, LOW,
        "Classes that report Apache Kafka's older metrics.", takes_effect=False)
    kafka_metrics_polling_interval_secs = key(INT, 10, at_least(1), LOW,
        "How often in seconds those classes are asked to report.", takes_effect=False)
    telemetry_max_bytes = key(INT, MIB, at_least(1), LOW,
        "Largest push of a client's metrics (KIP-714), as it is sent: after compression.")
    request_log_slow_ms = key(INT, -1, at_least(-1), LOW,
        "Not Kafka's: requests that take this many ms or longer are logged with the parts of their time; -1 logs none.",
        CLUSTER_WIDE)
    request_log_client_ids = key(LIST, (), None, LOW,
        "Not Kafka's: client ids whose requests are logged, without the content of records.", CLUSTER_WIDE)
    request_log_topics = key(LIST, (), None, LOW,
        "Not Kafka's: topics of which all requests are logged, without the content of records.", CLUSTER_WIDE)
    quota_window_num = key(INT, 11, at_least(1), LOW,
        "Samples that are kept for client quotas.")
    quota_window_size_seconds = key(INT, 1, at_least(1), LOW,
        "Length in seconds of a client quota's sample.")
    replication_quota_window_num = key(INT, 11, at_least(1), LOW,
        "Samples that are kept for replication quotas.")
    replication_quota_window_size_seconds = key(INT, 1, at_least(1), LOW,
        "Length in seconds of a replication quota's sample.")
    alter_log_dirs_replication_quota_window_num = key(INT, 11, at_least(1), LOW,
        "Samples that are kept for the quota on moves between log directories.")
    alter_log_dirs_replication_quota_window_size_seconds = key(INT, 1, at_least(1), LOW,
        "Length in seconds of such a sample.")
    controller_quota_window_num = key(INT, 11, at_least(1), LOW,
        "Samples that are kept for quotas on changes of metadata.")
    controller_quota_window_size_seconds = key(INT, 1, at_least(1), LOW,
        "Length in seconds of such a sample.")
    client_quota_callback_class = key(CLASS, None, None, LOW,
        "The class that decides on clients' quotas.", takes_effect=False)
# fmt: on
