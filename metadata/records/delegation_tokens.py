"""Records of delegation tokens."""

from kraft import lazy_attrs
from metadata.records.record import MetadataRecord, RecordType, metadata_record, number


@metadata_record(RecordType.DELEGATION_TOKEN, version=0)
@lazy_attrs.frozen(kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    """Creates a token, or replaces the one with this id (KIP-48). Principals are text, such as "User:alice".

    Times are of the wall clock, in ms since 1970. The token's HMAC is not in the log: the secret key gives it.
    """

    owner: str = number(0)
    requester: str = number(1)
    renewers: tuple[str, ...] = number(2, default=())
    issue_timestamp: int = number(3)
    max_timestamp: int = number(4)
    expiration_timestamp: int = number(5)
    token_id: str = number(6)


@metadata_record(RecordType.REMOVE_DELEGATION_TOKEN, version=0)
@lazy_attrs.frozen(kw_only=True)
class RemoveDelegationTokenRecord(MetadataRecord):
    """Removes the token with this id."""

    token_id: str = number(0)
