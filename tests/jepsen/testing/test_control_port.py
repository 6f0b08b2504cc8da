"""The control port refuses requests that are wrong or come from web pages, and goes on with its clusters."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from http.client import HTTPConnection
from typing import Any

import pytest

from jepsen.testing import Cluster, ControlError
from jepsen.testing.server_lease import ServerLease


@pytest.fixture(scope="module")
def cluster(server: ServerLease) -> Iterator[Cluster]:
    with Cluster(1, server=server) as cluster:
        yield cluster


def send(
    server: ServerLease, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the parsed body of the response to one request."""
    connection = HTTPConnection(server.client.address, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/waits", b"[" * 100_000, 400),
        ("/waits", b'{"leader": ["orders", 0], "timeout": NaN}', 400),
        ("/waits", b'{"leader": ["orders", 0], "timeout": 1e999}', 400),
        ("/waits", b'{"leader": ["orders", 0], "timeout": 1%s}' % (b"0" * 400), 400),
        ("/waits", b'{"leader": ["orders", true], "timeout": 0}', 400),
        ("/waits", b'{"leader": ["orders", 1%s], "timeout": 0}' % (b"0" * 30), 504),
        ("/waits", b'{"group_stable": "\\ud800", "timeout": 0}', 400),
        ("/actions", b'{"action": "kill", "node": 1, "delay": NaN}', 400),
        ("/topics", b'{"name": "orders", "partitions": 1e3}', 400),
        ("/topics", b'{"name": "orders", "partitions": 1099511627776}', 409),
        ("/topics", b'{"name": "../../orders"}', 409),
        ("/deletions", b'{"topics": ["\\ud800"]}', 400),
        ("/faults", b'{"hold": true, "probability": NaN}', 400),
        ("/faults", b'{"hold": true, "times": 0}', 400),
        ("/topics/orders/records", b'{"records": [{"value": null, "headers": 5}]}', 400),
        ("/topics/orders/records", b'{"records": [{"value": null, "headers": [["a"]]}]}', 400),
        ("/topics/orders/records", b'{"records": [{"value": null, "partition": true}]}', 400),
        ("/topics/orders/records", b'{"records": [{"value": null, "partition": "0"}]}', 400),
        ("/changes", b'{"change": "advance_log_start", "topic": "orders", "offset": 1%s}' % (b"0" * 30), 409),
    ],
)
def test_wrong_request_is_refused_and_its_cluster_goes_on(
    server: ServerLease, cluster: Cluster, path: str, body: bytes, status: int
) -> None:
    answered, refusal = send(server, "POST", f"/clusters/{cluster.name}{path}", body)
    assert (answered, list(refusal)) == (status, ["error"])
    assert [node["state"] for node in cluster.nodes] == ["serving"]


def test_records_of_a_megabyte_each_are_written(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    cluster.produce(topic, [b"x" * 1_000_000] * 3)
    assert [len(record.value or b"") for record in cluster.records(topic)] == [1_000_000] * 3


def test_topic_is_created_once_if_the_answer_is_lost(cluster: Cluster) -> None:
    words = {"api": "CreateTopics", "client_id": "kraft-test-server", "lose_answer": True, "times": 1}
    with cluster.fault(**words) as fault:
        topic = cluster.topic("orders")
        assert fault.fired == 1
    assert cluster.records(topic) == []


def test_records_of_a_topic_that_does_not_exist_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ControlError, match="no topic order") as raised:
        cluster.records("order")
    assert raised.value.status == 404


@pytest.mark.parametrize("path", ["/topics/orders/records", "/faults/{fault}"])
def test_method_that_a_resource_does_not_have_is_refused(server: ServerLease, cluster: Cluster, path: str) -> None:
    with cluster.fault(api="Produce", topic="orders", hold=True) as fault:
        resource = f"/clusters/{cluster.name}{path.format(fault=fault.id)}"
        assert send(server, "PUT", resource, b'{"records": []}') == (404, {"error": f"no PUT {resource}"})


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://page.example"},
        {"Origin": "null"},
        {"Host": "page.example:8080"},
        {"Host": "127.0.0.1.page.example"},
    ],
)
def test_request_of_a_web_page_is_refused(server: ServerLease, cluster: Cluster, headers: dict[str, str]) -> None:
    body = b'{"action": "kill", "node": 1}'
    status, refusal = send(server, "POST", f"/clusters/{cluster.name}/actions", body, headers)
    assert (status, list(refusal)) == (403, ["error"])
    assert [node["state"] for node in cluster.nodes] == ["serving"]


@pytest.mark.parametrize("host", ["localhost:1", "kafka", "[::1]:1", "192.0.2.1"])
def test_hosts_that_no_web_page_has_are_served(server: ServerLease, host: str) -> None:
    assert send(server, "GET", "/", headers={"Host": host})[0] == 200


def test_cluster_with_more_configs_than_a_datagram_has_serves(server: ServerLease) -> None:
    with Cluster(1, server=server, config={"log.segment.bytes": 1 << 20, "unknown.config": "x" * 300_000}) as cluster:
        assert [node["state"] for node in cluster.nodes] == ["serving"]


def test_cluster_that_was_shared_and_has_been_removed_is_made_again(server: ServerLease) -> None:
    first = Cluster(1, server=server, shared_as="removed")
    server.client.request("DELETE", f"/clusters/{first.name}")
    again = Cluster(1, server=server, shared_as="removed")
    assert [node["state"] for node in again.nodes] == ["serving"]
    server.client.request("DELETE", f"/clusters/{again.name}")


def test_cluster_can_be_closed_twice(server: ServerLease) -> None:
    with Cluster(1, server=server) as cluster:
        cluster.close()


def test_requests_that_wait_are_refused_when_their_cluster_ends(server: ServerLease) -> None:
    cluster = Cluster(1, server=server)
    fault = cluster.fault(api="Produce", client_id="absent", hold=True)
    chaos = cluster.chaos(seed=1, seconds=60, faults=["pause"])
    waits = [fault.wait, lambda: chaos.wait(60), lambda: cluster.wait_for(records=("absent", 1))]
    with ThreadPoolExecutor(len(waits)) as threads:
        waiting = [threads.submit(wait) for wait in waits]
        assert not wait_for_futures(waiting, 0.2).done
        cluster.close()
        began = time.monotonic()
        for each in waiting:
            with pytest.raises(ControlError, match=f"cluster {cluster.name} has ended|no cluster {cluster.name}"):
                each.result()
    assert time.monotonic() - began < 10


def test_client_that_asks_whether_to_send_its_body_is_answered(server: ServerLease, cluster: Cluster) -> None:
    host, _, port = server.client.address.rpartition(":")
    body = b'{"name": "readers"}'
    head = f"POST /clusters/{cluster.name}/groups HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        stream.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        assert stream.recv(1_000).startswith(b"HTTP/1.1 100 ")
        stream.sendall(body)
        assert stream.recv(1_000).startswith(b"HTTP/1.1 200 ")
