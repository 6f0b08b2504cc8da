"""`kraft test-server` as programs in other languages use it: a process, a line of JSON, HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.cluster_process import run_command
from tests.support.node_process import KRAFT

WITHIN_S = 60


@contextmanager
def running_server(*arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, Any]]]:
    """A server whose standard input is a pipe from this process, and the line that it prints."""
    command = [KRAFT, "test-server", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            yield server, json.loads(server.stdout.readline())
        finally:
            server.kill()


def request(control: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = HTTPConnection(control, timeout=WITHIN_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wait_until_gone(path: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


@pytest.mark.clients
def test_server_prints_where_it_serves_and_takes_actions_until_its_standard_input_ends() -> None:
    with running_server("--nodes", "1", "--override", "num.partitions=2") as (server, printed):
        control, cluster = printed["control"], printed["cluster"]
        producer = Producer(cluster["clients"]["confluent-kafka"])
        producer.produce("orders", b"one")
        assert producer.flush(WITHIN_S) == 0
        path = f"/clusters/{cluster['name']}"
        assert request(control, "POST", f"{path}/actions", {"action": "kill", "node": 1}) == (200, {"nodes": [1]})
        status, found = request(control, "GET", path)
        assert (status, found["nodes"][0]["state"]) == (200, "down")
        status, refused = request(control, "POST", f"{path}/actions", {"action": "kill", "node": 1})
        assert (status, refused["error"]) == (409, "kill: node 1 does not run, it is down")
        assert request(control, "GET", "/nothing")[0] == 404
        assert request(control, "POST", f"{path}/waits", {})[0] == 400
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(WITHIN_S) == 0
    wait_until_gone(Path(cluster["nodes"][0]["log"]))


def test_control_address_of_another_machine_is_a_sentence_and_exit_code_1() -> None:
    with subprocess.Popen(
        [KRAFT, "test-server", "--control", "192.0.2.1:1"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        _, errors = server.communicate(timeout=WITHIN_S)
    assert (server.returncode, errors.count(b"\n")) == (1, 1)
    assert errors.startswith(b"kraft: "), errors


@pytest.mark.parametrize("arguments", [("--control", "localhost"), ("--control", ":80"), ("--override", "no-value")])
def test_mistakes_in_arguments_are_named(arguments: tuple[str, str]) -> None:
    answer = run_command("test-server", *arguments)
    assert answer.code == 2
    assert repr(arguments[1]) in answer.errors


def test_kraft_start_imports_nothing_of_it() -> None:
    program = "import sys, broker.cli.start, broker.cli.main; print([name for name in sys.modules if 'jepsen' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
