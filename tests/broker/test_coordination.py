"""When a broker makes its coordinators."""

import subprocess
import sys
from pathlib import Path

import trio

from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.list_groups import ListGroupsRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.source_code import ROOT
from tests.support.wire_client import WireClient, connected, only

# Importing so many takes about 6 ms, which holds the event loop.
STEP_MODULES_MAX = 30


def has_coordinators(node: RunningNode) -> bool:
    assert node.node.broker is not None
    return node.node.broker.coordination.are_made


async def find_coordinator(client: WireClient) -> None:
    with trio.fail_after(20):
        while True:
            response = await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
            if only(response.coordinators).error_code == ErrorCode.NONE:
                return
            await trio.sleep(0.01)


async def test_coordinators_are_made_for_the_first_request_or_with_their_first_partition(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"value"))
        assert not has_coordinators(node), "nothing needs them"
        await find_coordinator(client)
        assert has_coordinators(node)
    async with running_node(tmp_path) as node, connected(node.port) as client:
        with trio.fail_after(20):
            while not has_coordinators(node):  # the node leads partitions of __consumer_offsets
                await trio.sleep(0.01)
        await find_coordinator(client)


async def test_group_request_before_the_coordinators_are_made_reaches_a_partition_that_is_led(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await find_coordinator(client)
    async with running_node(tmp_path) as node, connected(node.port) as client:
        response = await client.call(ListGroupsRequest(), 5)
        assert has_coordinators(node)
        assert response.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await find_coordinator(client)


def test_each_step_of_making_coordinators_imports_few_modules() -> None:
    script = """
import sys
import broker.cli.start
from broker.node.coordination import _MODULES
for module in [*_MODULES, "broker.node.all_coordinators"]:
    before = len(sys.modules)
    __import__(module)
    print(module, len(sys.modules) - before)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    steps = [(module, int(count)) for module, count in (line.split() for line in done.stdout.splitlines())]
    assert [module for module, count in steps if count > STEP_MODULES_MAX] == []
    assert steps[-1][1] == 0, "the steps import all that the coordinators need"
