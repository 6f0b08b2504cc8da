"""Finds the cluster that a node belongs to, from its formatted directories, or creates a new one."""

from collections.abc import Mapping

from broker.config import KafkaConfig
from broker.node.metadata_directory import check_location, check_metadata_directory, kept_data
from broker.storage.meta_properties import META_PROPERTIES, MetaPropertiesError, read_meta_properties
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.env import Env


class NotFormatted(Exception):
    """No directory names the node's cluster, and the node may not create one. The message is for the operator."""


def cluster_id_of(env: Env, config: KafkaConfig) -> str:
    """The cluster's id. Raises NotFormatted, MetadataDirectoryRefused, MetaPropertiesError, OSError.

    A node creates a cluster only if it is the only voter and no directory holds data. If the directory of the metadata
    log were a new disk, a new cluster would treat the logs in the other directories as strays.
    """
    found = _stored_cluster_ids(env, config)
    if len({*found.values()}) < 2:  # otherwise opening the directories fails: they are of several clusters
        check_location(env.disk, config)
    if config.metadata_directory in found:
        check_metadata_directory(env, config)
        return found[config.metadata_directory]
    _refuse_data_without_properties(env, config)
    if found or not config.is_sole_voter:
        raise NotFormatted(
            f"No readable {META_PROPERTIES} files found in {config.metadata_directory}. "
            f"Run `kraft format` to say which cluster this node belongs to. {_joining(config)}"
        )
    return encode_uuid(new_uuid(env.rng.randbytes))


def _joining(config: KafkaConfig) -> str:
    """How a new node, or one whose disk was replaced, gets back into its cluster."""
    quorum = "" if config.quorum_voters else " --no-initial-controllers"
    command = f"`kraft format --config <its server.properties> --cluster-id <the cluster's id>{quorum}`"
    joining = (
        f"Where the cluster exists, as after its disk was replaced: {command}; `kraft cluster describe` has the id."
    )
    if not config.is_controller or config.quorum_voters:
        return joining
    return f"{joining} Start it then, and `kraft cluster health` says how its vote moves to the new disk."


def _stored_cluster_ids(env: Env, config: KafkaConfig) -> Mapping[str, str]:
    """The cluster id in each formatted directory. A directory that cannot be read is left out, and goes offline later.

    Raises MetaPropertiesError, also if the metadata directory cannot be read.
    """
    found = {}
    for directory in dict.fromkeys((config.metadata_directory, *config.log_directories)):
        try:
            properties = read_meta_properties(env.disk, directory) if env.disk.exists(directory) else None
        except OSError as error:
            if directory != config.metadata_directory:
                continue
            raise MetaPropertiesError(
                f"Encountered I/O error in metadata log directory {directory}: {error}. Cannot continue. "
                f"{META_PROPERTIES} has to be a file that this user may read and write."
            ) from error
        if properties is not None:
            found[directory] = properties.cluster_id
    return found


def _refuse_data_without_properties(env: Env, config: KafkaConfig) -> None:
    """Raises NotFormatted if a directory holds data of a node but no `meta.properties`; OSError.

    A new cluster would move all logs there aside, and a voter with a new directory id would not be a voter.
    """
    for directory in dict.fromkeys((config.metadata_directory, *config.log_directories)):
        if env.disk.exists(f"{directory}/broker-{config.node_id}/{META_PROPERTIES}"):
            raise NotFormatted(
                f"{directory} holds the data of several brokers of one host. Start them with their "
                "number: `kraft start --brokers N`, or kraft.brokers=N in the properties file."
            )
        kept = kept_data(env.disk, directory)
        if kept is None:
            continue
        raise NotFormatted(
            f"No readable {META_PROPERTIES} files found in {config.metadata_directory}, although {kept} is there. "
            f"Restore the file from a backup, or write it again, with the lines version=1, node.id={config.node_id}, "
            "cluster.id=<the cluster's> and directory.id=<the directory's>, as `kraft quorum describe` shows them on "
            "other nodes; a node that is the only voter says at its start which directory id is expected."
        )
