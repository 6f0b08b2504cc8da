"""`kraft format`: make a node's log directories part of a cluster, as `kafka-storage format` does."""

import argparse
from collections.abc import Mapping, Sequence

import trio

from broker.cli.node_config import read_node_config
from broker.cli.refusals import print_refusals
from broker.config import KafkaConfig
from broker.formatting import (
    Formatting,
    FormattingRefused,
    format_directories,
    parse_initial_controllers,
    standalone_voters,
)
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import MetaPropertiesError
from kraft.core import VoterSet
from kraft.env import Env, real_env
from metadata.configuration import ConfigError
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

_REFUSALS = (ConfigError, FormattingRefused, MetaPropertiesError, LogDirInUse, OSError)


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    env = real_env(lambda kind, /, **fields: None)
    exit_code = 0
    try:
        config = read_node_config(options.config, options.override)
        features = _features(options.release_version, options.feature)
        trio.run(_format, env, config, Formatting(options.cluster_id, _voters(env, config, options), features), options)
    except* _REFUSALS as group:
        print_refusals(group)
        exit_code = 1
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kraft format", description="Format the log directories of a node.", allow_abbrev=False
    )
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="the node's server.properties")
    parser.add_argument("-t", "--cluster-id", required=True, metavar="ID", help="the cluster's id: `kraft random-uuid`")
    parser.add_argument(
        "--override", action="append", default=[], metavar="key=value", help="a config that wins over the file"
    )
    parser.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="skip directories that are formatted already"
    )
    parser.add_argument(
        "-r", "--release-version", metavar="VERSION", help=f"the release to begin with; default: {RELEASES[_default()]}"
    )
    parser.add_argument(
        "-f", "--feature", action="append", default=[], metavar="feature=level", help="a feature's level to begin with"
    )
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument("-s", "--standalone", action="store_true", help="found a quorum of this controller alone")
    quorum.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="a controller that joins a quorum that there is"
    )
    quorum.add_argument(
        "-I",
        "--initial-controllers",
        metavar="id@host:port:directory-id,...",
        help="the same on every node of a quorum",
    )
    return parser


def _default() -> int:
    return DEFAULT_FEATURES[METADATA_VERSION]


def _voters(env: Env, config: KafkaConfig, options: argparse.Namespace) -> VoterSet | None:
    if options.initial_controllers is not None:
        return parse_initial_controllers(options.initial_controllers)
    if options.standalone:
        return standalone_voters(env, config)
    if config.is_controller and not config.quorum_voters and not options.no_initial_controllers:
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
    if not text.isdecimal():
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


async def _format(env: Env, config: KafkaConfig, formatting: Formatting, options: argparse.Namespace) -> None:
    await format_directories(env, config, formatting, ignore_formatted=options.ignore_formatted, tell=print)
