"""CreateAcls (key 30): add access control entries.

Flexible from 2. Notable versions:
    1  the pattern type of a resource's name (KIP-290)
    3  users as a type of resource (KIP-373)
"""

from broker.wire.schema import field, request, response, struct

LITERAL = 3


@struct
class AclCreation:
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    resource_pattern_type: int = field("int8", "1+", default=LITERAL)
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


@request(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = field([AclCreation], "0+", factory=list)


@struct
class AclCreationResult:
    """In the order of the request's creations."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")


@response(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[AclCreationResult] = field([AclCreationResult], "0+", factory=list)
