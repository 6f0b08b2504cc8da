"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have credentials for (KIP-554).

Always flexible.
"""

from broker.wire.schema import field, request, response, struct


@struct
class UserName:
    name: str = field("string", "0+", default="")


@request(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """None and an empty list ask for all users."""

    users: list[UserName] | None = field([UserName], "0+", factory=list, nullable="0+")


@struct
class CredentialInfo:
    """`mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: int = field("int8", "0+", default=0)
    iterations: int = field("int32", "0+", default=0)


@struct
class DescribeUserScramCredentialsResult:
    user: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    credential_infos: list[CredentialInfo] = field([CredentialInfo], "0+", factory=list)


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field([DescribeUserScramCredentialsResult], "0+", factory=list)
