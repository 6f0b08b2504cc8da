"""CreateDelegationToken (key 38): a token by which its holder acts as the owner (KIP-48, KIP-373).

Version 3 adds an owner other than the requester. Flexible from version 2 on.
"""

from broker.wire.schema import field, request, response, struct


@struct
class CreatableRenewers:
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")


@request(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Without an owner, the requester is the owner. `max_lifetime_ms` is -1 for the configured time."""

    owner_principal_type: str | None = field("string", "3+", default="", nullable="3+")
    owner_principal_name: str | None = field("string", "3+", default="", nullable="3+")
    renewers: list[CreatableRenewers] = field([CreatableRenewers], "0+", factory=list)
    max_lifetime_ms: int = field("int64", "0+", default=0)


@response(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    """Timestamps are of the wall clock, in ms since 1970."""

    error_code: int = field("int16", "0+", default=0)
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")
    token_requester_principal_type: str = field("string", "3+", default="")
    token_requester_principal_name: str = field("string", "3+", default="")
    issue_timestamp_ms: int = field("int64", "0+", default=0)
    expiry_timestamp_ms: int = field("int64", "0+", default=0)
    max_timestamp_ms: int = field("int64", "0+", default=0)
    token_id: str = field("string", "0+", default="")
    hmac: bytes = field("bytes", "0+", default=b"", is_secret=True)
    throttle_time_ms: int = field("int32", "0+", default=0)
