"""Records of SCRAM credentials."""

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.USER_SCRAM_CREDENTIAL, version=0)
@lazy_attrs.frozen(kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    """Sets a user's credential for one mechanism. `mechanism` is the number of a ScramMechanism (KIP-554)."""

    name: str = number(0)
    mechanism: int = number(1)
    salt: bytes = number(2, repr=False)
    stored_key: bytes = number(3, repr=False)
    server_key: bytes = number(4, repr=False)
    iterations: int = number(5)


@metadata_record(RecordType.REMOVE_USER_SCRAM_CREDENTIAL, version=0)
@lazy_attrs.frozen(kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """Removes a user's credential for one mechanism."""

    name: str = number(0)
    mechanism: int = number(1)
