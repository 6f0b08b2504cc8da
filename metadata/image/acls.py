"""Access control entries, and filters that match them (KIP-290)."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple, TypeAlias

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_bytes, place_text
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType
from metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

# Stands for every name of a resource, if the pattern is literal, and for every host.
WILDCARD: Final = "*"
# Stands for every principal.
WILDCARD_PRINCIPAL: Final = "User:*"

Network: TypeAlias = IPv4Network | IPv6Network


class AccessControlEntry(NamedTuple):
    """Allows or denies an operation of a principal ("Type:name") from a host on the resources of a pattern.

    A host is an address, a range of addresses in CIDR notation (KIP-1276), or WILDCARD.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        resource = f"{self.pattern_type.name} {self.resource_type.name} {self.resource_name!r}"
        return f"{self.permission.name} {self.operation.name} to {self.principal!r} from {self.host!r} on {resource}"


class AclEntryFilter(NamedTuple):
    """Matches entries. None and ANY match everything.

    PatternType.MATCH matches all patterns that apply to a resource of the name.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
            and self._matches_pattern(entry)
        )

    def _matches_pattern(self, entry: AccessControlEntry) -> bool:
        name = self.resource_name
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, entry.pattern_type) and name in (None, entry.resource_name)
        if name is None:
            return True
        if entry.pattern_type is PatternType.PREFIXED:
            return name.startswith(entry.resource_name)
        return entry.resource_name in (name, WILDCARD)


def host_network(host: str) -> Network | None:
    """The range of addresses that a host in CIDR notation stands for; None for other hosts.

    Bits of the address that are not in the prefix are ignored. Raises ValueError for notation that is not valid.
    """
    address, slash, length = host.partition("/")
    if not slash:
        return None
    if not (length.isascii() and length.isdigit()) or "%" in address:
        raise ValueError(f"{host!r} does not end in the length of a prefix")
    return ip_network(host, strict=False)


def _place_entry(entry: AccessControlEntry) -> int:
    return place_text(f"{entry.resource_name}/{entry.principal}")


@lazy_attrs.frozen
class AclsImage:
    """All entries by their ids, and the ids by entry: an entry exists once."""

    by_id: PersistentMap[bytes, AccessControlEntry] = attrs.field(factory=lambda: PersistentMap(place_bytes))
    ids: PersistentMap[AccessControlEntry, bytes] = attrs.field(factory=lambda: PersistentMap(_place_entry))


class AclsDelta:
    """`changed` holds the added entries by their ids, and None for removed ids."""

    def __init__(self, base: AclsImage) -> None:
        self.base = base
        self.changed: dict[bytes, AccessControlEntry | None] = {}

    def replay(self, record: AccessControlEntryRecord) -> None:
        self.changed[record.id] = AccessControlEntry(
            ResourceType(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
            record.principal,
            record.host,
            AclOperation(record.operation),
            AclPermission(record.permission),
        )

    def replay_remove(self, record: RemoveAccessControlEntryRecord) -> None:
        assert self.changed.get(record.id) or record.id in self.base.by_id, f"there is no entry to remove: {record}"
        self.changed[record.id] = None

    def removed(self) -> Iterator[AccessControlEntry]:
        """The entries of `base` whose ids are removed, or stand for another entry."""
        for acl_id, entry in self.changed.items():
            before = self.base.by_id.get(acl_id)
            if before is not None and before != entry:
                yield before

    def added(self) -> Iterator[AccessControlEntry]:
        """The entries that are not in `base`."""
        for acl_id, entry in self.changed.items():
            if entry is not None and entry != self.base.by_id.get(acl_id):
                yield entry

    def apply(self) -> AclsImage:
        added = {acl_id: entry for acl_id, entry in self.changed.items() if entry is not None}
        gone = [acl_id for acl_id, entry in self.changed.items() if entry is None]
        return AclsImage(
            self.base.by_id.changed(added, gone),
            self.base.ids.changed({entry: acl_id for acl_id, entry in added.items()}, self.removed()),
        )
