"""Actions and faults of a test cluster that meet others: kills, pauses, stops and ends at the same time."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from jepsen.testing import Cluster, ControlError
from jepsen.testing.server_lease import ServerLease

pytestmark = pytest.mark.clients

WITHIN_S = 60


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(1, server=server) as cluster:
        yield cluster


def state(cluster: Cluster) -> str:
    return str(cluster.nodes[0]["state"])


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_paused_node_is_not_stopped_and_does_not_stop_when_it_is_resumed(cluster: Cluster) -> None:
    cluster.pause(node=1)
    with pytest.raises(ControlError, match="stop: node 1 is paused; `resume` lets it go on"):
        cluster.stop(node=1)
    cluster.resume(node=1)
    cluster.topic("orders")
    assert state(cluster) == "serving"


def test_node_that_shuts_down_is_not_paused(cluster: Cluster) -> None:
    pid = cluster.nodes[0]["pid"]
    os.kill(pid, signal.SIGSTOP)  # the request to stop arrives when it goes on
    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(cluster.stop, node=1)
        until(lambda: "node_stop" in {event["event"] for event in cluster.events()})
        try:
            with pytest.raises(ControlError, match="node 1 shuts down"):
                cluster.pause(node=1)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert stopping.result(WITHIN_S) == [1]
    assert state(cluster) == "down"
    cluster.start()


def test_node_that_is_killed_while_it_is_resumed_is_down(cluster: Cluster) -> None:
    for _ in range(4):
        cluster.pause(node=1)
        with ThreadPoolExecutor(2) as threads:
            resumed, killed = threads.submit(cluster.resume, node=1), threads.submit(cluster.kill, node=1)
            assert killed.result(WITHIN_S) == [1]
            error = resumed.exception(WITHIN_S)
        assert error is None or "node 1 does not run" in str(error)
        assert state(cluster) == "down"
        cluster.start()


def test_chaos_that_ends_while_it_heals_leaves_all_nodes_serving(cluster: Cluster) -> None:
    began = len(cluster.events())
    with cluster.chaos(seed=1, seconds=60, faults=["kill"]):
        until(lambda: "node_start" in {event["event"] for event in cluster.events()[began:]})
    assert state(cluster) == "serving"


def test_fault_that_ends_under_load_tells_all_of_its_firings(cluster: Cluster) -> None:
    topic, is_over = cluster.topic("orders"), threading.Event()
    producer = Producer({**cluster.config(), "client.id": "shop", "linger.ms": 0, "acks": 1, "log_level": 0})

    def send() -> None:
        while not is_over.is_set():
            producer.produce(topic, b"order")
            producer.poll(0.001)

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send)
        try:
            for _ in range(5):
                fault = cluster.fault(api="Produce", topic=topic, throttle_ms=1)
                fault.wait(20)
                fault.end()
                served = cluster.requests(api="Produce", topic=topic)
                assert fault.fired == len(fault.firings) == [each["fault"] for each in served].count(fault.id)
        finally:
            is_over.set()
        sending.result()
    assert producer.flush(WITHIN_S) == 0
