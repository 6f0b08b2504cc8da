"""Records of client quotas."""

from collections.abc import Iterable
from typing import TypeAlias

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number

# The entity that a quota applies to: pairs of an entity type ("user", "client-id" or "ip") and a name, ordered by type.
# The name is None for the default entity of the type.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity with these types and names, in any order."""
    return tuple(sorted(parts, key=lambda part: part[0]))


@metadata_record(RecordType.CLIENT_QUOTA, version=0)
@lazy_attrs.frozen(kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    """Sets one quota of one entity, or removes it if `remove` is set (KIP-546)."""

    entity: tuple[tuple[str, str | None], ...] = number(0)
    key: str = number(1)
    value: float = number(2, default=0.0)
    remove: bool = number(3, default=False)
