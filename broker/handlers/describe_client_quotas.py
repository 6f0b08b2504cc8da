"""DescribeClientQuotas (key 48): the quotas of the users, client ids and addresses that match a filter (KIP-546)."""

from collections.abc import Mapping
from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import Handler
from broker.server.slices import STEP_ITEMS, Steps
from broker.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import QuotaEntityType
from metadata.protocol import AclOperation
from metadata.records import QuotaEntity

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_NAMES: Final = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def describe_client_quotas(
    context: BrokerContext, request: DescribeClientQuotasRequest
) -> Steps[DescribeClientQuotasResponse]:
    _check(request.components)
    response = DescribeClientQuotasResponse()
    assert response.entries is not None
    entities = context.services.loader.image.client_quotas.entities
    for number, (entity, quotas) in enumerate(entities.items()):
        if _matches(entity, request.components, strict=request.strict):
            response.entries.append(_entry(entity, quotas))
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
    return response


def refused(
    context: BrokerContext, request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _matches(entity: QuotaEntity, components: list[ComponentData], *, strict: bool) -> bool:
    """True if each component matches a part of the entity and, with `strict`, the entity has no other parts."""
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    for component in components:
        if component.entity_type not in names:
            return False
        if component.match_type != _SPECIFIED and names[component.entity_type] != component.match:
            return False
    return True


def _entry(entity: QuotaEntity, quotas: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )


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
        if entity_type not in tuple(QuotaEntityType):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        types.add(entity_type)
        _check_match(component)
    if QuotaEntityType.IP in types and len(types) > 1:
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


HANDLER = Handler(
    DescribeClientQuotasRequest, describe_client_quotas, refused=refused, operation=AclOperation.DESCRIBE_CONFIGS
)
