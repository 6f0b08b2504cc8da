"""`kraft format`: make a node's log directories part of a cluster, as `kafka-storage format` does."""

from collections.abc import Mapping, Sequence

import attrs
import click
import trio

from broker.cli.errors import print_errors
from broker.cli.grammar import Command, Exit, Invocation
from broker.cli.grammar.units import is_digits
from broker.cli.host_formatting import refuse_single_node
from broker.cli.node_config import read_file, read_host
from broker.cli.printing import print_line
from broker.config import KafkaConfig
from broker.node.formatting import (
    Formatting,
    FormattingRefused,
    format_directories,
    parse_initial_controllers,
    standalone_voters,
)
from broker.node.initial_users import InvalidUser, parse_user
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import MetaPropertiesError
from kraft.core import VoterSet
from kraft.env import Env, real_env
from metadata.configuration import InvalidConfig
from metadata.controller import (
    DEFAULT_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    RELEASES,
    SUPPORTED_FEATURES,
    initial_levels,
    missing_dependency,
    release_level,
)
from metadata.controller.feature_levels import SCRAM_SINCE
from metadata.records import UserScramCredentialRecord

_REFUSALS = (InvalidConfig, FormattingRefused, MetaPropertiesError, LogDirInUse, OSError)


@attrs.frozen
class _Quorum:
    """The options of the three ways to begin a quorum. At most one of them may be given."""

    standalone: bool
    no_initial_controllers: bool
    initial_controllers: str | None

    def check(self) -> None:
        """Raises UsageError if more than one was chosen."""
        if self.standalone + self.no_initial_controllers + (self.initial_controllers is not None) > 1:
            raise click.UsageError(
                "Use one of --standalone, --no-initial-controllers and --initial-controllers.",
                click.get_current_context(),
            )


@click.command("format", cls=Command)
@click.option("-c", "--config", "path", required=True, metavar="FILE", help="The node's server.properties.")
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The cluster's id; see `kraft random-uuid`.")
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config that wins over the file.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted already.")
@click.option("-r", "--release-version", metavar="VERSION", help="The initial release; default: the latest.")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="FEATURE=LEVEL", help="The initial level of a feature."
)
@click.option("-s", "--standalone", is_flag=True, help="Create a quorum with this controller as its only voter.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="Format a controller that joins an existing quorum.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="The initial voters; the same on every node of a quorum.",
)
@click.option(
    "-S",
    "--add-scram",
    "users",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=PASSWORD]",
    help="A user that the cluster begins with. With `passwordfile=FILE` instead of `password`, no other user of this "
    "machine can read the password.",
)
def format_(
    invocation: Invocation,
    path: str,
    cluster_id: str,
    overrides: Sequence[str],
    features: Sequence[str],
    release_version: str | None,
    ignore_formatted: bool,
    users: Sequence[str],
    **quorum: object,
) -> None:
    """Format the log directories of a node, or of all brokers of kraft.brokers.

    Directories that are formatted can be started by `kraft start`. Options, messages and files are those of Kafka's
    storage tool.
    """
    chosen = _Quorum(**quorum)  # type: ignore[arg-type]
    chosen.check()
    env = real_env(lambda kind, /, **fields: None)
    try:
        configs = [broker.config for broker in read_host(path, overrides).brokers]
        if len(configs) > 1:
            refuse_single_node(env, configs)
        levels = _features(release_version, features)
        formatting = Formatting(cluster_id, _voters(env, configs[0], chosen), levels, _users(env, users, levels))
        trio.run(_format, env, configs, formatting, ignore_formatted)
    except* _REFUSALS as group:
        print_errors(group)
        invocation.exit_code = Exit.FAILED


def _users(env: Env, texts: Sequence[str], levels: Mapping[str, int]) -> list[UserScramCredentialRecord]:
    """The users of `--add-scram`. Raises FormattingRefused, UnreadableFile."""
    if texts and levels[METADATA_VERSION] < SCRAM_SINCE:
        raise FormattingRefused(f"SCRAM is only supported in metadata.version {RELEASES[SCRAM_SINCE]} or later.")
    try:
        return [parse_user(text, read_file, env.rng.randbytes) for text in texts]
    except InvalidUser as error:
        raise FormattingRefused(str(error)) from error


def _default() -> int:
    return DEFAULT_FEATURES[METADATA_VERSION]


def _voters(env: Env, config: KafkaConfig, quorum: _Quorum) -> VoterSet | None:
    if quorum.initial_controllers is not None:
        return parse_initial_controllers(quorum.initial_controllers)
    if quorum.standalone:
        return standalone_voters(env, config)
    if config.is_controller and not config.quorum_voters and not quorum.no_initial_controllers:
        raise FormattingRefused(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _features(release: str | None, settings: Sequence[str]) -> Mapping[str, int]:
    """The levels that all features begin with. Raises FormattingRefused."""
    chosen = dict(map(_feature, settings))
    if release is None:
        metadata_version = chosen.get(METADATA_VERSION, _default())
    elif METADATA_VERSION in chosen:
        raise FormattingRefused(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    else:
        metadata_version = _metadata_version(release)
    levels = initial_levels(metadata_version) | chosen
    for name, level in chosen.items():
        if reason := missing_dependency(name, level, levels):
            raise FormattingRefused(reason)
    return {name: level for name, level in levels.items() if level}


def _metadata_version(release: str) -> int:
    level = release_level(release)
    if level is None:
        raise FormattingRefused(
            f"Unknown release version '{release}'. Supported versions are: {', '.join(RELEASES.values())}"
        )
    return level


def _feature(setting: str) -> tuple[str, int]:
    name, equals, text = (part.strip() for part in setting.partition("="))
    if not equals:
        raise FormattingRefused(f"Can't parse feature=level string {setting}: equals sign not found.")
    if not is_digits(text):
        raise FormattingRefused(f"Can't parse feature=level string {setting}: unable to parse {text} as a short.")
    supported = SUPPORTED_FEATURES.get(name)
    if supported is None:
        raise FormattingRefused(
            f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(SUPPORTED_FEATURES))}"
        )
    level = int(text)
    # The voters of a cluster are in its log, which is what kraft.version 1 stands for.
    lowest = 1 if name == KRAFT_VERSION else supported.min_version
    if not lowest <= level <= supported.max_version:
        raise FormattingRefused(f"No feature:{name} with feature level {level}")
    return name, level


async def _format(env: Env, configs: Sequence[KafkaConfig], formatting: Formatting, ignore_formatted: bool) -> None:
    for config in configs:
        await format_directories(env, config, formatting, ignore_formatted=ignore_formatted, report=print_line)
