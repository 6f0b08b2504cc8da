"""kafka-acls: lists, adds and removes access control entries (AclCommand.java)."""

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import attrs

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    option,
)
from broker.cli.printing import print_text
from broker.client.admin import AclBinding, AclFilter, AclPermission, Admin, PatternType
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import KafkaError
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType

_PATTERN_TYPES: Final = ("any", "match", "literal", "prefixed")
_OPERATIONS: Final = tuple(operation for operation in AclOperation if operation > AclOperation.ANY)
# The options that name resources.
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_SUPPORTED: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER DESCRIBE ALL",
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT ALL",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE ALL",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS ALL",
}


def operation(text: str) -> AclOperation:
    """An operation by its name, such as DescribeConfigs or describe_configs. Raises ValueError."""
    wanted = text.strip().replace("_", "").lower()
    for each in _OPERATIONS:
        if each.name.replace("_", "").lower() == wanted:
            return each
    raise ValueError(text)


def _pattern_type(text: str) -> PatternType:
    if text.lower() not in _PATTERN_TYPES:
        raise ValueError(text)
    return PatternType[text.upper()]


def _principal(text: str) -> str:
    principal = text.strip()
    if not all(principal.partition(":")):
        raise ValueError(text)
    return principal


PARSER: Final = OptionParser(
    "This tool helps to manage acls on kafka.",
    *BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    flag("add", "Add entries."),
    flag("remove", "Remove entries."),
    flag("list", "List entries; --topic, --group or --cluster select some."),
    option("topic", "topic", "The topic of entries; * is all topics."),
    flag("cluster", "The entries of the cluster."),
    option("group", "group", "The group of entries; * is all groups."),
    option("transactional-id", "id", "The transactional id of entries; * is all ids."),
    option("delegation-token", "token", "The delegation token of entries; * is all tokens."),
    option("user-principal", "user", "The user whose tokens the entries are about."),
    option(
        "resource-pattern-type",
        "ANY|MATCH|LITERAL|PREFIXED",
        "How names of resources are read. To list and remove entries, any has the name in patterns of both types, and "
        "match all patterns that apply to the name.",
        _pattern_type,
        default=PatternType.LITERAL,
    ),
    option("operation", "operation", "What is allowed or denied, such as Read or All.", operation),
    option("allow-principal", "principal", "Who is allowed it, such as User:alice; User:* is everyone.", _principal),
    option("deny-principal", "principal", "Who is denied it, whatever else is allowed.", _principal),
    option("principal", "principal", "List the entries of this principal only.", _principal),
    option("allow-host", "host", "The address that --allow-principal uses; * by default."),
    option("deny-host", "host", "The address that --deny-principal uses; * by default."),
    flag("producer", "The operations of a producer: Write, Describe and Create on topics."),
    flag("idempotent", "With --producer, also those of an idempotent producer."),
    flag("consumer", "The operations of a consumer: Read and Describe on topics, Read on groups."),
    flag("force", "Do not ask before entries are removed."),
)


@attrs.frozen
class Pattern:
    """A resource, or those that a pattern stands for."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        kind, pattern_type = self.resource_type.name, self.pattern_type.name
        return f"ResourcePattern(resourceType={kind}, name={printable(self.name)}, patternType={pattern_type})"


@attrs.frozen
class Entry:
    """A permission of a principal, as an entry of a resource holds it."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={printable(self.principal)}, host={printable(self.host)}, "
            f"operation={self.operation.name}, permissionType={self.permission.name})"
        )


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    _check(options)
    try:
        async with open_admin(options) as admin:
            if "add" in options:
                await _add(admin, options)
            elif "remove" in options:
                await _remove(admin, options)
            else:
                await _list(admin, options)
    except (KafkaError, ClientError) as error:
        raise ToolExit(1, f"Error while executing ACL command: {exception_of(error)}") from error
    return 0


