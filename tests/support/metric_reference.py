"""Generates docs/metrics.md, the reference of the metrics, from their catalogue: `make docs`."""

from broker.metrics.catalogue import SECTIONS, Section
from broker.metrics.metric import Metric

_HEAD = """# Metrics

A node with `http.listener=127.0.0.1:9404` serves HTTP there. Port 0 is any free port; the node says which when it
starts. There is no authentication: listen on an address that only operators reach.

| path | answer |
|---|---|
| `/metrics` | all metrics, in Prometheus' text format, or in OpenMetrics for a client that accepts it |
| `/healthz` | 200 while the event loop runs |
| `/readyz` | 200 while the node serves its clients; 503, with the reasons, while it starts, stops or is fenced |

The supervisor of several brokers ([host-brokers.md](host-brokers.md#metrics)) has one page for all of them.

Clients of this port cannot lock out each other. When 16 connections wait for a request, or send one slowly, the one
that has waited longest is closed. When 8 do not take their responses, the first of them is. Two scrapes run at a time,
and a third gets 503; a reader that took more than a second too long makes room for it.

The names are those of Kafka's MBeans, spelled as the usual rules of Prometheus' JMX exporter spell them: a rate
`...PerSec` becomes a counter `..._total`, of which `rate()` makes the rate again. The column "Kafka" has the MBean with
the same meaning. Histograms are real ones, where Kafka reports quantiles, so they can be added over brokers. Times are
in milliseconds where Kafka's are.

Values are read from the state of the node when they are scraped. A series ends with what it describes: a deleted topic,
a closed connection, a client that is idle, a group without offsets. Series per partition are on the replicas of the
partition, those about the ISR on its leader. A scrape with 100,000 partitions holds the event loop for a few
milliseconds at a time; other requests are served in between.

The dashboard `docs/dashboards/kraft.json` for Grafana and the alert rules `docs/dashboards/alerts.yml` for Prometheus
are made from the same catalogue:

    scrape_configs:
      - job_name: kraft
        static_configs: [{targets: ["127.0.0.1:9404"]}]
    rule_files: ["docs/dashboards/alerts.yml"]

`make test-prometheus` has Prometheus scrape three nodes, of which two are killed and started again, and waits until the
alerts fire and resolve. With `ARGS="--prometheus-plots docs/images"` it draws what queries of the dashboard return:

![Queries of the dashboard while two of three nodes are killed and started again](images/metrics.svg)

This page is made by `make docs` from `broker/metrics/catalogue`, and a test checks that it is up to date.
"""


def metric_reference() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(map(_section, SECTIONS))


def _section(section: Section) -> str:
    rows = "".join(map(_row, section.metrics))
    table = f"| metric | type | unit | meaning | Kafka |\n|---|---|---|---|---|\n{rows}"
    return f"\n## {section.title}\n{section.text}\n{table}"


def _row(metric: Metric) -> str:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    kafka = f"`{metric.mbean}`" if metric.mbean else ""
    return f"| `{metric.name}{labels}` | {metric.type.value} | {metric.unit.value} | {metric.help} | {kafka} |\n"


if __name__ == "__main__":
    print(metric_reference(), end="")
