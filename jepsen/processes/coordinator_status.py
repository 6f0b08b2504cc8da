"""The coordinators of groups and of transactional ids, requested in Kafka's protocol."""

from typing import Final

import attrs

from broker.client import ConnectionLost
from broker.wire.api.find_coordinator import FindCoordinatorRequest
from jepsen.processes.nodes import ProcessCluster
from jepsen.workloads.connection import Connection

_VERSION: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


@attrs.frozen
class Coordinated:
    """A group, or with `is_transactional` a transactional id."""

    name: str
    is_transactional: bool = False

    def __str__(self) -> str:
        return f"{'transactional id' if self.is_transactional else 'group'} {self.name}"


async def coordinator_id(cluster: ProcessCluster, coordinated: Coordinated) -> int | None:
    """The node id of the coordinator, according to the first node that knows it; None if no node does."""
    key_type = _TRANSACTION if coordinated.is_transactional else _GROUP
    request = FindCoordinatorRequest(coordinator_keys=[coordinated.name], key_type=key_type)
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
