"""Prometheus scrapes three nodes while some are killed and restarted: its alerts fire, and resolve again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.metrics.catalogue import METRICS
from broker.metrics.operations import ALERTS, ROWS, alert_rules
from jepsen.processes.ports import free_ports
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.metric_plots import Plot, legend, plots
from tests.support.prometheus import Prometheus, Unavailable, find, prometheus

TOPIC = "orders"
PARTITIONS = 6
ENDS_OF_CONSUMED = (
    "sum(max by (topic, partition) (kafka_log_log_logendoffset) "
    "and on (topic, partition) kafka_consumergroup_current_offset)"
)
# The alerts wait for seconds instead of minutes.
TIME_SCALE = 1 / 60
# A partition with one replica would elect it uncleanly after kill -9, because it may have lost records (KIP-966).
# That alert lasts for ten minutes.
OVERRIDES = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
}
# The panels of the dashboard that the faults of this test change.
SHOWN = ("Partitions in trouble", "Brokers", "Leaders by broker", "Records in by topic", "Requests by API")
# A busy machine may hold the loops of all nodes, and delay their disks.
OF_THE_MACHINE = {"KraftEventLoopHeld", "KraftSlowFsync", "KraftSlowProduce", "KraftDiskNearlyFull"}
# The group of this test reads no further than it has to.
OF_THE_TEST = {"KraftGroupStuck"}


@pytest.fixture
def cluster(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[ClusterProcess]:
    if not pytestconfig.getoption("--prometheus"):
        pytest.skip("`make test-prometheus` runs this with Prometheus itself")
    try:
        find("prometheus")
    except Unavailable as why:
        pytest.skip(str(why))
    with new_cluster(tmp_path, overrides=OVERRIDES) as cluster:
        for node, port in zip(cluster.nodes.values(), free_ports(3), strict=True):
            node.overrides["http.listener"] = f"127.0.0.1:{port}"
        cluster.start()
        yield cluster


class Load:
    """A producer, and a group that has consumed half of its records."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        self._consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )

    def produce(self, count: int, *, is_delivered: bool = True) -> None:
        for _ in range(count):
            self._producer.produce(TOPIC, b"x" * 200)
        assert not self._producer.flush(30 if is_delivered else 0) or not is_delivered

    def consume(self, count: int) -> int:
        """Consume about so many records, leave the group, and return how many are committed."""
        self._consumer.subscribe([TOPIC])
        while count > 0:
            count -= len(self._consumer.consume(min(count, 50), 1.0))
        self._consumer.commit(asynchronous=False)
        partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        committed = sum(max(0, each.offset) for each in self._consumer.committed(partitions, timeout=30))
        self._consumer.close()
        return committed


@pytest.mark.clients
def test_alerts_fire_and_resolve_through_kills_and_restarts(
    cluster: ClusterProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    targets = [node.overrides["http.listener"] for node in cluster.nodes.values()]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3)])[TOPIC].result()
    load = Load(cluster)
    with prometheus(tmp_path / "prometheus", targets, alert_rules(TIME_SCALE)) as running:
        began, events = time.time(), list[tuple[float, str]]()
        running.wait_for(lambda: running.value("sum(up)") == 3, "three targets are up")
        check_rules_and_queries(running)
        check_values(running, load)
        running.wait_for(lambda: not firing(running), "no alert fires before the faults")

        controller = cluster.controller_id()
        first, second = (node_id for node_id in cluster.nodes if node_id != controller)
        cluster.nodes[first].kill()
        events.append((time.time(), f"kill node {first}"))
        expected = {"KraftNodeDown", "KraftUnderReplicated", "KraftFencedBrokers", "KraftVoterDown"}
        running.wait_for(lambda: expected <= firing(running), f"{expected} fire")
        load.produce(500)
        cluster.nodes[second].kill()
        events.append((time.time(), f"kill node {second}"))
        running.wait_for(lambda: "KraftNoActiveController" in firing(running), "there is no majority")

        for node_id in (first, second):
            events.append((time.time(), f"start node {node_id}"))
            cluster.nodes[node_id].start()
        running.wait_for(lambda: not firing(running), "all alerts resolve")
        load.produce(500)
        running.wait_for(
            lambda: running.value(f'max(kafka_log_log_logendoffset{{topic="{TOPIC}"}})') is not None, "scraped"
        )
        time.sleep(3)  # some more points for the plot
        directory = request.config.getoption("--prometheus-plots")
        if directory:
            image = plots(list(queried(running, began)), began, events)
            (Path(directory) / "metrics.svg").write_text(image)


def firing(running: Prometheus) -> set[str]:
    """The alerts that fire, besides those that a busy machine may cause, and those of the test's own group."""
    return {name for name, state in running.alerts().items() if state == "firing"} - OF_THE_MACHINE - OF_THE_TEST


def check_rules_and_queries(running: Prometheus) -> None:
    """Prometheus has evaluated every rule, answers every query of the dashboard, and knows each metric's type."""

    def rules() -> dict[str, str]:
        return {rule["name"]: rule["health"] for group in running.ask("rules")["groups"] for rule in group["rules"]}

    running.wait_for(lambda: rules() == dict.fromkeys((alert.name for alert in ALERTS), "ok"), "all rules evaluated")
    for row in ROWS:
        for panel in row.panels:
            for query in panel.queries:
                running.ask("query", query=query.expression.replace("$__rate_interval", "1m"))
    known = running.ask("metadata")
    for name, metric in METRICS.items():
        described = known.get(name) or known[name.removesuffix("_total")]
        assert described[0]["type"] == metric.type.value, name


def check_values(running: Prometheus, load: Load) -> None:
    """The sums over all nodes are what the clients have done."""
    load.produce(1_000)
    committed = load.consume(400)
    for expression, expected in (
        (f'sum(kafka_server_brokertopicmetrics_messagesin_total{{topic="{TOPIC}"}})', 1_000),
        (f'sum(max by (partition) (kafka_log_log_logendoffset{{topic="{TOPIC}"}}))', 1_000),
        (f'sum(kafka_consumergroup_current_offset{{topic="{TOPIC}"}})', committed),
        # Only partitions with a committed offset have a lag.
        (f"{ENDS_OF_CONSUMED} - sum(kafka_consumergroup_lag)", committed),
        ("sum(kafka_server_replicamanager_underreplicatedpartitions)", 0),
        ("sum(kafka_controller_kafkacontroller_activecontrollercount)", 1),
        ("max(kafka_controller_kafkacontroller_activebrokercount)", 3),
        (f'sum(kafka_cluster_partition_insyncreplicascount{{topic="{TOPIC}"}})', 18),
    ):
        running.wait_for(lambda: running.value(expression) == expected, f"{expression} is {expected}")  # noqa: B023


def queried(running: Prometheus, began: float) -> Iterator[Plot]:
    """The results of the dashboard's queries that the faults change."""
    for row in ROWS:
        for panel in row.panels:
            if panel.title in SHOWN:
                series = [
                    (legend(query.legend, labels), points)
                    for query in panel.queries
                    for labels, points in running.series(query.expression.replace("$__rate_interval", "10s"), began, 1)
                ]
                series.sort(key=lambda each: -max(float(value) for _, value in each[1]))
                yield Plot(panel.title, series)
