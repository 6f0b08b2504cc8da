"""The administrative client: topics, configs, groups, offsets, the cluster and its quorum, as typed calls.

Each module has the calls of one concern, with the values that they take and return; `Admin` puts them together.
"""

from broker.client.admin.acls import (
    ALL_ACLS,
    AclBinding,
    AclFilter,
)
from broker.client.admin.admin import Admin
from broker.client.admin.cluster import (
    ApiVersions,
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    VersionRange,
)
from broker.client.admin.config import AdminConfig, AdminSettings
from broker.client.admin.delegation_tokens import DelegationToken
from broker.client.admin.group_descriptions import GroupDescription, MemberDescription
from broker.client.admin.group_offsets import GroupOffsets
from broker.client.admin.groups import GroupListing
from broker.client.admin.hanging_transactions import HangingTransaction
from broker.client.admin.log_dirs import LogDir, LogDirDamage, LogDirReplica, TopicPartitionReplica
from broker.client.admin.offsets import OffsetSpec
from broker.client.admin.quorum import QuorumDescription, QuorumReplica, RaftEndpoint
from broker.client.admin.quotas import ClientQuota, QuotaMatch
from broker.client.admin.reassignments import PartitionReassignment
from broker.client.admin.resource_configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
)
from broker.client.admin.scram_credentials import ScramCredential, ScramDeletion, ScramUpsertion
from broker.client.admin.share_group_offsets import ShareGroupOffset, ShareGroupOffsets
from broker.client.admin.topic_descriptions import PartitionDescription, TopicDescription
from broker.client.admin.topics import HIGH_WATERMARK, CreatedTopic, NewPartitions, NewTopic, TopicListing
from broker.client.admin.transactions import (
    ProducerDescription,
    ProducerEpoch,
    TransactionDescription,
    TransactionListing,
)
from broker.client.results import Failure, Results
from metadata.protocol import (
    AclOperation,
    AclPermission,
    ConfigOperation,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    ElectionType,
    PatternType,
    ResourceType,
    ScramMechanism,
    UpgradeType,
)

__all__ = [
    "ALL_ACLS",
    "HIGH_WATERMARK",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "Admin",
    "AdminConfig",
    "AdminSettings",
    "ApiVersions",
    "ClientQuota",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "Failure",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "GroupOffsets",
    "HangingTransaction",
    "LogDir",
    "LogDirDamage",
    "LogDirReplica",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionReassignment",
    "PatternType",
    "ProducerDescription",
    "ProducerEpoch",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaMatch",
    "RaftEndpoint",
    "ResourceType",
    "Results",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareGroupOffset",
    "ShareGroupOffsets",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "VersionRange",
]
