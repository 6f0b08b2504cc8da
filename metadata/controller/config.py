"""What the operator decides about the controller."""

from collections.abc import Mapping

import attrs

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"

# 4.0-IV3, the level of Kafka 4.0 whose records ours correspond to; kraft.version 1 is KIP-853's.
DEFAULT_FEATURES: Mapping[str, int] = {METADATA_VERSION: 25, KRAFT_VERSION: 1}


@attrs.frozen(kw_only=True)
class ControllerConfig:
    """`features` are the levels that a new cluster starts with; the rest are Kafka's configs of the same names."""

    cluster_id: str
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    features: Mapping[str, int] = DEFAULT_FEATURES
