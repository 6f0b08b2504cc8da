"""DescribeClientQuotas (key 48): no client has a quota yet, so that every valid filter matches nothing (KIP-546)."""

from typing import Final

from broker.server.context import RequestContext
from broker.server.handler import Handler
from broker.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from broker.wire.errors import ErrorCode, KafkaError

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_NAMES: Final = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def describe_client_quotas(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(error_message=None)


def _check(components: list[ComponentData]) -> None:
    """Raises KafkaError INVALID_REQUEST or UNSUPPORTED_VERSION about the first component that Kafka refuses."""
    types: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if entity_type in types:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Entity type {entity_type} cannot appear more than once in the filter."
            )
        if entity_type not in (_USER, _CLIENT_ID, _IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        types.add(entity_type)
        _check_match(component)
    if _IP in types and len(types) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        )


def _check_match(component: ComponentData) -> None:
    name = _NAMES.get(component.match_type)
    if name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT:
        if component.match is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but set match string to null.")
    elif component.match is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")


HANDLER = Handler(DescribeClientQuotasRequest, describe_client_quotas)
