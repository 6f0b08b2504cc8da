"""FindCoordinator, in one request for many keys where the broker takes it (KIP-699), and else in one for each."""

from collections.abc import Sequence
from typing import Final

from broker.client.brokers import Broker
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
_MANY_KEYS_SINCE: Final = 4
# The first version that has a type of the key.
_TYPES_SINCE: Final = 1


async def find_coordinators(broker: Broker, keys: Sequence[str], key_type: int) -> list[Coordinator]:
    """The broker's answers, errors among them. Raises ConnectionLost, UnsupportedByBroker."""
    version = broker.version_of(FindCoordinatorRequest, lowest=0 if key_type == GROUP else _TYPES_SINCE)
    if version >= _MANY_KEYS_SINCE:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        response = await broker.call(request, version=version)
        return [found for found in response.coordinators if found.key in keys]
    found = []
    for key in keys:
        one: FindCoordinatorResponse = await broker.call(
            FindCoordinatorRequest(key=key, key_type=key_type), version=version
        )
        found.append(
            Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=one.error_code,
                error_message=one.error_message,
            )
        )
    return found
