"""ExpireDelegationToken (key 40): another time at which a token expires, or its end (KIP-48).

Flexible from version 2 on.
"""

from broker.wire.schema import field, request, response


@request(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """A negative `expiry_time_period_ms` removes the token."""

    hmac: bytes = field("bytes", "0+", default=b"", is_secret=True)
    expiry_time_period_ms: int = field("int64", "0+", default=0)


@response(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The timestamp is of the wall clock, in ms since 1970."""

    error_code: int = field("int16", "0+", default=0)
    expiry_timestamp_ms: int = field("int64", "0+", default=0)
    throttle_time_ms: int = field("int32", "0+", default=0)
