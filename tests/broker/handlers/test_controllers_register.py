"""Controllers register, and their supported levels count when a feature's level changes (KIP-919, KIP-584)."""

from collections.abc import Callable
from pathlib import Path

import trio

from broker.wire.api.controller_registration import ControllerRegistrationRequest, Feature, Listener
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.errors import ErrorCode
from metadata.controller import REGISTERED_FEATURES
from metadata.image import ControllerImage
from tests.support.running_cluster import COMBINED, running_cluster
from tests.support.running_node import NODE_ID, RunningNode, running_node
from tests.support.wire_client import WireClient, connected

ELR = "eligible.leader.replicas.version"
SAFE_DOWNGRADE = 2
STRANGER = bytes(range(16))
WITHIN_S = 20.0


def controllers_of(node: RunningNode) -> dict[int, ControllerImage]:
    assert node.node.loader is not None, "the node serves"
    return dict(node.node.loader.image.cluster.controllers)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():
            await trio.sleep(0.01)


async def registered(node: RunningNode) -> ControllerImage:
    await until(lambda: NODE_ID in controllers_of(node))
    return controllers_of(node)[NODE_ID]


async def register(client: WireClient, controller_id: int, features: list[Feature]) -> None:
    listener = Listener(name="CONTROLLER", host="elsewhere", port=9, security_protocol=0)
    request = ControllerRegistrationRequest(
        controller_id=controller_id, incarnation_id=STRANGER, listeners=[listener], features=features
    )
    response = await client.call(request, 0)
    assert (response.error_code, response.error_message) == (0, None)


async def turn_off(client: WireClient) -> tuple[int, str | None]:
    update = FeatureUpdateKey(feature=ELR, max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    response = await client.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
    return response.error_code, response.error_message


async def test_controller_registers_its_listeners_and_features(node: RunningNode) -> None:
    known = await registered(node)
    assert known.features == REGISTERED_FEATURES
    assert {name: each.port for name, each in known.end_points.items()} == {"CONTROLLER": node.controller_port}


async def test_each_incarnation_of_a_controller_registers(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        first = (await registered(node)).incarnation_id
    async with running_node(tmp_path) as node:
        await until(lambda: NODE_ID in controllers_of(node) and controllers_of(node)[NODE_ID].incarnation_id != first)


async def test_a_controller_does_not_leave_its_id_to_another_process(node: RunningNode) -> None:
    """A request of a former incarnation may arrive late."""
    own = await registered(node)
    async with connected(node.controller_port) as client:
        await register(client, NODE_ID, [])
    await until(lambda: controllers_of(node)[NODE_ID] == own)


async def test_a_controller_that_does_not_understand_a_level_keeps_it_from_being_used(node: RunningNode) -> None:
    async with connected(node.controller_port) as client:
        await register(client, 9, [Feature(name=ELR, min_supported_version=1, max_supported_version=2)])
        assert controllers_of(node)[9].end_points["CONTROLLER"].host == "elsewhere"
        assert await turn_off(client) == (
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version 0 for feature {ELR}. Controller 9 only supports versions 1-2",
        )


async def test_all_controllers_of_a_cluster_register(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, {1: COMBINED, 2: "controller", 3: "controller"}) as cluster:
        for each in cluster.nodes.values():
            node = each.node
            assert node is not None
            await until(
                lambda node=node: node.loader is not None and sorted(node.loader.image.cluster.controllers) == [1, 2, 3]
            )
        async with connected(cluster.port(1)) as client:
            assert await turn_off(client) == (0, None)
