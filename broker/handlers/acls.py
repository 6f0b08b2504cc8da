"""DescribeAcls, CreateAcls and DeleteAcls (keys 29 to 31): access control lists. There is no authorizer yet.

Kafka without an authorizer answers SECURITY_DISABLED to all three, and so does this node. CreateAcls and DeleteAcls are
answered by the node that was asked, since there is nothing that the controller would have to decide.
"""

from typing import Any, Final

from broker.server.context import Context
from broker.server.handler import Handler
from broker.wire.api.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from broker.wire.api.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from broker.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from broker.wire.errors import ErrorCode

_NOT_DESCRIBED: Final = "No Authorizer is configured on the broker"
_NOT_CHANGED: Final = "No Authorizer is configured."


def describe_acls(context: Context[Any], request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NOT_DESCRIBED)


def create_acls(context: Context[Any], request: CreateAclsRequest) -> CreateAclsResponse:
    result = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NOT_CHANGED)
    return CreateAclsResponse(results=[result] * len(request.creations))


def delete_acls(context: Context[Any], request: DeleteAclsRequest) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NOT_CHANGED)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


DESCRIBE_HANDLER = Handler(DescribeAclsRequest, describe_acls)
CREATE_HANDLER = Handler(CreateAclsRequest, create_acls)
DELETE_HANDLER = Handler(DeleteAclsRequest, delete_acls)
