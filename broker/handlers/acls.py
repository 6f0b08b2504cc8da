"""DescribeAcls, CreateAcls and DeleteAcls (keys 29 to 31): access control entries (KIP-140, KIP-290).

Every node describes the entries that it knows. The controller creates and deletes them. Without an authorizer that uses
them, all three are answered with SECURITY_DISABLED, as in Kafka.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.handlers.response_errors import code_of, message_of
from broker.server.context import Context, ControllerContext
from broker.server.handler import REQUEST_BYTES_MAX, SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import Steps, each
from broker.wire.api.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from broker.wire.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from broker.wire.api.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import ACL_ENTRIES_MAX, check_filter
from metadata.image import AccessControlEntry, AclEntryFilter, AclsImage
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType

# Entries that are compared with a filter in one step: about 100 us.
_STEP_ENTRIES: Final = 256
_NOT_DESCRIBED: Final = "No Authorizer is configured on the broker"
_NOT_CHANGED: Final = "No Authorizer is configured."


def describe_acls(context: Context[Any], request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    _check_enabled(context, _NOT_DESCRIBED)
    wanted = _filter(request)
    check_filter(wanted)
    matching = yield from _matching(context.services.loader.image.acls, wanted)
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for number, entry in enumerate(matching.values(), 1):
        kind, name, pattern_type = entry.resource_type, entry.resource_name, entry.pattern_type
        resource = resources.get((kind, name, pattern_type))
        if resource is None:
            resource = resources[kind, name, pattern_type] = DescribeAclsResource(
                resource_type=kind, resource_name=name, pattern_type=pattern_type
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
        if not number % _STEP_ENTRIES:
            yield
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def create_acls(context: ControllerContext, request: CreateAclsRequest) -> Work[CreateAclsResponse]:
    _check_enabled(context, _NOT_CHANGED)
    if len(request.creations) > ACL_ENTRIES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    entries = yield from each(_entry, request.creations)
    outcomes = yield from in_task(context.services.controller.security.create_acls(entries, context=context))
    return CreateAclsResponse(results=(yield from each(_created, outcomes)))


def delete_acls(context: ControllerContext, request: DeleteAclsRequest) -> Work[DeleteAclsResponse]:
    """Deletes the entries that match any of the filters, all at once. An entry may match several of them."""
    _check_enabled(context, _NOT_CHANGED)
    acls = context.services.controller.image.acls
    results, ids = [], dict[bytes, None]()
    for wanted in map(_filter, request.filters):
        try:
            check_filter(wanted)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message))
            continue
        matching = yield from _matching(acls, wanted)
        ids.update(dict.fromkeys(matching))
        if len(ids) > ACL_ENTRIES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {ACL_ENTRIES_MAX} acls in a single delete operation.",
            )
        deleted = yield from each(_deleted, matching.values())
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=deleted))
        yield None
    yield from in_task(context.services.controller.security.delete_acls(list(ids), context=context))
    return DeleteAclsResponse(filter_results=results)


def describe_refused(context: Context[Any], request: DescribeAclsRequest, error: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code_of(error), error_message=message_of(error))


def create_refused(context: ControllerContext, request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_created(error)] * len(request.creations))


def delete_refused(context: ControllerContext, request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=code_of(error), error_message=message_of(error))
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _check_enabled(context: Context[Any], message: str) -> None:
    """Raises KafkaError SECURITY_DISABLED."""
    authorizer = context.server.authorizer
    if authorizer is None or not authorizer.uses_acls:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)


def _matching(acls: AclsImage, wanted: AclEntryFilter) -> Steps[Mapping[bytes, AccessControlEntry]]:
    """The entries that match the filter, by their ids."""
    found = {}
    for number, (acl_id, entry) in enumerate(acls.by_id.items(), 1):
        if wanted.matches(entry):
            found[acl_id] = entry
        if not number % _STEP_ENTRIES:
            yield
    return found


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclEntryFilter:
    return AclEntryFilter(
        ResourceType(wanted.resource_type_filter),
        wanted.resource_name_filter,
        PatternType(wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        AclOperation(wanted.operation),
        AclPermission(wanted.permission_type),
    )


def _entry(creation: AclCreation) -> AccessControlEntry:
    return AccessControlEntry(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermission(creation.permission_type),
    )


def _created(error: KafkaError | None) -> AclCreationResult:
    return AclCreationResult(error_code=code_of(error), error_message=message_of(error))


def _deleted(entry: AccessControlEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


DESCRIBE_HANDLER = Handler(
    DescribeAclsRequest,
    describe_acls,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=describe_refused,
    operation=AclOperation.DESCRIBE,
)
# More than 10,000 entries, which is all that one request may create.
CREATE_HANDLER = Handler(
    CreateAclsRequest,
    create_acls,
    request_bytes_max=2 * REQUEST_BYTES_MAX,
    refused=create_refused,
    forwarded=True,
    operation=AclOperation.ALTER,
)
DELETE_HANDLER = Handler(
    DeleteAclsRequest,
    delete_acls,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=delete_refused,
    forwarded=True,
    operation=AclOperation.ALTER,
)
