"""kafka-configs: describe and alter configs of topics, brokers, groups and clients (ConfigCommand.scala)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from broker.cli.grammar.units import parse_number
from broker.cli.kafka_tools.clients import check_bootstrap, open_admin, read_properties
from broker.cli.kafka_tools.configs_described import QUOTA_TYPES, RESOURCE_TYPES, describe_configs
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    integer,
    option,
)
from broker.cli.kafka_tools.scram_configs import alter_credentials, is_about_credentials, without_passwords
from broker.cli.printing import print_text
from broker.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType, QuotaMatch
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import KafkaError

# The types of --entity-type by the option that stands for one of them and its name.
_TYPE_OF: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
_TYPE_OF_DEFAULTS: Final = {f"{name}-defaults": f"{name}s" for name in ("client", "user", "broker", "ip")}
_WITH_DEFAULTS: Final = ("users", "clients", "brokers", "ips")
_CLIENT_QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
_IP_QUOTAS: Final = ("connection_creation_rate",)
# A comma or an equals sign that is not within brackets.
_NOT_IN_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
_KEY: Final = re.compile(r"[$a-zA-Z0-9._-]*")

PARSER: Final = OptionParser(
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group",
    *BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    flag("describe", "Describe configs."),
    flag("alter", "Change configs."),
    flag("all", "With --describe: all configs, also those that have their default."),
    option("entity-type", "type", f"The type: {', '.join(_TYPE_OF.values())}."),
    option("entity-name", "name", "The name of the topic, broker, group, ..."),
    flag("entity-default", "The default of all users, clients, brokers or ips."),
    option("add-config", "key=value,...", "Configs to set; brackets hold a value with commas: k=[v1,v2]."),
    option("add-config-file", "file", "A properties file with configs to set."),
    option("delete-config", "key,...", "Configs to remove.", separator=","),
    *(option(name, "name", f"The same as --entity-type {kind} --entity-name.") for name, kind in _TYPE_OF.items()),
    *(flag(name, f"The same as --entity-type {kind} --entity-default.") for name, kind in _TYPE_OF_DEFAULTS.items()),
)


@attrs.frozen
class Entities:
    """The types and names on the command line. The name is "" for the default and absent for all entities of a type."""

    types: tuple[str, ...]
    names: tuple[str, ...]


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    entities = _entities(options)
    _check(options, entities)
    try:
        async with open_admin(options) as admin:
            if "alter" in options:
                await _alter(admin, options, entities)
            else:
                await describe_configs(admin, entities.types, entities.names, has_all="all" in options)
    except (KafkaError, ClientError) as error:
        command = without_passwords(" ".join(arguments))
        raise ToolExit(1, f"Error while executing config command with args '{command}'", exception_of(error)) from error
    return 0


def _entities(options: Options) -> Entities:
    types = [*options.values("entity-type")]
    names = [value or "" for _, value in options.in_order("entity-name", "entity-default")]
    for name, kind in (*_TYPE_OF.items(), *_TYPE_OF_DEFAULTS.items()):
        if name in options:
            types.append(kind)
            names.append(options.value(name) or "")
    return Entities(tuple(types), tuple(names))


def _check(options: Options, entities: Entities) -> None:
    """Checks the options. Raises UsageFailure, and ToolExit for mistakes that Kafka's tool reports without its help."""
    if ("alter" in options) == ("describe" in options):
        raise options.failure("Command must include exactly one action: --describe, --alter")
    options.exclude("describe", "add-config", "delete-config")
    check_bootstrap(options)
    types, names = entities.types, entities.names
    problem = _problem(options, types, names) or ("alter" in options and _problem_of_alter(options, types, names))
    if problem:
        raise ToolExit(1, problem)


def _problem(options: Options, types: Sequence[str], names: Sequence[str]) -> str | None:
    allowed = tuple(_TYPE_OF.values())
    if len(types) != len(set(types)):
        return f"Duplicate entity type(s) specified: {','.join(dict.fromkeys(types))}"
    for kind in types:
        if kind not in allowed:
            return (
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(allowed)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        return "At least one entity type must be specified"
    if len(types) > 1 and set(types) != {"users", "clients"}:
        return "Only 'users' and 'clients' entity types may be specified together"
    general = any(name in options for name in ("entity-type", "entity-name", "entity-default"))
    if general and any(name in options for name in (*_TYPE_OF, *_TYPE_OF_DEFAULTS)):
        return "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
    if types[0] in ("brokers", "broker-loggers"):
        for name in filter(None, names):
            if not _is_number(name):
                return f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}"
    if "describe" in options and "entity-default" in options and not set(types) & set(_WITH_DEFAULTS):
        return f"--entity-default must not be specified with --describe of {','.join(types)}"
    if "describe" in options and "broker-loggers" in types and not any(names):
        return f"An entity name must be specified with --describe of {','.join(types)}"
    return None


