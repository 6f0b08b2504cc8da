"""The test server goes on when the machine has no room for another process."""

import subprocess
import sys

import pytest

from jepsen.testing import Cluster, ControlError
from jepsen.testing.control_client import ControlClient
from jepsen.testing.server_lease import ServerLease

# The kernel refuses the third process after the supervisor and the first node. `pids.max` of a container does that.
PROGRAM = """
import errno, os

from jepsen.testing.server import run_server
from jepsen.testing.server_options import ServerOptions

forks, fork = [], os.fork


def refused_fork():
    forks.append(None)
    if len(forks) == 3:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()


os.fork = refused_fork
raise SystemExit(run_server(ServerOptions()))
"""


def test_failed_fork_is_an_error_of_its_caller_and_the_server_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        client = ControlClient(process.stdout.readline().split('"')[3])
        server = ServerLease(client, client.take_lease())
        with Cluster(1, server=server) as cluster:
            with pytest.raises(ControlError, match=r"node 1 has no process: .*temporarily unavailable"):
                Cluster(1, server=server)
            cluster.produce(cluster.topic("orders"), ["one"])
            assert client.request("GET", "/")["clusters"] == [cluster.name]
            cluster.kill(node=1)
            cluster.start()
        server.release()
        assert process.wait(60) == 0
