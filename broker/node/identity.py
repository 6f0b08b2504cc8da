"""Which cluster a node belongs to: what its directories were formatted for, or a cluster that it founds."""

from collections.abc import Mapping

from broker.config import KafkaConfig
from broker.node.metadata_directory import check_location, check_metadata_directory, kept_data
from broker.storage.meta_properties import META_PROPERTIES, MetaPropertiesError, read_meta_properties
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.env import Env


class NotFormatted(Exception):
    """No directory says which cluster a node belongs to, and it must not found one; the message is for the operator."""


def cluster_id_of(env: Env, config: KafkaConfig) -> str:
    """The cluster's id. Raises NotFormatted, MetadataDirectoryRefused, MetaPropertiesError, OSError.

    Only a node that is the whole quorum founds a cluster, and only where nothing is lost: were the metadata log's
    directory a new disk, a new cluster would take the logs in the other directories for strays.
    """
    found = _stored_cluster_ids(env, config)
    if len({*found.values()}) < 2:  # otherwise it is said that they are of several clusters, when they are opened
        check_location(env.disk, config)
    if config.metadata_log_dir in found:
        check_metadata_directory(env, config)
        return found[config.metadata_log_dir]
    _refuse_data_without_properties(env, config)
    if found or not config.is_sole_voter:
        raise NotFormatted(
            f"No readable {META_PROPERTIES} files found in {config.metadata_log_dir}. "
            "Run `kraft format` to say which cluster this node belongs to."
        )
    return encode_uuid(new_uuid(env.rng.randbytes))


def _stored_cluster_ids(env: Env, config: KafkaConfig) -> Mapping[str, str]:
    """The cluster id that each formatted directory names. A directory that does not work goes offline later.

    Raises MetaPropertiesError, also where it is the metadata directory that does not work.
    """
    found = {}
    for directory in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        try:
            properties = read_meta_properties(env.disk, directory) if env.disk.exists(directory) else None
        except OSError as error:
            if directory != config.metadata_log_dir:
                continue
            raise MetaPropertiesError(
                f"Encountered I/O error in metadata log directory {directory}: {error}. Cannot continue. "
                f"{META_PROPERTIES} has to be a file that this user may read and write."
            ) from error
        if properties is not None:
            found[directory] = properties.cluster_id
    return found


def _refuse_data_without_properties(env: Env, config: KafkaConfig) -> None:
    """A cluster founded there would put all logs aside, and a voter with a new directory id would be none.

    Raises NotFormatted, OSError.
    """
    for directory in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        kept = kept_data(env.disk, directory)
        if kept is None:
            continue
        raise NotFormatted(
            f"No readable {META_PROPERTIES} files found in {config.metadata_log_dir}, although {kept} is there. "
            f"Restore the file from a backup, or write it again, with the lines version=1, node.id={config.node_id}, "
            "cluster.id=<the cluster's> and directory.id=<the directory's>, as `kraft quorum describe` shows them on "
            "other nodes; a node that is the only voter says at its start which directory id is expected."
        )
