"""`kraft acls`: see and change access control lists (KIP-140, KIP-290)."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation, WrongSettings
from broker.cli.output import Column, list_of
from broker.client.admin import AclBinding, AclFilter, AclPermission, PatternType
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType

_ANY: Final = "*"
_CLUSTER: Final = "cluster"
# The types of resources by the names that this command has for them.
_TYPES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
    _CLUSTER: ResourceType.CLUSTER,
}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}
_OPERATIONS: Final = {each.name.lower().replace("_", "-"): each for each in AclOperation if each > AclOperation.ANY}
# The operations that clients need, by type of resource. Reading and writing imply describing.
_ROLES: Final[Mapping[str, Mapping[ResourceType, tuple[AclOperation, ...]]]] = {
    "produce": {
        ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
    },
    "consume": {ResourceType.TOPIC: (AclOperation.READ,), ResourceType.GROUP: (AclOperation.READ,)},
}


@attrs.frozen
class AclRow:
    """An entry. `resource` is TYPE=NAME, with a last * for all names that begin so; `permission` is allow or deny."""

    principal: str
    host: str
    permission: str
    operation: str
    resource: str


@click.group("acls", cls=CommandGroup)
def acls() -> None:
    """See and change access control lists.

    A resource is written TYPE=NAME, as in topic=orders, group=app or transactional-id=t. NAME* stands for all names
    that begin with NAME, and * for all. The cluster is written cluster. A principal without a type is a user. Nodes
    decide by the entries where authorizer.class.name is set.
    """


@acls.command("list", cls=ClusterCommand, shape=list_of(AclRow))
@click.argument("resources", nargs=-1, metavar="[RESOURCE...]")
@click.option("--principal", metavar="PRINCIPAL", help="Only entries of this principal.")
@click.option("--applying", is_flag=True, help="All entries that apply to the resources, also by patterns.")
async def list_acls(invocation: Invocation, resources: Sequence[str], principal: str | None, applying: bool) -> None:
    """List entries: all, or those of some resources."""
    filters = [_filter(text, applying) for text in resources] or [AclFilter()]
    if principal is not None:
        filters = [attrs.evolve(each, principal=_principal(principal)) for each in filters]
    async with invocation.admin() as admin:
        found = [binding for wanted in filters for binding in await admin.describe_acls(wanted)]
    columns: Sequence[Column[AclRow]] = (
        Column("principal", lambda row: row.principal),
        Column("host", lambda row: row.host),
        Column("permission", lambda row: row.permission),
        Column("operation", lambda row: row.operation),
        Column("resource", lambda row: row.resource),
    )
    invocation.printer.rows(_rows(dict.fromkeys(found)), columns, empty="There are no such entries.")


@acls.command("add", cls=ClusterCommand, shape=list_of(AclRow))
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operations", metavar="OPERATION[,OPERATION...]")
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...")
@click.option("--deny", is_flag=True, help="Deny the operations, whatever else is allowed.")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Only from this address or range; repeatable.")
async def add(
    invocation: Invocation,
    principal: str,
    operations: str,
    resources: Sequence[str],
    deny: bool,
    hosts: Sequence[str],
) -> None:
    """Allow a principal operations on resources.

    OPERATION is one of Kafka's, such as read, write, describe, alter-configs or all. `produce` stands for what
    producers need on topics and transactional ids, and `consume` for what consumers need on topics and groups.
    """
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    bindings = [
        AclBinding(kind, name, _principal(principal), operation, host, permission, pattern_type)
        for kind, name, pattern_type in map(_pattern, resources)
        for operation in _operations(operations, kind)
        for host in hosts or [_ANY]
    ]
    async with invocation.admin() as admin:
        results = await admin.create_acls(dict.fromkeys(bindings))
    invocation.printer.each(_rows(results.raise_first()), lambda row: f"added: {_shown(row)}")


@acls.command("remove", cls=ClusterCommand, shape=list_of(AclRow))
@click.argument("resources", nargs=-1, metavar="[RESOURCE...]")
@click.option("--principal", metavar="PRINCIPAL", help="Only entries of this principal.")
@click.option("--operation", metavar="OPERATION", help="Only entries of this operation.")
@click.option("--permission", type=click.Choice(["allow", "deny"]), help="Only entries that allow, or that deny.")
@click.option("--host", metavar="HOST", help="Only entries of this host.")
@click.option("--dry-run", is_flag=True, help="Only show the entries; do not remove them.")
async def remove(
    invocation: Invocation,
    resources: Sequence[str],
    principal: str | None,
    operation: str | None,
    permission: str | None,
    host: str | None,
    dry_run: bool,
) -> None:
    """Remove the entries that match."""
    if not resources and principal is None:
        raise WrongSettings("name resources, as in topic=orders, or a principal with --principal")
    filters = [
        attrs.evolve(
            wanted,
            principal=None if principal is None else _principal(principal),
            operation=AclOperation.ANY if operation is None else _operation(operation),
            permission=AclPermission.ANY if permission is None else AclPermission[permission.upper()],
            host=host,
        )
        for wanted in ([_filter(text, False) for text in resources] or [AclFilter()])
    ]
    async with invocation.admin() as admin:
        if dry_run:
            found = [binding for wanted in filters for binding in await admin.describe_acls(wanted)]
        else:
            found = (await admin.delete_acls(dict.fromkeys(filters))).chained()
    verb = "would be removed" if dry_run else "removed"
    invocation.printer.each(_rows(dict.fromkeys(found)), lambda row: f"{verb}: {_shown(row)}")


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"


def _pattern(text: str) -> tuple[ResourceType, str, PatternType]:
    """The type and the pattern of a resource. Raises WrongSettings."""
    if text == _CLUSTER:
        return ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
    kind, equals, name = text.partition("=")
    if kind not in _TYPES or kind == _CLUSTER or not equals or not name:
        types = ", ".join(name for name in _TYPES if name != _CLUSTER)
        raise WrongSettings(f"{text!r} is not a resource; write cluster, or TYPE=NAME with one of the types {types}")
    if name != _ANY and name.endswith(_ANY):
        return _TYPES[kind], name.removesuffix(_ANY), PatternType.PREFIXED
    return _TYPES[kind], name, PatternType.LITERAL


def _filter(text: str, applying: bool) -> AclFilter:
    kind, name, pattern_type = _pattern(text)
    return AclFilter(kind, name, pattern_type=PatternType.MATCH if applying else pattern_type)


def _operations(text: str, kind: ResourceType) -> list[AclOperation]:
    """Raises WrongSettings."""
    found: list[AclOperation] = []
    for name in text.lower().split(","):
        role = _ROLES.get(name)
        if role is not None and kind not in role:
            raise WrongSettings(f"{name} needs nothing on a {_NAMES[kind]}")
        found += [_operation(name)] if role is None else role[kind]
    return list(dict.fromkeys(found))


def _operation(name: str) -> AclOperation:
    operation = _OPERATIONS.get(name.lower().replace("_", "-"))
    if operation is None:
        raise WrongSettings(f"{name!r} is not an operation; there are {', '.join([*_ROLES, *_OPERATIONS])}")
    return operation


def _rows(bindings: "dict[AclBinding, None]") -> list[AclRow]:
    rows = [
        AclRow(
            each.principal,
            each.host,
            each.permission.name.lower(),
            each.operation.name.lower().replace("_", "-"),
            _resource(each),
        )
        for each in bindings
    ]
    return sorted(rows, key=lambda row: (row.resource, row.principal, row.permission, row.operation, row.host))


def _resource(binding: AclBinding) -> str:
    if binding.resource_type is ResourceType.CLUSTER:
        return _CLUSTER
    suffix = _ANY if binding.pattern_type is PatternType.PREFIXED else ""
    return f"{_NAMES.get(binding.resource_type, binding.resource_type.name)}={binding.resource_name}{suffix}"


def _shown(row: AclRow) -> str:
    where = "" if row.host == _ANY else f" from {row.host}"
    return f"{row.permission} {row.principal} {row.operation} on {row.resource}{where}"
