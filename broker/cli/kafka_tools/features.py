"""kafka-features: the levels of the cluster's features (FeatureCommand.java, KIP-584, KIP-1022)."""

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.clients import admin_of, read_properties
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import ToolExit, short
from broker.cli.printing import print_line
from broker.client.admin import Admin, FeatureUpdate, UpgradeType
from metadata.controller import METADATA_VERSION, RELEASES, SUPPORTED_FEATURES, release_level
from metadata.controller.feature_levels import FEATURE_LEVELS

# The public name of this type is missing in argparse.
Commands: TypeAlias = "_SubParsersAction[ToolParser]"
Run: TypeAlias = Callable[[Admin, Namespace], Awaitable[None]]
Levels: TypeAlias = dict[str, int]

_GAP: Final = 10


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(arguments)
    if options.command is None:
        raise _wrong("too few arguments")
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise _wrong("You must specify either --bootstrap-controller or --bootstrap-server.")
    properties = {} if options.command_config is None else read_properties(options.command_config)
    if options.command == "version-mapping":
        _print_mapping(options.release_version)
        return 0
    if options.command == "feature-dependencies":
        _print_dependencies(options.feature)
        return 0
    command: Run = options.run
    async with admin_of(options.bootstrap_server, options.bootstrap_controller, properties) as admin:
        await command(admin, options)
    return 0


def _wrong(message: str) -> ToolExit:
    return ToolExit(1, f"Command line error: {message}. Type --help for help.")


