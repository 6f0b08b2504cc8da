"""A node without the ways that only Linux has: `tests/support/portable_system` takes them from its process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from jepsen.processes.ports import free_ports
from jepsen.processes.server_process import ServerProcess
from tests.support.certificates import TestAuthority
from tests.support.node_process import NodeProcess
from tests.support.scraped_metrics import scrape
from tests.support.source_code import ROOT

DIRECTORY = ROOT / "tests" / "support" / "portable_system"
# Larger than the ranges of files that are read and joined: Linux would send it by sendfile.
VALUE = os.urandom(300_000)
RECORDS = 4
PATIENCE_S = 30

PROBE = """
import ctypes, fcntl, os, resource, select, signal, socket, time
import trio
missing = {
    select: ["epoll", "EPOLLIN"],
    os: ["fdatasync", "sendfile", "pwritev", "preadv", "O_DIRECT", "memfd_create", "posix_fallocate", "eventfd"],
    socket: ["MSG_MORE", "SOCK_CLOEXEC"],
    resource: ["prlimit"],
    time: ["CLOCK_BOOTTIME"],
}
assert not [name for module, names in missing.items() for name in names if hasattr(module, name)]
assert not hasattr(ctypes.CDLL(None), "fallocate")
assert trio.run(trio.lowlevel.checkpoint) is None
def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return True
assert refused(open, "/proc/self/stat") and refused(os.listdir, "/proc/self/fd")
assert refused(os.readlink, "/proc/self/cwd")
assert refused(socket.socketpair, socket.AF_UNIX, socket.SOCK_SEQPACKET)
assert refused(socket.socket().bind, ("127.0.0.2", 0))
from broker.net.poller import KqueuePoller, can_poll, open_poller
assert (can_poll() and type(open_poller())) == {"kqueue": KqueuePoller, "none": False}[os.environ["KRAFT_TEST_POLLER"]]
print("as on another system")
"""


class PortableNode(NodeProcess):
    def launch(self) -> None:
        ServerProcess.launch(self)  # not as a fork of a process that has what Linux has


@pytest.fixture(params=["kqueue", "none"])
def _portable_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DIRECTORY))
    monkeypatch.setenv("KRAFT_TEST_POLLER", request.param)


@pytest.mark.usefixtures("_portable_children")
def test_processes_lack_the_names_of_linux() -> None:
    ended = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.stdout, ended.stderr) == ("as on another system\n", "")


@pytest.mark.usefixtures("_portable_children")
async def test_node_serves_files_tls_and_metrics_with_portable_ways_alone(tmp_path: Path) -> None:
    tls, http = free_ports(2)
    authority = TestAuthority(tmp_path)
    configs = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", "127.0.0.1").file),
        "http.listener": f"127.0.0.1:{http}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    }
    node = PortableNode(tmp_path / "node", configs)
    configs["listeners"] = (
        f"PLAINTEXT://127.0.0.1:{node.port},SSL://127.0.0.1:{tls},CONTROLLER://127.0.0.1:{node.controller_port}"
    )
    node.overrides = configs
    node.start()
    try:
        ssl = {"security.protocol": "ssl", "ssl.ca.location": str(authority.file)}
        for port, security in ((node.port, {}), (tls, ssl)):
            bootstrap = {"bootstrap.servers": f"127.0.0.1:{port}", **security}
            producer = Producer(bootstrap)
            for _ in range(RECORDS):
                producer.produce("orders", VALUE)
            assert producer.flush(PATIENCE_S) == 0
            assert read_all(bootstrap, 2 * RECORDS if security else RECORDS) == {VALUE}
        metrics = await scrape(http)
        assert metrics.value("process_open_fds") > 0
        assert abs(metrics.value("process_start_time_seconds") - time.time()) < PATIENCE_S
        assert metrics.of("process_resident_memory_bytes") == []
    finally:
        node.stop()


def read_all(bootstrap: dict[str, str], count: int) -> set[bytes]:
    consumer = Consumer({**bootstrap, "group.id": f"reads-{count}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count, 0.5) if message.error() is None]
    consumer.close()
    assert len(values) == count
    return set(values)
