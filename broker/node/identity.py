"""Which cluster a node belongs to: what its directories were formatted for, or a cluster that it founds."""

from broker.config import KafkaConfig
from broker.storage.meta_properties import META_PROPERTIES, read_meta_properties
from broker.wire.uuids import encode_uuid, new_uuid
from kraft.env import Env


class NotFormatted(Exception):
    """No directory says which cluster a node belongs to, and it must not found one; the message is for the operator."""


def cluster_id_of(env: Env, config: KafkaConfig) -> str:
    """The cluster's id. Raises NotFormatted, MetaPropertiesError, OSError.

    Only a node that is the whole quorum founds a cluster, and only where nothing is lost: were the metadata log's
    directory a new disk, a new cluster would take the logs in the other directories for strays.
    """
    found = {}
    for directory in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        if env.disk.exists(directory) and (properties := read_meta_properties(env.disk, directory)) is not None:
            found[directory] = properties.cluster_id
    if config.metadata_log_dir in found:
        return found[config.metadata_log_dir]
    if found or not config.is_sole_voter:
        raise NotFormatted(
            f"No readable {META_PROPERTIES} files found in {config.metadata_log_dir}. "
            "Run `kraft format` to say which cluster this node belongs to."
        )
    return encode_uuid(new_uuid(env.rng.randbytes))
