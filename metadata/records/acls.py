"""Records of access control entries."""

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.ACCESS_CONTROL_ENTRY, version=0)
@lazy_attrs.frozen(kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    """Adds an entry under a UUID. Types, operation and permission are the numbers of Kafka's enumerations."""

    id: bytes = number(0)
    resource_type: int = number(1)
    resource_name: str = number(2)
    pattern_type: int = number(3)
    principal: str = number(4)
    host: str = number(5)
    operation: int = number(6)
    permission: int = number(7)


@metadata_record(RecordType.REMOVE_ACCESS_CONTROL_ENTRY, version=0)
@lazy_attrs.frozen(kw_only=True)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """Removes the entry with this UUID."""

    id: bytes = number(0)
