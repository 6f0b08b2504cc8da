"""The requests about client quotas, and about the SCRAM credentials of users."""

from typing import Any, Final

import attrs

from broker.wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from broker.wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from broker.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.differential.comparable import comparable
from tests.differential.families.metadata_barrier import Changes
from tests.differential.sequences import Place, Step

# The types and names of an entity; None for the default entity.
Entity = tuple[tuple[str, str | None], ...]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = range(3)
_NAMED: Final = (USER, CLIENT_ID)


def changes_of(place: Place) -> Changes:
    changes: Changes = place.state
    return changes


def _name(place: Place, entity_type: str, name: str | None) -> str | None:
    """Users and client ids are those of the sequence; addresses are what they are."""
    return place.named(name) if name is not None and entity_type in _NAMED else name


@attrs.frozen(kw_only=True)
class AlterQuotas(Step):
    """`entries` are entities with their operations: a key with the new value, or None to remove the quota."""

    version: int = 1
    entries: tuple[tuple[Entity, tuple[tuple[str, float | None], ...]], ...]
    is_validation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=_name(place, kind, name)) for kind, name in entity],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
            )
            for entity, ops in self.entries
        ]
        return AlterClientQuotasRequest(entries=entries, validate_only=self.is_validation), self.version

    def observe(self, place: Place, response: Any) -> None:
        changes_of(place).is_pending = True


@attrs.frozen(kw_only=True)
class DescribeQuotas(Step):
    """`components` are entity types, kinds of matches and the names to match."""

    version: int = 1
    components: tuple[tuple[str, int, str | None], ...] = ()
    is_strict: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        components = [
            ComponentData(entity_type=kind, match_type=match_type, match=_name(place, kind, name))
            for kind, match_type, name in self.components
        ]
        return DescribeClientQuotasRequest(components=components, strict=self.is_strict), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        for entry in response.entries or ():
            for value in entry.values:
                value.value = repr(value.value)  # NaN equals nothing, not even itself
        return comparable(response, place.labels)


@attrs.frozen(kw_only=True)
class DescribeCredentials(Step):
    users: tuple[str, ...] | None = None

    def request(self, place: Place) -> tuple[Any, int]:
        users = None if self.users is None else [UserName(name=place.named(each)) for each in self.users]
        return DescribeUserScramCredentialsRequest(users=users), 0
