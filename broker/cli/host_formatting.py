"""Formats the directories of a host's brokers, before `kraft start` runs them for the first time.

The first broker is formatted as any node: by `kraft format`, or by its first start if it is the only controller. The
others are brokers, which have no vote that a lost disk could give twice. So they join the cluster of the first one by
themselves: at the first start, and when `kraft.brokers` grows.
"""

from collections.abc import Sequence

import trio

from broker.cli.errors import print_errors
from broker.config import KafkaConfig
from broker.node import MetadataDirectoryRefused, NotFormatted
from broker.node.formatting import Formatting, FormattingRefused, format_directories, standalone_voters
from broker.node.identity import cluster_id_of
from broker.node.metadata_directory import kept_data
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import META_PROPERTIES, MetaPropertiesError, read_meta_properties
from kraft.env import Env, real_env

_REFUSALS = (FormattingRefused, NotFormatted, MetadataDirectoryRefused, MetaPropertiesError, LogDirInUse, OSError)


def format_host(configs: Sequence[KafkaConfig]) -> int:
    """Format the brokers that are new. Prints the reason if one cannot be, and returns an exit code."""
    env = real_env(lambda kind, /, **fields: None)
    exit_code = 0
    try:
        trio.run(_format_new, env, configs, restrict_keyboard_interrupt_to_checkpoints=True)
    except* _REFUSALS as group:
        print_errors(group)
        exit_code = 1
    return exit_code


def refuse_single_node(env: Env, configs: Sequence[KafkaConfig]) -> None:
    """Raises FormattingRefused if a log directory has the data of a node without `kraft.brokers`; OSError."""
    for directory in dict.fromkeys((*configs[0].log_directories, configs[0].metadata_directory)):
        parent = directory.rpartition("/")[0]
        if env.disk.exists(f"{parent}/{META_PROPERTIES}"):
            raise FormattingRefused(
                f"{parent} holds the data of a node without kraft.brokers, whose brokers have directories of their "
                f"own. Stop the node, make {directory}, and move all that is in {parent} into it"
            )


async def _format_new(env: Env, configs: Sequence[KafkaConfig]) -> None:
    refuse_single_node(env, configs)
    first, *others = configs
    cluster_id = cluster_id_of(env, first)
    new = [config for config in others if _is_new(env, config)]
    if read_meta_properties(env.disk, first.metadata_directory) is None:
        if len(new) < len(others):
            raise FormattingRefused(
                f"{first.metadata_directory} is empty, and other brokers of this host have data of a cluster: its "
                "metadata is lost. Restore the directory, or move those of all brokers away to begin a new cluster"
            )
        voters = None if first.quorum_voters else standalone_voters(env, first)
        await _format(env, first, Formatting(cluster_id, voters))
    for config in new:
        await _format(env, config, Formatting(cluster_id))


async def _format(env: Env, config: KafkaConfig, formatting: Formatting) -> None:
    await format_directories(env, config, formatting, ignore_formatted=False, report=lambda line: None)


def _is_new(env: Env, config: KafkaConfig) -> bool:
    """True if a broker has no data, and no directory that is formatted. The start of any other says what is wrong.

    A broker with a directory that cannot be read is not new: it starts without that directory, if it can.
    """
    try:
        return all(
            kept_data(env.disk, directory) is None and not env.disk.exists(f"{directory}/{META_PROPERTIES}")
            for directory in sorted({*config.log_directories, config.metadata_directory})
        )
    except OSError:
        return False
