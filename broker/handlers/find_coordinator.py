"""FindCoordinator (key 10): there is no coordinator yet, and this says so.

It is served before groups and transactions are because librdkafka takes a broker that lists it for one that knows
lz4, and silently sends uncompressed batches to any other.
"""

from typing import Final

from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.errors import ErrorCode

_MANY_FROM: Final = 4
_MESSAGE: Final = "This broker coordinates neither groups nor transactions yet."
_NOBODY: Final = -1


def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= _MANY_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=_NOBODY,
                    port=_NOBODY,
                    error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    error_message=_MESSAGE,
                )
                for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=_MESSAGE, node_id=_NOBODY, port=_NOBODY
    )


HANDLER = Handler(api_key=10, min_version=0, max_version=6, immediate=find_coordinator)
