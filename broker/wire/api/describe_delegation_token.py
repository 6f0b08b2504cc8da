"""DescribeDelegationToken (key 41): the tokens of owners, with their HMACs (KIP-48).

Version 3 adds the requester of a token. Flexible from version 2 on.
"""

from broker.wire.schema import field, request, response, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")


@request(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """`owners` is None for the tokens of all owners."""

    owners: list[DescribeDelegationTokenOwner] | None = field(
        [DescribeDelegationTokenOwner], "0+", factory=list, nullable="0+"
    )


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")


@struct
class DescribedDelegationToken:
    """Timestamps are of the wall clock, in ms since 1970."""

    principal_type: str = field("string", "0+", default="")
    principal_name: str = field("string", "0+", default="")
    token_requester_principal_type: str = field("string", "3+", default="")
    token_requester_principal_name: str = field("string", "3+", default="")
    issue_timestamp: int = field("int64", "0+", default=0)
    expiry_timestamp: int = field("int64", "0+", default=0)
    max_timestamp: int = field("int64", "0+", default=0)
    token_id: str = field("string", "0+", default="")
    hmac: bytes = field("bytes", "0+", default=b"", is_secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = field([DescribedDelegationTokenRenewer], "0+", factory=list)


@response(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = field("int16", "0+", default=0)
    tokens: list[DescribedDelegationToken] = field([DescribedDelegationToken], "0+", factory=list)
    throttle_time_ms: int = field("int32", "0+", default=0)
