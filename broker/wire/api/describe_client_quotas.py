"""DescribeClientQuotas (key 48): the quotas of the users, client ids and addresses that match a filter (KIP-546).

Flexible from 1.
"""

from broker.wire.schema import field, request, response, struct


@struct
class ComponentData:
    """`match_type`: 0 the entity named `match`, 1 the default entity, 2 every entity of the type."""

    entity_type: str = field("string", "0+", default="")
    match_type: int = field("int8", "0+", default=0)
    match: str | None = field("string", "0+", default="", nullable="0+")


@request(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field([ComponentData], "0+", factory=list)
    strict: bool = field("bool", "0+", default=False)


@struct
class EntityData:
    """`entity_name` is None for the default entity."""

    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", default="", nullable="0+")


@struct
class ValueData:
    key: str = field("string", "0+", default="")
    value: float = field("float64", "0+", default=0.0)


@struct
class EntryData:
    entity: list[EntityData] = field([EntityData], "0+", factory=list)
    values: list[ValueData] = field([ValueData], "0+", factory=list)


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    entries: list[EntryData] | None = field([EntryData], "0+", factory=list, nullable="0+")