def _check(options: Options) -> None:
    """Raises UsageFailure."""
    if "bootstrap-server" in options and "bootstrap-controller" in options:
        raise options.failure("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if "bootstrap-server" not in options and "bootstrap-controller" not in options:
        raise options.failure("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(name in options for name in ("add", "remove", "list")) != 1:
        raise options.failure("Command must include exactly one action: --list, --add, --remove. ")
    options.exclude("list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    for role in ("producer", "consumer"):
        options.exclude(role, "operation", "deny-principal", "deny-host")
    if "principal" in options and "list" not in options:
        raise options.failure("The --principal option is only available if --list is set")
    if "producer" in options and "topic" not in options:
        raise options.failure("With --producer you must specify a --topic")
    if "idempotent" in options and "producer" not in options:
        raise options.failure("The --idempotent option is only available if --producer is set")
    is_only_consumer = "producer" not in options and ("cluster" in options or "transactional-id" in options)
    if "consumer" in options and ("topic" not in options or "group" not in options or is_only_consumer):
        raise options.failure(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


async def _add(admin: Admin, options: Options) -> None:
    pattern_type = options.value("resource-pattern-type")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise options.failure(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls."
        )
    wanted = _entries(options)
    if not all(wanted.values()):
        raise options.failure("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    for pattern, entries in wanted.items():
        known = set((await _described(admin, [pattern])).get(pattern, ()))
        for entry in known.intersection(entries):
            print_text(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in known]
        if new:
            _print_entries(f"Adding ACLs for resource `{pattern}`: \n ", new)
            results = await admin.create_acls(_binding(pattern, entry) for entry in new)
            results.raise_first()


async def _remove(admin: Admin, options: Options) -> None:
    for pattern, entries in _entries(options).items():
        if not _is_confirmed(options, pattern, entries):
            continue
        whole = AclFilter(pattern.resource_type, pattern.name, pattern_type=pattern.pattern_type)
        filters = [
            attrs.evolve(
                whole,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission=entry.permission,
            )
            for entry in entries
        ]
        (await admin.delete_acls(filters or [whole])).raise_first()


def _is_confirmed(options: Options, pattern: Pattern, entries: Sequence[Entry]) -> bool:
    if "force" in options:
        return True
    resource = str(pattern).replace("ResourcePattern(", "ResourcePatternFilter(")
    if entries:
        _print_entries("Are you sure you want to remove ACLs: \n ", entries)
        print_text(f" from resource filter `{resource}`? (y/n)")
    else:
        print_text(f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)")
    return sys.stdin.readline().strip().lower() == "y"


async def _list(admin: Admin, options: Options) -> None:
    found = await _described(admin, _patterns(options))
    principals = dict.fromkeys(options.values("principal"))
    if not principals:
        _print_listed(found)
    for principal in principals:
        print_text(f"ACLs for principal `{printable(principal)}`")
        _print_listed(
            {
                pattern: [entry for entry in entries if entry.principal == principal]
                for pattern, entries in found.items()
            }
        )


async def _described(admin: Admin, patterns: Collection[Pattern]) -> dict[Pattern, list[Entry]]:
    """The entries of these resources, or all."""
    filters = [AclFilter(each.resource_type, each.name, pattern_type=each.pattern_type) for each in patterns]
    found: dict[Pattern, list[Entry]] = {}
    for wanted in filters or [AclFilter()]:
        for each in await admin.describe_acls(wanted):
            pattern = Pattern(each.resource_type, each.resource_name, each.pattern_type)
            entry = Entry(each.principal, each.host, each.operation, each.permission)
            entries = found.setdefault(pattern, [])
            if entry not in entries:
                entries.append(entry)
    return found


def _print_listed(found: dict[Pattern, list[Entry]]) -> None:
    for pattern, entries in found.items():
        if entries:
            _print_entries(f"Current ACLs for resource `{pattern}`:\n", entries)


def _print_entries(title: str, entries: Iterable[Entry]) -> None:
    print_text(title + "\n".join(f"\t{entry}" for entry in entries) + "\n")


def _entries(options: Options) -> dict[Pattern, list[Entry]]:
    """The entries of each resource of the command. Raises UsageFailure."""
    patterns = _patterns(options)
    if not patterns:
        raise options.failure(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    found: dict[Pattern, list[Entry]] = {}
    if "producer" not in options and "consumer" not in options:
        operations = options.values("operation") or [AclOperation.ALL]
        found.update({pattern: _of_principals(options, operations) for pattern in patterns})
    for pattern in patterns:
        operations = _operations_of_roles(options, pattern.resource_type)
        if operations:
            found[pattern] = _of_principals(options, operations)
    for pattern, entries in found.items():
        _check_operations(options, pattern, entries)
    return found


def _operations_of_roles(options: Options, kind: ResourceType) -> list[AclOperation]:
    """The operations that --producer and --consumer stand for."""
    operations: list[AclOperation] = []
    if "producer" in options:
        operations += {
            ResourceType.TOPIC: [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE],
            ResourceType.TRANSACTIONAL_ID: [AclOperation.WRITE, AclOperation.DESCRIBE],
            ResourceType.CLUSTER: [AclOperation.IDEMPOTENT_WRITE] if "idempotent" in options else [],
        }.get(kind, [])
    if "consumer" in options:
        operations += {
            ResourceType.TOPIC: [AclOperation.READ, AclOperation.DESCRIBE],
            ResourceType.GROUP: [AclOperation.READ],
        }.get(kind, [])
    return list(dict.fromkeys(operations))


def _patterns(options: Options) -> list[Pattern]:
    pattern_type = options.value("resource-pattern-type")
    patterns = []
    for name, kind in _RESOURCES.items():
        patterns += [Pattern(kind, text.strip(), pattern_type) for text in options.values(name)]
    if pattern_type is PatternType.LITERAL and ("cluster" in options or "idempotent" in options):
        patterns.append(Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return list(dict.fromkeys(patterns))


def _of_principals(options: Options, operations: Iterable[AclOperation]) -> list[Entry]:
    entries = []
    for verb, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        hosts = [host.strip() for host in options.values(f"{verb}-host")] or ["*"]
        entries += [
            Entry(principal, host, each, permission)
            for principal in options.values(f"{verb}-principal")
            for each in operations
            for host in hosts
        ]
    return list(dict.fromkeys(entries))


def _check_operations(options: Options, pattern: Pattern, entries: Iterable[Entry]) -> None:
    supported = _SUPPORTED[pattern.resource_type].split()
    if any(entry.operation.name not in supported for entry in entries):
        kind = pattern.resource_type.name
        raise options.failure(f"ResourceType {kind} only supports operations [{', '.join(supported)}]")


def _binding(pattern: Pattern, entry: Entry) -> AclBinding:
    return AclBinding(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )
