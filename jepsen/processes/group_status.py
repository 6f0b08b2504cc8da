"""The state of consumer groups, requested in Kafka's protocol."""

from typing import Final

from broker.wire.api.find_coordinator import FindCoordinatorRequest
from jepsen.processes.nodes import ProcessCluster
from jepsen.workloads.connection import Connection, ConnectionLost

_VERSION: Final = 4


async def coordinator_id(cluster: ProcessCluster, group: str) -> int | None:
    """The id of a group's coordinator, according to the first node that knows it; None if no node does."""
    request = FindCoordinatorRequest(coordinator_keys=[group])
    for node in cluster.nodes.values():
        if node.is_running and (found := await _ask(node.ports.open, request)) is not None:
            return found
    return None


async def _ask(port: int, request: FindCoordinatorRequest) -> int | None:
    try:
        connection = await Connection.open(("127.0.0.1", port), 0)
        try:
            response = await connection.call(request, _VERSION)
        finally:
            await connection.aclose()
    except ConnectionLost:
        return None
    (coordinator,) = response.coordinators
    node_id: int = coordinator.node_id
    return None if coordinator.error_code else node_id
