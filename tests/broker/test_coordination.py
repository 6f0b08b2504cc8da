"""When a broker makes its coordinators."""

from pathlib import Path

import trio

from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.errors import ErrorCode
from tests.support.requests import batch, create_topic, produce
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only


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
    async with running_node(tmp_path) as node:
        assert has_coordinators(node), "the node leads partitions of __consumer_offsets"
