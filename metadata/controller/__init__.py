"""The controller. One class per concern decides which records to append; only replaying records changes the state."""

from metadata.controller.acls import ACL_ENTRIES_MAX, check_filter
from metadata.controller.alter_partition import (
    ANY_BROKER_EPOCH,
    AlteredPartition,
    AlteredTopic,
    IsrChange,
    IsrMember,
    TopicIsrChanges,
)
from metadata.controller.brokers import NO_PREVIOUS_EPOCH, BrokerRegistration
from metadata.controller.configs import CONFIGS_MAX, ConfigChange, ConfigOutcome, value_after
from metadata.controller.controller import Controller
from metadata.controller.controller_config import ControllerConfig
from metadata.controller.controller_registration import ControllerRegistration
from metadata.controller.decision import Decision
from metadata.controller.delegation_tokens import CreatedToken, DelegationTokenConfig, NewDelegationToken
from metadata.controller.elect_leaders import ElectedPartition, ElectedTopic
from metadata.controller.feature_levels import (
    DEAD_LETTERS_SINCE,
    DEFAULT_FEATURES,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    REGISTERED_FEATURES,
    RELEASES,
    SHARE_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
    initial_levels,
    missing_dependency,
    release_level,
)
from metadata.controller.features import FeatureUpdate
from metadata.controller.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply
from metadata.controller.partitions import NewPartitions, TopicOutcome
from metadata.controller.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIdsBlock
from metadata.controller.quotas import QuotaAlteration, QuotaEntityType, QuotaOutcome, check_quota
from metadata.controller.reassignment import (
    OngoingReassignment,
    OngoingTopicReassignments,
    ReassignedPartition,
    ReassignedTopic,
    Reassignment,
    TopicReassignments,
)
from metadata.controller.replica_directories import AssignedReplica, DirectoryAssignment
from metadata.controller.scram import ScramAlteration, ScramOutcome, scram_record
from metadata.controller.topic_names import validate_topic_name
from metadata.controller.topics import CreatedTopic, DeletedTopic, NewTopic, TopicToDelete

__all__ = [
    "ACL_ENTRIES_MAX",
    "ANY_BROKER_EPOCH",
    "CONFIGS_MAX",
    "DEAD_LETTERS_SINCE",
    "DEFAULT_FEATURES",
    "ELIGIBLE_LEADER_REPLICAS_VERSION",
    "GROUP_VERSION",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "NO_PREVIOUS_EPOCH",
    "PRODUCER_ID_BLOCK_SIZE",
    "REGISTERED_FEATURES",
    "RELEASES",
    "SHARE_VERSION",
    "SUPPORTED_FEATURES",
    "TRANSACTION_VERSION",
    "AlteredPartition",
    "AlteredTopic",
    "AssignedReplica",
    "BrokerHeartbeat",
    "BrokerHeartbeatReply",
    "BrokerRegistration",
    "ConfigChange",
    "ConfigOutcome",
    "Controller",
    "ControllerConfig",
    "ControllerRegistration",
    "CreatedToken",
    "CreatedTopic",
    "Decision",
    "DelegationTokenConfig",
    "DeletedTopic",
    "DirectoryAssignment",
    "ElectedPartition",
    "ElectedTopic",
    "FeatureUpdate",
    "IsrChange",
    "IsrMember",
    "NewDelegationToken",
    "NewPartitions",
    "NewTopic",
    "OngoingReassignment",
    "OngoingTopicReassignments",
    "ProducerIdsBlock",
    "QuotaAlteration",
    "QuotaEntityType",
    "QuotaOutcome",
    "ReassignedPartition",
    "ReassignedTopic",
    "Reassignment",
    "ScramAlteration",
    "ScramOutcome",
    "TopicIsrChanges",
    "TopicOutcome",
    "TopicReassignments",
    "TopicToDelete",
    "check_filter",
    "check_quota",
    "initial_levels",
    "missing_dependency",
    "release_level",
    "scram_record",
    "validate_topic_name",
    "value_after",
]
