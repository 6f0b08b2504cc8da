"""Telemetry of clients. The metrics of KIP-714 about the clients that push their own metrics to this broker.

A subscription names what clients push: prefixes of metrics, an interval, and the clients that are meant. Without
`match`, all of them are.

    kraft configs set client-metrics basics metrics=org.apache.kafka.consumer. interval.ms=30000
    kraft configs set client-metrics basics match=client_software_name=apache-kafka-java
    kraft configs describe client-metrics basics
    kraft configs delete client-metrics basics metrics interval.ms match

Kafka's own tool sets the same subscription:

    kafka-client-metrics.sh --bootstrap-server localhost:9092 --alter --name basics \\
        --metrics org.apache.kafka.consumer. --interval 30000 --match client_software_name=apache-kafka-java

The pushed metrics follow those in the table. They are named `kafka_client_` and the client's name of the metric without
`org.apache.kafka.`, such as `kafka_client_producer_record_send_total`; those of counters end in `_total`. Their labels
are `client_instance_id`, `client_id`, `client_software_name`, `client_software_version`, and the attributes that the
client has pushed. They are those of the broker that the client pushes to: after a change of that broker, counters begin
at 0 there. They end when the client was silent for three of its intervals, and for a minute at least.

A client instance has up to 2,000 series of 500 names with 1 MiB of text in a scrape, and all clients of a broker have
50,000 series of 2,000 names with 24 MiB. Further points are dropped and counted. A connection has one client instance:
after a push as another one, the series of the former one end. Series of clients that are gone make room for others.
Attributes whose names differ only in characters that Prometheus does not have in names become one label, with
their values joined by `;`. If names of metrics differ only so, the first metric is kept. A client cannot push labels of
its own identity. Values of counters that are negative or no numbers are dropped and counted. In OpenMetrics, a counter
is of type `unknown` while another pushed metric has its name without `_total`, or with `_created` in its place.
A push has up to 10,000 points, and 64 fields of OTLP for each; a larger one is refused with TELEMETRY_TOO_LARGE.
"""

from typing import Final

from broker.metrics.metric import counter, gauge

_CLIENT_METRICS: Final = "kafka.server:type=client-metrics"

INSTANCES: Final = gauge(
    "kafka_server_client_metrics_instance_count",
    "Client instances that have asked for their subscription and are connected",
    mbean=f"{_CLIENT_METRICS}: instance-count",
)
THROTTLED: Final = counter(
    "kafka_server_client_metrics_throttle_total",
    "Telemetry requests that came before the push interval was over",
    mbean=f"{_CLIENT_METRICS},client_instance_id=*: throttle-count",
)
UNKNOWN_SUBSCRIPTIONS: Final = counter(
    "kafka_server_client_metrics_unknown_subscription_request_total",
    "Pushes for a subscription that has changed",
    mbean=f"{_CLIENT_METRICS}: unknown-subscription-request-count",
)
PUSHES: Final = counter(
    "kafka_server_client_metrics_plugin_export_total",
    "Pushes that were decoded, or were to be",
    mbean=f"{_CLIENT_METRICS},client_instance_id=*: plugin-export-count",
)
INVALID_PUSHES: Final = counter(
    "kafka_server_client_metrics_plugin_error_total",
    "Pushes that were refused because of their content",
    mbean=f"{_CLIENT_METRICS},client_instance_id=*: plugin-error-count",
)
DROPPED_POINTS: Final = counter(
    "kafka_server_client_metrics_dropped_points_total",
    "Pushed values that were dropped because there were too many series, or another metric has the same name here",
)
SKIPPED_METRICS: Final = counter(
    "kafka_server_client_metrics_skipped_metrics_total",
    "Pushed metrics that were skipped because they are neither gauges nor sums",
)
