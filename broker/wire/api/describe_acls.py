"""DescribeAcls (key 29): the access control lists that match a filter.

Flexible from 2. Notable versions:
    1  the pattern type of a resource's name (KIP-290)
    3  users as a type of resource (KIP-373)
"""

from broker.wire.schema import field, request, response, struct

LITERAL = 3


@request(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """Numbers are those of Kafka's resource types, pattern types, operations and permission types. None matches all."""

    resource_type_filter: int = field("int8", "0+", default=0)
    resource_name_filter: str | None = field("string", "0+", default="", nullable="0+")
    pattern_type_filter: int = field("int8", "1+", default=LITERAL)
    principal_filter: str | None = field("string", "0+", default="", nullable="0+")
    host_filter: str | None = field("string", "0+", default="", nullable="0+")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


@struct
class AclDescription:
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


@struct
class DescribeAclsResource:
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    pattern_type: int = field("int8", "1+", default=LITERAL)
    acls: list[AclDescription] = field([AclDescription], "0+", factory=list)


@response(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resources: list[DescribeAclsResource] = field([DescribeAclsResource], "0+", factory=list)
