"""Access control entries are created and deleted."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from metadata.controller.decision import Decision
from metadata.controller.feature_levels import ACL_RECORDS
from metadata.controller.known_records import check_nodes_know
from metadata.ids import random_uuid
from metadata.image import AccessControlEntry, AclEntryFilter, MetadataImage, acl_record, host_network
from metadata.protocol import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    ErrorCode,
    KafkaError,
    PatternType,
    ResourceType,
)
from metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

# As many records as Kafka's controller writes for one request.
ACL_ENTRIES_MAX: Final = 10_000


def create_acls(
    image: MetadataImage, entries: Sequence[AccessControlEntry], rng: Random
) -> Decision[list[KafkaError | None]]:
    """Add entries, and return an error or None for each of them, in order. Entries that exist already stay.

    Raises KafkaError UNSUPPORTED_VERSION while a registered node is of a release that does not know the records.
    """
    check_nodes_know(image, ACL_RECORDS, "access control entries")
    records: dict[AccessControlEntry, AccessControlEntryRecord] = {}
    outcomes: list[KafkaError | None] = []
    for entry in entries:
        try:
            _check_entry(entry)
        except KafkaError as error:
            outcomes.append(error.with_traceback(None))
            continue
        outcomes.append(None)
        if entry not in image.acls.ids and entry not in records:
            records[entry] = acl_record(random_uuid(rng), entry)
    return Decision(list(records.values()), outcomes)


def delete_acls(image: MetadataImage, ids: Iterable[bytes]) -> Decision[None]:
    """Remove the entries with these ids together. Those that do not exist any more are left out."""
    known = image.acls.by_id
    return Decision([RemoveAccessControlEntryRecord(id=each) for each in ids if each in known], None)


def _check_entry(entry: AccessControlEntry) -> None:
    """Raises KafkaError INVALID_REQUEST for an entry that cannot be created."""
    if entry.resource_type is ResourceType.CLUSTER and entry.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not entry.resource_name:
        raise _invalid("Invalid empty resource name")
    if entry.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {entry.resource_type.name}")
    if entry.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {entry.pattern_type.name}")
    if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {entry.operation.name}")
    if entry.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise _invalid(f"Invalid permissionType {entry.permission.name}")
    if ":" not in entry.principal:
        raise _invalid(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    _check_host(entry.host)


def check_filter(wanted: AclEntryFilter) -> None:
    """Raises KafkaError INVALID_REQUEST for a filter with unknown elements, which matches nothing."""
    if ResourceType.UNKNOWN is wanted.resource_type or PatternType.UNKNOWN is wanted.pattern_type:
        raise _invalid("Unknown patternFilter.")
    if AclOperation.UNKNOWN is wanted.operation or AclPermission.UNKNOWN is wanted.permission:
        raise _invalid("Unknown entryFilter.")


def _check_host(host: str) -> None:
    """Other texts than addresses are accepted as in Kafka, and match no client."""
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    try:
        host_network(host)
    except ValueError as error:
        raise _invalid(f"Invalid CIDR notation '{host}': {error}") from error


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
