"""RenewDelegationToken (key 39): a later time at which a token expires (KIP-48).

Flexible from version 2 on.
"""

from broker.wire.schema import field, request, response


@request(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """`renew_period_ms` is -1 for the configured time."""

    hmac: bytes = field("bytes", "0+", default=b"", is_secret=True)
    renew_period_ms: int = field("int64", "0+", default=0)


@response(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The timestamp is of the wall clock, in ms since 1970."""

    error_code: int = field("int16", "0+", default=0)
    expiry_timestamp_ms: int = field("int64", "0+", default=0)
    throttle_time_ms: int = field("int32", "0+", default=0)