def _problem_of_alter(options: Options, types: Sequence[str], names: Sequence[str]) -> str | None:
    if set(types) & set(_WITH_DEFAULTS):
        if not names:
            return "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
    elif not any(names):
        return f"An entity name must be specified with --alter of {','.join(types)}"
    if "add-config" in options and "add-config-file" in options:
        return "Only one of --add-config or --add-config-file must be specified"
    if not any(name in options for name in ("add-config", "add-config-file", "delete-config")):
        return "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
    if len(types) != len(names):
        return "An entity name must be specified for every entity type"
    return None


def _is_number(text: str) -> bool:
    try:
        integer(text)
    except ValueError:
        return False
    return True


async def _alter(admin: Admin, options: Options, entities: Entities) -> None:
    """Alters the configs that the options name. Raises ToolExit, KafkaError, ClientError."""
    kind, name = entities.types[0], entities.names[0]
    added = _added(options)
    deleted = [key.strip() for key in options.values("delete-config")]
    if is_about_credentials(entities.types, [*added, *deleted]):
        await alter_credentials(admin, name, added, deleted)
    elif kind in QUOTA_TYPES:
        await _alter_quotas(admin, entities, added, deleted)
    else:
        await _alter_configs(admin, ConfigResource(RESOURCE_TYPES[kind], name), added, deleted)
    if name:
        print_text(f"Completed updating config for {kind[:-1]} {printable(name)}.")
    else:
        print_text(f"Completed updating default config for {kind} in the cluster.")


async def _alter_configs(
    admin: Admin, resource: ConfigResource, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if resource.type == ConfigResourceType.BROKER_LOGGER:
        await _check_loggers(admin, resource, [*deleted, *added])
    changes = [ConfigChange(key, None, ConfigOperation.DELETE) for key in deleted]
    changes += [ConfigChange(key, value) for key, value in added.items()]
    (await admin.incremental_alter_configs({resource: changes})).raise_first()


async def _alter_quotas(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Raises ToolExit, KafkaError, ClientError."""
    for keys, action in ((list(added), "added"), (list(deleted), "deleted")):
        _check_quotas(entities.types, keys, action)
    entity = {QUOTA_TYPES[kind]: name or None for kind, name in zip(entities.types, entities.names, strict=True)}
    matches = {kind: QuotaMatch.DEFAULT if name is None else name for kind, name in entity.items()}
    present = [key for quota in await admin.describe_client_quotas(matches, strict=True) for key in quota.values]
    if absent := [key for key in deleted if key not in present]:
        raise ToolExit(1, f"Invalid config(s): {','.join(absent)}")
    quotas: dict[str, float | None] = {key: _quota(key, value) for key, value in added.items()}
    await admin.alter_client_quotas(entity, quotas | dict.fromkeys(deleted))


def _check_quotas(kinds: Sequence[str], keys: Sequence[str], action: str) -> None:
    """Raises ToolExit for keys that are no quotas of these entity types."""
    is_of_users = tuple(kinds) == ("users",)
    known: Sequence[str] = _CLIENT_QUOTAS
    label, shown = "quota", "clients"
    if is_of_users:
        label, shown = "quota and SCRAM credential", "users"
    elif tuple(kinds) == ("ips",):
        known, label, shown = _IP_QUOTAS, "connection quota", "ips"
    if unknown := [key for key in keys if key not in known]:
        raise ToolExit(
            1,
            f"Only {label} configs can be {action} for '{shown}' using --bootstrap-server. "
            f"Unexpected config names: {', '.join(unknown)}",
        )


def _quota(key: str, value: str) -> float:
    """Raises ToolExit."""
    try:
        return parse_number(value)
    except ValueError as error:
        raise ToolExit(1, f"Cannot parse quota configuration value for {key}: {value}") from error


async def _check_loggers(admin: Admin, resource: ConfigResource, names: Sequence[str]) -> None:
    """Checks that the broker has the loggers. Raises ToolExit."""
    known = (await admin.describe_configs([resource])).value(resource)
    if unknown := [name for name in names if name not in known]:
        raise ToolExit(1, f"Invalid broker logger(s): {','.join(unknown)}")


def _added(options: Options) -> dict[str, str]:
    """The configs of --add-config and --add-config-file. Raises ToolExit, UsageFailure."""
    added = read_properties(options.value("add-config-file")) if "add-config-file" in options else {}
    if "add-config" in options:
        parts = re.split("," + _NOT_IN_BRACKETS, options.value("add-config"))
        pairs = [re.split(r"\s*=\s*" + _NOT_IN_BRACKETS, part) for part in parts]
        if any(len(pair) != 2 for pair in pairs):
            raise ToolExit(
                1,
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.',
            )
        added |= {key.strip(): value.replace("[", "").replace("]", "").strip() for key, value in pairs}
    for key in added:
        if not _KEY.fullmatch(key):
            raise ToolExit(1, f"Invalid character found for config key: {key}")
    return added
