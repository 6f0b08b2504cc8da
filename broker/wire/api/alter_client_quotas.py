"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Flexible from 1.
"""

from broker.wire.schema import field, request, response, struct


@struct
class EntityData:
    """`entity_name` is None for the default entity."""

    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", default="", nullable="0+")


@struct
class OpData:
    """`value` is ignored if the quota is removed."""

    key: str = field("string", "0+", default="")
    value: float = field("float64", "0+", default=0.0)
    remove: bool = field("bool", "0+", default=False)


@struct
class EntryData:
    entity: list[EntityData] = field([EntityData], "0+", factory=list)
    ops: list[OpData] = field([OpData], "0+", factory=list)


@request(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[EntryData] = field([EntryData], "0+", factory=list)
    validate_only: bool = field("bool", "0+", default=False)


@struct
class EntryResult:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    entity: list[EntityData] = field([EntityData], "0+", factory=list)


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    entries: list[EntryResult] = field([EntryResult], "0+", factory=list)
