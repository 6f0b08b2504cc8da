"""Which quota applies to a client: the eight levels of users, client ids and their defaults. Pure.

The most specific entity that has a quota of the wanted key decides, in the order of Kafka's ClientQuotaManager:

1. the user with the client id
2. the user with the default client id
3. the user
4. the default user with the client id
5. the default user with the default client id
6. the default user
7. the client id
8. the default client id

Clients share a quota as the entity says: all clients of a user on levels 3 and 6, all clients with a client id on
levels 7 and 8, and the clients of one user with one client id on the others. A default entity gives each of the users
or client ids that it applies to a quota of their own. A client with an empty client id, or with none, which is the same
in Kafka, has the quotas of levels 3 and 6 only.
"""

from collections.abc import Mapping
from typing import NamedTuple

from metadata.controller import QuotaEntityType
from metadata.records import QuotaEntity, quota_entity


class QuotaShare(NamedTuple):
    """The clients that use up one quota together: those of a user, with a client id, or both. None means any."""

    user: str | None
    client_id: str | None


class AppliedQuota(NamedTuple):
    """The quota that applies to a client."""

    limit: float
    share: QuotaShare


def _levels(user: str, client_id: str) -> tuple[tuple[QuotaEntity, QuotaShare], ...]:
    both, of_user, of_client_id = QuotaShare(user, client_id), QuotaShare(user, None), QuotaShare(None, client_id)
    if not client_id:
        return (((QuotaEntityType.USER, user),), of_user), (((QuotaEntityType.USER, None),), of_user)
    return (
        (_user_and_client_id(user, client_id), both),
        (_user_and_client_id(user, None), both),
        (((QuotaEntityType.USER, user),), of_user),
        (_user_and_client_id(None, client_id), both),
        (_user_and_client_id(None, None), both),
        (((QuotaEntityType.USER, None),), of_user),
        (((QuotaEntityType.CLIENT_ID, client_id),), of_client_id),
        (((QuotaEntityType.CLIENT_ID, None),), of_client_id),
    )


def _user_and_client_id(user: str | None, client_id: str | None) -> QuotaEntity:
    return quota_entity([(QuotaEntityType.USER, user), (QuotaEntityType.CLIENT_ID, client_id)])


class QuotaTable:
    """The quotas of one key, by entity."""

    def __init__(self) -> None:
        self._limits: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def change(self, entity: QuotaEntity, limit: float | None) -> None:
        """Set the quota of an entity, or remove it."""
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = limit

    def applied(self, user: str, client_id: str) -> AppliedQuota | None:
        """The quota of the most specific entity, None if no quota applies to the client."""
        for entity, share in _levels(user, client_id) if self._limits else ():
            limit = self._limits.get(entity)
            if limit is not None:
                return AppliedQuota(limit, share)
        return None


def change_tables(tables: Mapping[str, QuotaTable], changed: Mapping[QuotaEntity, Mapping[str, float | None]]) -> None:
    """Apply the changes of a metadata delta to the tables by key. Changes of other keys are ignored."""
    for entity, quotas in changed.items():
        for key, limit in quotas.items():
            if key in tables:
                tables[key].change(entity, limit)
