"""Quotas of clients, described and altered (KIP-546)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from broker.wire.api.alter_client_quotas import EntryData as AlteredEntry
from broker.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


class QuotaMatch(Enum):
    """Entities that a quota filter matches by something other than their name."""

    DEFAULT = "the default entity of a type"
    ANY = "every entity of a type"


# How a filter matches the entities of a type: by name, or as QuotaMatch says.
EntityMatch: TypeAlias = str | QuotaMatch


@attrs.frozen
class ClientQuota:
    """`entity` maps types ("user", "client-id", "ip") to names, None for the default entity; `values` are by key."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


class QuotaCalls(Routing):
    """Calls on quotas."""

    async def describe_client_quotas(
        self, filter: Mapping[str, EntityMatch] | None = None, *, strict: bool = False, timeout_ms: float | None = None
    ) -> list[ClientQuota]:
        """Returns the quotas of entities that match the filter, by entity type: `{"user": "alice"}`. Raises KafkaError.

        With `strict`, entities that have other types besides do not match.
        """
        components = [_component(entity_type, match) for entity_type, match in (filter or {}).items()]

        async def ask(broker: Broker, deadline: Deadline) -> list[ClientQuota]:
            request = DescribeClientQuotasRequest(components=components, strict=strict)
            response: DescribeClientQuotasResponse = await broker.call(request)
            check(response.error_code, response.error_message)
            return [_quota(entry) for entry in response.entries or ()]

        return await self._ask_any(ask, timeout_ms)

    async def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Sets quotas of one entity by key, and removes those that are None. Raises KafkaError.

        `entity` maps entity types to names, as in `ClientQuota`; quotas that are not named stay as they are.
        """
        altered = AlteredEntry(
            entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in entity.items()],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
        )

        async def ask(broker: Broker, deadline: Deadline) -> None:
            request = AlterClientQuotasRequest(entries=[altered], validate_only=validate_only)
            response: AlterClientQuotasResponse = await broker.call(request)
            for entry in response.entries:
                check(entry.error_code, entry.error_message)

        await self._ask_controller(ask, timeout_ms)


def _component(entity_type: str, match: EntityMatch) -> ComponentData:
    if isinstance(match, str):
        return ComponentData(entity_type=entity_type, match_type=_EXACT, match=match)
    match_type = _DEFAULT if match is QuotaMatch.DEFAULT else _SPECIFIED
    return ComponentData(entity_type=entity_type, match_type=match_type, match=None)


def _quota(entry: EntryData) -> ClientQuota:
    return ClientQuota(
        entity={each.entity_type: each.entity_name for each in entry.entity},
        values={each.key: each.value for each in entry.values},
    )
