"""Quotas of users, client ids and IP addresses."""

from collections.abc import Mapping

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_text
from metadata.records import ClientQuotaRecord, QuotaEntity

NO_QUOTAS: Mapping[str, float] = {}


def _place(entity: QuotaEntity) -> int:
    return place_text("/".join(name or "" for _, name in entity))


@lazy_attrs.frozen
class ClientQuotasImage:
    """The entities that have quotas, with their quotas by key."""

    entities: PersistentMap[QuotaEntity, Mapping[str, float]] = attrs.field(factory=lambda: PersistentMap(_place))

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        return self.entities.get(entity) or NO_QUOTAS


class ClientQuotasDelta:
    """`changed` holds the new value of each changed quota of each entity, or None for a removed quota."""

    def __init__(self, base: ClientQuotasImage) -> None:
        self.base = base
        self.changed: dict[QuotaEntity, dict[str, float | None]] = {}

    def replay(self, record: ClientQuotaRecord) -> None:
        self.changed.setdefault(record.entity, {})[record.key] = None if record.remove else record.value

    def apply(self) -> ClientQuotasImage:
        after = {entity: self._after(entity) for entity in self.changed}
        return ClientQuotasImage(
            self.base.entities.changed(
                {entity: quotas for entity, quotas in after.items() if quotas},
                [entity for entity, quotas in after.items() if not quotas],
            )
        )

    def _after(self, entity: QuotaEntity) -> Mapping[str, float]:
        quotas = {**self.base.of(entity), **self.changed[entity]}
        return {key: value for key, value in quotas.items() if value is not None}
