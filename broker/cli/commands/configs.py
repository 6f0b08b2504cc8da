"""`kraft configs`: see and change configs of topics, brokers, groups and clients."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation, WrongSettings
from broker.cli.output import Column, list_of
from broker.client.admin import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from metadata.configuration import BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS

_KINDS: Final = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "group": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "broker-logger": ConfigResourceType.BROKER_LOGGER,
}
# Kafka's name for the configs that all brokers have which have none of their own.
_DEFAULT_NAME: Final = "default"
_SENTENCES: Final = {
    "set": "set {row.name}={row.value}",
    "append": "added {row.value} to {row.name}",
    "subtract": "removed {row.value} from {row.name}",
    "delete": "deleted {row.name}",
}
_BROKER_KEYS: Final = frozenset({*BROKER_CONFIGS.keys, *DYNAMIC_ONLY_CONFIGS.keys})
_OF_LISTENER: Final = "listener.name."
_NOT_SET: Final = (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


@attrs.frozen
class ConfigRow:
    """A config. `source` says where the value comes from; the values of secrets are null."""

    kind: str
    resource: str
    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool


@attrs.frozen
class ResourceRow:
    """A resource that has configs set."""

    kind: str
    resource: str


@attrs.frozen
class ChangedConfig:
    """A change that was made. `operation` is set, append, subtract or delete."""

    kind: str
    resource: str
    name: str
    operation: str
    value: str | None


CONFIG_COLUMNS: Sequence[Column[ConfigRow]] = (
    Column("name", lambda row: row.name),
    Column("value", lambda row: "(secret)" if row.is_sensitive else "-" if row.value is None else row.value),
    Column("source", lambda row: row.source, style=lambda row: "" if row.source == "default" else "cyan"),
    Column("read-only", lambda row: "yes" if row.is_read_only else ""),
)


@click.group("configs", cls=CommandGroup)
def configs() -> None:
    """See and change configs of topics, brokers, groups and clients.

    A broker's name is its id; `default` means all brokers.
    """


@configs.command("list", cls=ClusterCommand, shape=list_of(ResourceRow))
@click.argument("kind", required=False, type=click.Choice(list(_KINDS)))
async def list_resources(invocation: Invocation, kind: str | None) -> None:
    """List the resources that have configs."""
    types = [_KINDS[kind]] if kind else []
    async with invocation.admin() as admin:
        found = await admin.list_config_resources(types)
    names = {type_: name for name, type_ in _KINDS.items()}
    rows = [ResourceRow(names.get(each.type, each.type.name.lower()), each.name or _DEFAULT_NAME) for each in found]
    columns: Sequence[Column[ResourceRow]] = (
        Column("kind", lambda row: row.kind),
        Column("resource", lambda row: row.resource),
    )
    invocation.printer.rows(rows, columns, empty="Nothing has configs of its own.")


@configs.command("describe", cls=ClusterCommand, shape=list_of(ConfigRow))
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("names", nargs=-1, required=True)
@click.option("--all", "shows_all", is_flag=True, help="Include the configs that are at their defaults.")
@click.option("--config", "keys", multiple=True, metavar="KEY", help="Only this config; may be repeated.")
async def describe(
    invocation: Invocation, kind: str, names: Sequence[str], shows_all: bool, keys: Sequence[str]
) -> None:
    """Show the configs that are set for resources."""
    resources = [_resource(kind, name) for name in names]
    async with invocation.admin() as admin:
        results = await admin.describe_configs(resources, names=keys or None)
    rows = [
        _row(kind, resource, entry)
        for resource, entries in invocation.succeeded(results, kind).items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if shows_all or keys or entry.source not in _NOT_SET
    ]
    several: Column[ConfigRow] = Column(kind, lambda row: row.resource)
    columns = [several, *CONFIG_COLUMNS] if len(resources) > 1 else CONFIG_COLUMNS
    invocation.printer.rows(rows, columns, empty="No configs are set; --all shows the defaults.")


@configs.command("set", cls=ClusterCommand, shape=list_of(ChangedConfig))
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def set_(invocation: Invocation, kind: str, name: str, settings: Sequence[str], dry_run: bool) -> None:
    """Set configs: KEY=VALUE; for a list also KEY+=VALUE and KEY-=VALUE, which add and remove elements."""
    await _alter(invocation, kind, name, [_change(setting) for setting in settings], dry_run)


@configs.command("delete", cls=ClusterCommand, shape=list_of(ChangedConfig))
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("name")
@click.argument("keys", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def delete(invocation: Invocation, kind: str, name: str, keys: Sequence[str], dry_run: bool) -> None:
    """Delete configs, so that their defaults count again."""
    await _alter(invocation, kind, name, [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys], dry_run)


async def _alter(invocation: Invocation, kind: str, name: str, changes: Sequence[ConfigChange], dry_run: bool) -> None:
    resource = _resource(kind, name)
    async with invocation.admin() as admin:
        results = await admin.incremental_alter_configs({resource: changes}, validate_only=dry_run)
    if kind == "broker":
        for change in changes:
            _warn_of_unknown(invocation, change)
    done = [
        ChangedConfig(kind, name, change.name, change.operation.name.lower(), change.value)
        for _ in invocation.succeeded(results, kind)
        for change in changes
    ]
    prefix = "Dry run: " if dry_run else ""
    invocation.printer.each(done, lambda row: f"{prefix}{kind} {name}: {_SENTENCES[row.operation].format(row=row)}")


def _warn_of_unknown(invocation: Invocation, change: ConfigChange) -> None:
    """Brokers take any config, because their plugins may have some; a key that is mistyped has no effect."""
    if (
        change.operation == ConfigOperation.DELETE
        or change.name in _BROKER_KEYS
        or change.name.startswith(_OF_LISTENER)
    ):
        return
    near = get_close_matches(change.name, sorted(_BROKER_KEYS), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    invocation.printer.note(f"kraft: brokers have no config {change.name}, so that it has no effect{meant}")


def _change(setting: str) -> ConfigChange:
    """Parses `KEY=VALUE`, `KEY+=VALUE` or `KEY-=VALUE`. Raises WrongSettings."""
    key, equals, value = setting.partition("=")
    operation = {"+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}.get(key[-1:], ConfigOperation.SET)
    name = key if operation == ConfigOperation.SET else key[:-1]
    if not (equals and name):
        raise WrongSettings(f"{setting!r} is not a setting; write KEY=VALUE, KEY+=VALUE or KEY-=VALUE")
    return ConfigChange(name, value, operation)


def _resource(kind: str, name: str) -> ConfigResource:
    is_default = kind == "broker" and name == _DEFAULT_NAME
    return ConfigResource(_KINDS[kind], "" if is_default else name)


def _row(kind: str, resource: ConfigResource, entry: ConfigEntry) -> ConfigRow:
    return ConfigRow(
        kind,
        resource.name or _DEFAULT_NAME,
        entry.name,
        entry.value,
        entry.source.name.lower().replace("_", "-"),
        entry.is_read_only,
        entry.is_sensitive,
    )
