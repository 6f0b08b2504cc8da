"""`kraft features`: the levels of the cluster's features (KIP-584)."""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import click

from broker.cli.grammar import ClusterCommand, CommandGroup, Invocation, WrongSettings
from broker.cli.grammar.units import is_digits
from broker.cli.output import Column, list_of
from broker.client.admin import FeatureUpdate, UpgradeType

_LEVEL_MAX: Final = 32_767


@attrs.frozen
class FeatureRow:
    """A feature. `level` is the one in force, 0 for off; the other levels are those that the asked broker supports."""

    name: str
    level: int
    supported_min: int | None
    supported_max: int | None


@attrs.frozen
class ChangedFeature:
    """A feature and the level that it has now; with `--dry-run`, could have."""

    name: str
    level: int


@click.group("features", cls=CommandGroup)
def features() -> None:
    """See and change the levels of the cluster's features."""


@features.command("describe", cls=ClusterCommand, shape=list_of(FeatureRow))
async def describe(invocation: Invocation) -> None:
    """Show the levels in force, and those that are supported."""
    async with invocation.admin() as admin:
        found = await admin.describe_features()
    rows = []
    for name in sorted({*found.finalized, *found.supported}):
        level, supported = found.finalized.get(name), found.supported.get(name)
        rows.append(
            FeatureRow(
                name,
                0 if level is None else level.highest,
                None if supported is None else supported.lowest,
                None if supported is None else supported.highest,
            )
        )
    columns: Sequence[Column[FeatureRow]] = (
        Column("feature", lambda row: row.name),
        Column("level", lambda row: row.level, is_number=True),
        Column("supported", lambda row: f"{row.supported_min}-{row.supported_max}", is_number=True),
    )
    invocation.printer.rows(rows, columns)


@features.command("upgrade", cls=ClusterCommand, shape=list_of(ChangedFeature))
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def upgrade(invocation: Invocation, levels: Sequence[str], dry_run: bool) -> None:
    """Raise levels of features."""
    await _update(invocation, _levels(levels), UpgradeType.UPGRADE, dry_run)


@features.command("downgrade", cls=ClusterCommand, shape=list_of(ChangedFeature))
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option("--unsafe", is_flag=True, help="Allow a change that may lose metadata.")
@click.option("--dry-run", is_flag=True, help="Only validate the change; do not apply it.")
async def downgrade(invocation: Invocation, levels: Sequence[str], unsafe: bool, dry_run: bool) -> None:
    """Lower levels of features; level 0 turns a feature off."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    await _update(invocation, _levels(levels), kind, dry_run)


async def _update(invocation: Invocation, levels: Iterable[tuple[str, int]], kind: UpgradeType, dry_run: bool) -> None:
    wanted = dict(levels)
    async with invocation.admin() as admin:
        updates = {name: FeatureUpdate(level, kind) for name, level in wanted.items()}
        results = await admin.update_features(updates, validate_only=dry_run)
    done = [ChangedFeature(name, wanted[name]) for name in invocation.succeeded(results, "feature")]
    what = "could have" if dry_run else "has"
    invocation.printer.each(done, lambda row: f"Feature {row.name} {what} level {row.level}.")


def _levels(settings: Sequence[str]) -> Iterable[tuple[str, int]]:
    for setting in settings:
        name, equals, level = setting.partition("=")
        if not (equals and name and is_digits(level) and int(level) <= _LEVEL_MAX):
            raise WrongSettings(f"{setting!r} is not a feature level; write FEATURE=LEVEL, as in group.version=1")
        yield name, int(level)
