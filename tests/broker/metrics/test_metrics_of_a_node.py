"""The values of the metrics, compared with what real clients have done."""

from contextlib import suppress
from pathlib import Path

import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from broker.metrics.catalogue import METRICS
from tests.support.linux import HAS_PROC, reads_proc
from tests.support.log_dir_moves import held_move, set_quota, two_directories, until
from tests.support.running_node import RunningNode, running_node
from tests.support.scraped_metrics import OPEN_METRICS, Scrape, get, scrape
from tests.support.wire_client import connected

RECORDS = 1_000
CONSUMED = 600
PATIENCE_S = 8.0


def http_port(running: RunningNode) -> int:
    return next(bound.port for bound in running.node.bound if bound.listener.name == "HTTP")


def produce(port: int, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 5})
    for _ in range(count):
        producer.produce(topic, b"x" * 100, partition=0)
    producer.flush()


def consume(port: int, topic: str, count: int) -> Consumer:
    """A member of a group that has consumed and committed so many records, and stays."""
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    consumed = 0
    while consumed < count:
        consumed += len(consumer.consume(min(100, count - consumed), 1.0))
    consumer.commit(asynchronous=False)
    return consumer


def delete_topic(port: int, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result()


async def test_values_are_those_of_the_traffic(tmp_path: Path) -> None:
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        port = http_port(running)
        await trio.to_thread.run_sync(produce, running.port, "orders", RECORDS)
        consumer = await trio.to_thread.run_sync(consume, running.port, "orders", CONSUMED)
        found = await scrape(port)
        for name in ("messagesin_total", "bytesin_total", "bytesout_total"):
            assert found.value(f"kafka_server_brokertopicmetrics_{name}", topic="orders") > 0
        assert found.value("kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == RECORDS
        size = found.value("kafka_log_log_size", topic="orders")
        assert found.value("kafka_server_brokertopicmetrics_bytesin_total", topic="orders") == size
        assert found.value("kafka_log_log_logendoffset", topic="orders") == RECORDS
        lag = {"consumergroup": "readers", "topic": "orders", "partition": "0"}
        assert found.value("kafka_consumergroup_lag", **lag) == RECORDS - CONSUMED
        assert found.value("kafka_consumergroup_current_offset", **lag) == CONSUMED
        assert found.value("kafka_consumergroup_members", consumergroup="readers") == 1
        assert found.value("kafka_server_groupcoordinatormetrics_group_count", state="Stable") == 1
        assert found.value("kafka_network_requestmetrics_requests_total", request="Produce") >= 1
        assert found.value("kafka_network_requestmetrics_totaltimems_count", request="JoinGroup") >= 1
        software = "kafka_server_socketservermetrics_connections"
        assert found.value(software, client_software_name="confluent-kafka-python") >= 1
        assert found.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert found.value("kafka_server_raftmetrics_currentstate", state="leader") == 1
        assert found.value("kafka_log_logflushstats_logflushtimems_count") > 0
        if HAS_PROC:
            assert found.value("process_resident_memory_bytes") > 20_000_000
        assert (await get(port, "/readyz")).status == 200
        await trio.to_thread.run_sync(consumer.close)


@reads_proc
async def test_every_metric_of_the_catalogue_is_served_and_no_other(tmp_path: Path) -> None:
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        response = await get(http_port(running), "/metrics", OPEN_METRICS)
        found = Scrape(response.body, open_metrics=True)
        assert found.types == {name.removesuffix("_total"): metric.type.value for name, metric in METRICS.items()}
        for name, labels, _ in found.samples:
            family = METRICS.get(name) or METRICS[name.rpartition("_")[0]]
            assert set(labels) - {"le"} == set(family.labels)


async def test_series_of_deleted_topics_and_closed_connections_go(tmp_path: Path) -> None:
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        port = http_port(running)
        await trio.to_thread.run_sync(produce, running.port, "orders", 10)
        assert (await scrape(port)).of("kafka_log_log_size", topic="orders")
        await trio.to_thread.run_sync(delete_topic, running.port, "orders")
        with trio.fail_after(10):
            found = await scrape(port)
            while any(labels.get("topic") == "orders" for _, labels, _ in found.samples):
                await trio.sleep(0.05)
                found = await scrape(port)
            while found.value("kafka_server_socketservermetrics_connection_count", listener="PLAINTEXT"):
                found = await scrape(port)
        assert found.of("kafka_server_socketservermetrics_connections", listener="PLAINTEXT") == []


async def test_node_without_the_listener_has_no_port_and_measures_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as running:
        assert [bound.listener.name for bound in running.node.bound] == ["PLAINTEXT", "CONTROLLER"]


async def test_health_and_scrapes_are_served_beside_slow_clients(tmp_path: Path) -> None:
    """32 connections with unfinished headers locked out all others, and so did four that do not read their scrapes."""
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running, trio.open_nursery() as nursery:
        port = http_port(running)
        for data in [b"GET /healthz HTTP/1.1\r\nSlow"] * 32 + [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000] * 4:
            await nursery.start(send_and_stay, port, data)
        with trio.fail_after(PATIENCE_S):
            assert (await get(port, "/healthz")).status == 200
            assert (await get(port, "/readyz")).status == 200
            while (await get(port, "/metrics")).status != 200:
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


async def send_and_stay(port: int, data: bytes, task_status: trio.TaskStatus[None]) -> None:
    """Send some bytes, and read nothing."""
    with suppress(trio.BrokenResourceError):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(data)
            task_status.started()
            await trio.sleep_forever()


async def test_moves_between_log_directories_have_a_rate_and_a_lag(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, http_listener="127.0.0.1:0", **two_directories(tmp_path)) as running,
        connected(running.port) as client,
    ):
        await held_move(running, client, tmp_path)
        found = await scrape(http_port(running))
        assert found.value("kafka_server_replicaalterlogdirsmanager_maxlag") == 1
        assert found.value("kafka_server_alterlogdirsreplication_byte_rate") == 0
        await set_quota(client, 1 << 30)
        await until(lambda: bool(running.traced.of("replica_moved")))
        found = await scrape(http_port(running))
        assert found.value("kafka_server_replicaalterlogdirsmanager_maxlag") == 0
        assert found.value("kafka_server_alterlogdirsreplication_byte_rate") > 0
