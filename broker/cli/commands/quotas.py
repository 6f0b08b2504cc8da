"""`kraft quotas`: see and change quotas of users, client ids and addresses (KIP-546)."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation, WrongSettings
from broker.cli.grammar.units import format_number, parse_number
from broker.cli.output import Column, list_of
from broker.client.admin import QuotaMatch

_TYPES: Final = {"user": "user", "client-id": "client-id", "ip": "ip"}
# Kafka's name for the quota of all entities that have none of their own.
_DEFAULT_NAME: Final = "default"


@attrs.frozen
class QuotaRow:
    """A quota. `entity` maps entity types to names; a name is null for the default of the type."""

    entity: Mapping[str, str | None]
    key: str
    value: float


@attrs.frozen
class ChangedQuota:
    """A quota that was set, or removed if its value is null."""

    entity: Mapping[str, str | None]
    key: str
    value: float | None


@click.group("quotas", cls=CommandGroup)
def quotas() -> None:
    """See and change quotas of users, client ids and addresses.

    An entity is written TYPE=NAME, as in user=alice, client-id=app or ip=10.0.0.1. `TYPE:default` is the default of all
    entities of the type. A user and a client id may be given together.
    """


@quotas.command("list", cls=ClusterCommand, shape=list_of(QuotaRow))
@click.argument("entity", nargs=-1, metavar="[TYPE=NAME...]")
@click.option("--strict", is_flag=True, help="Only entities that have no other types.")
async def list_quotas(invocation: Invocation, entity: Sequence[str], strict: bool) -> None:
    """List quotas, of all entities or of those that match. A TYPE alone matches all entities of the type."""
    async with invocation.admin() as admin:
        found = await admin.describe_client_quotas(_filter(entity), strict=strict)
    rows = [QuotaRow(each.entity, key, value) for each in found for key, value in sorted(each.values.items())]
    columns: Sequence[Column[QuotaRow]] = (
        Column("entity", lambda row: _shown(row.entity)),
        Column("quota", lambda row: row.key),
        Column("value", lambda row: format_number(row.value), is_number=True),
    )
    invocation.printer.rows(sorted(rows, key=lambda row: _shown(row.entity)), columns, empty="There are no quotas.")


@quotas.command("set", cls=ClusterCommand, shape=list_of(ChangedQuota))
@click.argument("settings", nargs=-1, required=True, metavar="TYPE=NAME... KEY=VALUE...")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def set_(invocation: Invocation, settings: Sequence[str], dry_run: bool) -> None:
    """Set quotas of an entity."""
    named = [setting for setting in settings if _type(setting) in _TYPES]
    changes = dict(_quota(setting) for setting in settings if _type(setting) not in _TYPES)
    await _alter(invocation, named, changes, dry_run)


@quotas.command("remove", cls=ClusterCommand, shape=list_of(ChangedQuota))
@click.argument("settings", nargs=-1, required=True, metavar="TYPE=NAME... KEY...")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def remove(invocation: Invocation, settings: Sequence[str], dry_run: bool) -> None:
    """Remove quotas of an entity."""
    named = [setting for setting in settings if _type(setting) in _TYPES]
    keys = [setting for setting in settings if _type(setting) not in _TYPES]
    await _alter(invocation, named, dict.fromkeys(keys), dry_run)


async def _alter(
    invocation: Invocation, named: Sequence[str], changes: Mapping[str, float | None], dry_run: bool
) -> None:
    if not named or not changes:
        raise WrongSettings(
            "name an entity, as in user=alice, and at least one quota, as in producer_byte_rate=1000000"
        )
    entity = _entity(named)
    async with invocation.admin() as admin:
        await admin.alter_client_quotas(entity, changes, validate_only=dry_run)
    prefix = f"{'Dry run: ' if dry_run else ''}{_shown(entity)}: "
    done = [ChangedQuota(entity, key, value) for key, value in changes.items()]
    invocation.printer.each(done, lambda row: prefix + _done(row))


def _done(row: ChangedQuota) -> str:
    return f"removed {row.key}" if row.value is None else f"set {row.key}={format_number(row.value)}"


def _type(setting: str) -> str:
    return setting.partition("=")[0].partition(":")[0]


def _entity(named: Sequence[str]) -> dict[str, str | None]:
    """Raises WrongSettings."""
    entity: dict[str, str | None] = {}
    for text in named:
        entity_type = _type(text)
        if entity_type in entity:
            raise WrongSettings(f"{entity_type} is named twice")
        entity[entity_type] = _name(text)
    return entity


def _name(text: str) -> str | None:
    """The name of an entity, None for the default. Raises WrongSettings."""
    entity_type, equals, name = text.partition("=")
    if text == f"{_type(text)}:{_DEFAULT_NAME}":
        return None
    if not equals or not name or entity_type not in _TYPES:
        raise WrongSettings(f"{text!r} is not an entity; write TYPE=NAME, or TYPE:default for the default of a type")
    return name


def _filter(entity: Sequence[str]) -> dict[str, str | QuotaMatch]:
    """Raises WrongSettings."""
    matches: dict[str, str | QuotaMatch] = {}
    for text in entity:
        if text in _TYPES:
            matches[text] = QuotaMatch.ANY
        else:
            name = _name(text)
            matches[_type(text)] = QuotaMatch.DEFAULT if name is None else name
    return matches


def _quota(setting: str) -> tuple[str, float]:
    """Raises WrongSettings."""
    key, _, value = setting.partition("=")
    try:
        return key, parse_number(value)
    except ValueError as error:
        raise WrongSettings(
            f"{setting!r} is not a quota; write KEY=VALUE with a number, as in producer_byte_rate=1000000"
        ) from error


def _shown(entity: Mapping[str, str | None]) -> str:
    return " ".join(
        f"{entity_type}:{_DEFAULT_NAME}" if name is None else f"{entity_type}={name}"
        for entity_type, name in sorted(entity.items(), reverse=True)
    )
