"""Access control: the operations of Kafka's authorizer, its bindings, and calls on them (KIP-140, KIP-290)."""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.client.admin.routing import Deadline, Routing
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Failure, Outcomes, Results, failure, missing
from broker.wire.api.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker.wire.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from broker.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType

# A response carries this where authorized operations were not asked for.
_NOT_ASKED_FOR: Final = -(2**31)


@attrs.frozen
class AclBinding:
    """One entry: `principal` (`User:alice`) may do `operation` on a resource from `host` (`*`: any), or may not."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    host: str = "*"
    permission: AclPermission = AclPermission.ALLOW
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return _sentence(self)


@attrs.frozen
class AclFilter:
    """Matches access control entries. None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    host: str | None = None
    permission: AclPermission = AclPermission.ANY
    pattern_type: PatternType = PatternType.ANY

    def __str__(self) -> str:
        return _sentence(self)


ALL_ACLS: Final = AclFilter()
"""The filter that matches every access control entry."""


def _sentence(entry: AclBinding | AclFilter) -> str:
    """An entry in words: "allow User:alice read on topic orders from 10.0.0.1"; a filter has "any" for what is open."""
    permission, operation, kind, pattern = (
        each.name.lower().replace("_", "-")
        for each in (entry.permission, entry.operation, entry.resource_type, entry.pattern_type)
    )
    name = "any" if entry.resource_name is None else entry.resource_name
    resource = f"{kind} {name}" if entry.pattern_type is PatternType.LITERAL else f"{kind} {name} ({pattern})"
    host = "" if entry.host == "*" else f" from {entry.host or 'any'}"
    return f"{permission} {entry.principal or 'any'} {operation} on {resource}{host}"


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations of a bit set in a response (KIP-430); None where they were not asked for."""
    if bits == _NOT_ASKED_FOR:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)


class AclCalls(Routing):
    """Calls on access control entries. A cluster without an authorizer answers SECURITY_DISABLED."""

    async def describe_acls(self, filter: AclFilter = ALL_ACLS, *, timeout_ms: float | None = None) -> list[AclBinding]:
        """Returns the entries that match. Raises KafkaError."""

        async def ask(broker: Broker, deadline: Deadline) -> list[AclBinding]:
            response: DescribeAclsResponse = await broker.call(_describe_request(filter))
            check(response.error_code, response.error_message)
            return [
                AclBinding(
                    resource_type=ResourceType(resource.resource_type),
                    resource_name=resource.resource_name,
                    pattern_type=PatternType(resource.pattern_type),
                    principal=acl.principal,
                    host=acl.host,
                    operation=AclOperation(acl.operation),
                    permission=AclPermission(acl.permission_type),
                )
                for resource in response.resources
                for acl in resource.acls
            ]

        return await self._ask_any(ask, timeout_ms)

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: float | None = None
    ) -> Results[AclBinding, None]:
        """Adds access control entries."""

        async def ask(broker: Broker, pending: Sequence[AclBinding], deadline: Deadline) -> Outcomes[AclBinding, None]:
            request = CreateAclsRequest(creations=[_creation(binding) for binding in pending])
            response: CreateAclsResponse = await broker.call(request)
            outcomes: Outcomes[AclBinding, None] = {binding: missing(binding) for binding in pending}
            for binding, result in zip(pending, response.results, strict=False):
                outcomes[binding] = failure(result.error_code, result.error_message)
            return outcomes

        return await self._change(bindings, ask, timeout_ms)

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout_ms: float | None = None
    ) -> Results[AclFilter, list[AclBinding]]:
        """Removes the entries that match any of the filters; the value of a filter is what it removed."""

        async def ask(
            broker: Broker, pending: Sequence[AclFilter], deadline: Deadline
        ) -> Outcomes[AclFilter, list[AclBinding]]:
            request = DeleteAclsRequest(filters=[_delete_filter(each) for each in pending])
            response: DeleteAclsResponse = await broker.call(request)
            outcomes: Outcomes[AclFilter, list[AclBinding]] = {each: missing(each) for each in pending}
            for each, result in zip(pending, response.filter_results, strict=False):
                outcomes[each] = _deleted(result)
            return outcomes

        return await self._change(filters, ask, timeout_ms)


def _describe_request(filter: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.resource_name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission,
    )


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        resource_pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _delete_filter(filter: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.resource_name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission,
    )


def _deleted(result: DeleteAclsFilterResult) -> list[AclBinding] | Failure:
    """The entries that a filter removed, or the first error of the filter or of an entry that matches it."""
    reported: list[DeleteAclsFilterResult | DeleteAclsMatchingAcl] = [result, *result.matching_acls]
    for each in reported:
        error = failure(each.error_code, each.error_message)
        if error is not None:
            return error
    return [_binding(acl) for acl in result.matching_acls]


def _binding(acl: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        resource_type=ResourceType(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=PatternType(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=AclOperation(acl.operation),
        permission=AclPermission(acl.permission_type),
    )