def _parser() -> ArgumentParser:
    parser = ToolParser("kafka-features", description="This tool manages feature flags in Kafka.")
    servers = parser.add_mutually_exclusive_group()
    servers.add_argument("--bootstrap-server", metavar="host:port", help="The brokers to connect to.")
    servers.add_argument("--bootstrap-controller", metavar="host:port", help="The controllers to connect to.")
    parser.add_argument("--command-config", metavar="FILE", help="A properties file with configs of the client.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    _add_command(commands, "describe", _describe, "Describes the current active feature flags.")
    _add_change(commands, "upgrade", _upgrade, "Upgrade one or more feature flags.", is_downgrade=False)
    _add_change(commands, "downgrade", _downgrade, "Downgrade one or more feature flags.", is_downgrade=True)
    _add_change(
        commands, "disable", _disable, "Disable one or more feature flags.", is_downgrade=True, takes_level=False
    )
    mapping = _add_command(commands, "version-mapping", None, "Look up the features of a release.")
    mapping.add_argument("--release-version", metavar="RELEASE", help="The release; by default the latest one.")
    dependencies = _add_command(commands, "feature-dependencies", None, "Look up the dependencies of levels.")
    dependencies.add_argument("--feature", metavar="FEATURE=LEVEL", action="append", required=True, help="The level.")
    return parser


def _add_command(commands: Commands, name: str, run: Run | None, help: str) -> ArgumentParser:
    added: ArgumentParser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
    added.set_defaults(run=run)
    return added


def _add_change(
    commands: Commands, name: str, run: Run, help: str, *, is_downgrade: bool, takes_level: bool = True
) -> None:
    added = _add_command(commands, name, run, help)
    if takes_level:
        added.add_argument("--metadata", metavar="RELEASE", help="Deprecated: the level of metadata.version.")
        added.add_argument("--release-version", metavar="RELEASE", help="The release whose levels all features get.")
    form = "FEATURE=LEVEL" if takes_level else "FEATURE"
    added.add_argument("--feature", metavar=form, action="append", help="A feature; may be repeated.")
    if is_downgrade:
        added.add_argument("--unsafe", action="store_true", help="Even if metadata may be destroyed.")
    added.add_argument("--dry-run", action="store_true", help="Validate the change, but do not perform it.")


async def _describe(admin: Admin, options: Namespace) -> None:
    found = await admin.describe_features()
    epoch = "-" if found.finalized_epoch is None else str(found.finalized_epoch)
    rows = []
    for name in sorted(found.supported):
        supported, finalized = found.supported[name], found.finalized.get(name)
        levels = (supported.lowest, supported.highest, 0 if finalized is None else finalized.highest)
        rows.append([name, *(_shown(name, level) for level in levels), epoch])
    columns = ("Feature", "SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel", "Epoch")
    widths = [max(len(row[index]) for row in rows) + _GAP for index in range(4)] if rows else []
    for row in rows:
        padded = [*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]
        print_line("".join(f"{column}: {cell}" for column, cell in zip(columns, padded, strict=True)))


def _shown(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    return RELEASES.get(level, f"UNKNOWN [{level}]")


async def _upgrade(admin: Admin, options: Namespace) -> None:
    await _update(admin, options, _levels(options), UpgradeType.UPGRADE)


async def _downgrade(admin: Admin, options: Namespace) -> None:
    await _update(admin, options, _levels(options), _downgrade_type(options))


async def _disable(admin: Admin, options: Namespace) -> None:
    levels: Levels = {}
    for name in options.feature or ():
        _add(levels, name, 0)
    await _update(admin, options, levels, _downgrade_type(options))


def _downgrade_type(options: Namespace) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE


def _levels(options: Namespace) -> Levels:
    """The wanted levels. Raises ToolExit."""
    if options.release_version is not None:
        if options.metadata is not None or options.feature is not None:
            raise ToolExit(1, "Can not specify `release-version` with other feature flags.")
        return _release_features(_release(options.release_version))
    levels: Levels = {}
    if options.metadata is not None:
        print_line(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA_VERSION] = _release(options.metadata)
    for setting in options.feature or ():
        _add(levels, *_name_and_level(setting))
    return levels


def _add(levels: Levels, name: str, level: int) -> None:
    if name in levels:
        raise ToolExit(1, f"Feature {name} was specified more than once.")
    levels[name] = level


def _name_and_level(setting: str) -> tuple[str, int]:
    """Raises ToolExit."""
    name, equals, text = (part.strip() for part in setting.partition("="))
    if not equals:
        raise ToolExit(1, f"Can't parse feature=level string {setting}: equals sign not found.")
    try:
        return name, short(text)
    except ValueError:
        message = f"Can't parse feature=level string {setting}: unable to parse {text} as a short."
        raise ToolExit(1, message) from None


def _release(release: str) -> int:
    """The metadata.version of a release. Raises ToolExit."""
    level = release_level(release)
    if level is None:
        known = ", ".join(RELEASES.values())
        raise ToolExit(1, f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}")
    return level


def _release_features(metadata_version: int) -> Levels:
    """The levels of Kafka's release with this metadata.version. New clusters here begin with `initial_levels`."""
    return {
        METADATA_VERSION: metadata_version,
        **{
            name: max(
                (level for level, known in levels.items() if known.metadata_version <= metadata_version), default=0
            )
            for name, levels in FEATURE_LEVELS.items()
        },
    }


async def _update(admin: Admin, options: Namespace, levels: Mapping[str, int], kind: UpgradeType) -> None:
    """Changes the levels. Raises ToolExit."""
    if not levels:
        raise ToolExit(1, f"You must specify at least one feature to {options.command}")
    updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
    results = await admin.update_features(updates, validate_only=options.dry_run)
    for name in sorted(levels):
        error = results.failed.get(name)
        is_disabled = options.command == "disable"
        if error is None:
            done = "disabled." if is_disabled else f"{options.command}d to {levels[name]}."
            print_line(f"{name} {'can be' if options.dry_run else 'was'} {done}")
        else:
            wanted = f"disable {name}" if is_disabled else f"{options.command} {name} to {levels[name]}"
            print_line(f"{'Can not' if options.dry_run else 'Could not'} {wanted}. {message_of(error)}")
    if results.failed:
        raise ToolExit(1, f"{len(results.failed)} out of {len(levels)} operation(s) failed.")


def _print_mapping(release: str | None) -> None:
    """Prints the levels that features have in a release. Raises ToolExit."""
    level = max(RELEASES) if release is None else _release(release)
    for name, of_release in _release_features(level).items():
        shown = f" ({RELEASES[level] if release is None else release})" if name == METADATA_VERSION else ""
        print_line(f"{name}={of_release}{shown}")


def _print_dependencies(settings: Sequence[str]) -> None:
    """Prints what each level depends on. Raises ToolExit."""
    for setting in settings:
        name, level = _name_and_level(setting)
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise ToolExit(1, f"Unknown feature: {name}")
        if not supported.min_version <= level <= supported.max_version:
            raise ToolExit(1, f"No feature:{name} with feature level {level}")
        known = FEATURE_LEVELS.get(name, {}).get(level)
        shown = f"{name}={level} ({RELEASES[level]})" if name == METADATA_VERSION else f"{name}={level}"
        if known is None or not known.depends_on:
            print_line(f"{shown} has no dependencies.")
            continue
        print_line(f"{shown} requires:")
        for other, needed in known.depends_on.items():
            release = f" ({RELEASES[needed]})" if other == METADATA_VERSION else ""
            print_line(f"    {other}={needed}{release}")
