"""The numbers of Kafka's protocol: error codes and enumerations.

The controller decides with them, and clients send and get them. `broker.wire` has everything else of the protocol.
"""

from metadata.protocol.enums import (
    CLUSTER_NAME,
    AcknowledgeType,
    AclOperation,
    AclPermission,
    ConfigOperation,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    ElectionType,
    OpenEnum,
    PatternType,
    QuotaKey,
    ResourceType,
    ScramMechanism,
    SecurityProtocol,
    ShareAcquireMode,
    UpgradeType,
)
from metadata.protocol.errors import (
    MESSAGE_LENGTH_MAX,
    RETRIABLE,
    STALE_COORDINATOR,
    STALE_METADATA,
    ErrorCode,
    KafkaError,
)

__all__ = [
    "CLUSTER_NAME",
    "MESSAGE_LENGTH_MAX",
    "RETRIABLE",
    "STALE_COORDINATOR",
    "STALE_METADATA",
    "AcknowledgeType",
    "AclOperation",
    "AclPermission",
    "ConfigOperation",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigType",
    "ElectionType",
    "ErrorCode",
    "KafkaError",
    "OpenEnum",
    "PatternType",
    "QuotaKey",
    "ResourceType",
    "ScramMechanism",
    "SecurityProtocol",
    "ShareAcquireMode",
    "UpgradeType",
]
