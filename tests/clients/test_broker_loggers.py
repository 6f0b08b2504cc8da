"""KIP-412 with a node in its own process: a client changes levels, and the node's log follows."""

import time
from collections.abc import Callable

import pytest

from tests.support.cluster_process import run_command
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

PATIENCE_S = 30.0


@pytest.fixture
def node(new_node: Callable[..., NodeProcess]) -> NodeProcess:
    node = new_node()
    node.start()
    return node


def kraft(node: NodeProcess, *arguments: str) -> None:
    answer = run_command(*arguments, "--bootstrap-server", node.bootstrap)
    assert answer.code == 0, answer.errors


def change_metadata(node: NodeProcess) -> None:
    kraft(node, "configs", "set", "broker", "default", "log.retention.ms=5000000")


def wait_for_line(node: NodeProcess, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in node.output():
        assert time.monotonic() < deadline, node.output_tail()
        time.sleep(0.02)


def test_log_follows_the_level_of_a_logger_at_once(node: NodeProcess) -> None:
    step = " debug node 1: committed "
    assert step not in node.output()
    kraft(node, "configs", "set", "broker-logger", "1", "kraft=DEBUG")
    change_metadata(node)
    wait_for_line(node, "warning node 1: log_level_changed logger=kraft level=DEBUG")
    wait_for_line(node, step)
    kraft(node, "configs", "delete", "broker-logger", "1", "kraft")
    wait_for_line(node, "log_level_changed logger=kraft level=null")
    lines = node.output().count(step)
    change_metadata(node)
    assert node.output().count(step) == lines
