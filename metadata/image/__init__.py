"""Immutable images of the metadata, deltas between two images, and the loader that replays the log."""

from metadata.image.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclEntryFilter,
    AclsDelta,
    AclsImage,
    Network,
    host_network,
)
from metadata.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from metadata.image.cluster import BrokerImage, ClusterDelta, ClusterImage, ControllerImage
from metadata.image.configs import ConfigResource, ConfigsDelta, ConfigsImage
from metadata.image.delegation_tokens import DelegationToken, DelegationTokensDelta, DelegationTokensImage
from metadata.image.image import MetadataDelta, MetadataImage
from metadata.image.metadata_loader import MetadataLoader, Publisher
from metadata.image.persistent_map import PersistentMap
from metadata.image.scram import ScramDelta, ScramImage
from metadata.image.snapshot import acl_record, image_records
from metadata.image.topics import (
    PartitionImage,
    TopicDelta,
    TopicImage,
    TopicsDelta,
    TopicsImage,
    changed_partition,
    unify_collision_chars,
)

__all__ = [
    "WILDCARD",
    "WILDCARD_PRINCIPAL",
    "AccessControlEntry",
    "AclEntryFilter",
    "AclsDelta",
    "AclsImage",
    "BrokerImage",
    "ClientQuotasDelta",
    "ClientQuotasImage",
    "ClusterDelta",
    "ClusterImage",
    "ConfigResource",
    "ConfigsDelta",
    "ConfigsImage",
    "ControllerImage",
    "DelegationToken",
    "DelegationTokensDelta",
    "DelegationTokensImage",
    "MetadataDelta",
    "MetadataImage",
    "MetadataLoader",
    "Network",
    "PartitionImage",
    "PersistentMap",
    "Publisher",
    "ScramDelta",
    "ScramImage",
    "TopicDelta",
    "TopicImage",
    "TopicsDelta",
    "TopicsImage",
    "acl_record",
    "changed_partition",
    "host_network",
    "image_records",
    "unify_collision_chars",
]
