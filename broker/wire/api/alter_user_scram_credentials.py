"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials of users (KIP-554).

Always flexible. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
"""

from broker.wire.schema import field, request, response, struct


@struct
class ScramCredentialDeletion:
    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)


@struct
class ScramCredentialUpsertion:
    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)
    iterations: int = field("int32", "0+", default=0)
    salt: bytes = field("bytes", "0+", default=b"", is_secret=True)
    salted_password: bytes = field("bytes", "0+", default=b"", is_secret=True)


@request(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field([ScramCredentialDeletion], "0+", factory=list)
    upsertions: list[ScramCredentialUpsertion] = field([ScramCredentialUpsertion], "0+", factory=list)


@struct
class AlterUserScramCredentialsResult:
    user: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AlterUserScramCredentialsResult] = field([AlterUserScramCredentialsResult], "0+", factory=list)
