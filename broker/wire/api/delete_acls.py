"""DeleteAcls (key 31): remove the access control entries that match filters.

Flexible from 2. Notable versions:
    1  the pattern type of a resource's name (KIP-290)
    3  users as a type of resource (KIP-373)
"""

from broker.wire.schema import field, request, response, struct

LITERAL = 3


@struct
class DeleteAclsFilter:
    """A filter as in DescribeAcls. None matches all."""

    resource_type_filter: int = field("int8", "0+", default=0)
    resource_name_filter: str | None = field("string", "0+", default="", nullable="0+")
    pattern_type_filter: int = field("int8", "1+", default=LITERAL)
    principal_filter: str | None = field("string", "0+", default="", nullable="0+")
    host_filter: str | None = field("string", "0+", default="", nullable="0+")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


@request(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = field([DeleteAclsFilter], "0+", factory=list)


@struct
class DeleteAclsMatchingAcl:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    pattern_type: int = field("int8", "1+", default=LITERAL)
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


@struct
class DeleteAclsFilterResult:
    """In the order of the request's filters."""

    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field([DeleteAclsMatchingAcl], "0+", factory=list)


@response(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    filter_results: list[DeleteAclsFilterResult] = field([DeleteAclsFilterResult], "0+", factory=list)
