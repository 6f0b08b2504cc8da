"""Enumerations of Kafka's protocol: numbers, and the names of quotas."""

from enum import IntEnum, StrEnum
from typing import Final, Self


class OpenEnum(IntEnum):
    """An enumeration in which an unknown number, from a newer peer, is UNKNOWN (0)."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class AclOperation(OpenEnum):
    """The operation that an access control entry allows or denies.

    The number of an operation is also the position of its bit in a field of authorized operations (KIP-430).
    """

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


# The name of the only resource of the type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(OpenEnum):
    """The type of resource that an access control entry protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(OpenEnum):
    """How the name of a resource is read. MATCH, in filters, finds all patterns that apply to a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(OpenEnum):
    """Whether an entry denies or allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ConfigResourceType(OpenEnum):
    """The type of a resource that has configs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(OpenEnum):
    """Where the value of a config comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(OpenEnum):
    """The type of a config's value (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """The operation of a config change (KIP-339). APPEND and SUBTRACT apply to configs that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ElectionType(IntEnum):
    """The replica that an election chooses (KIP-460).

    PREFERRED elects the first replica if it is in sync. UNCLEAN elects any active replica if there is no leader, which
    may lose records.
    """

    PREFERRED = 0
    UNCLEAN = 1


class UpgradeType(IntEnum):
    """How a feature's level may change. An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class SecurityProtocol(IntEnum):
    """The protocol that carries Kafka's protocol on a listener."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class ScramMechanism(OpenEnum):
    """A SCRAM mechanism (KIP-554)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL: "SCRAM-SHA-256"."""
        return self.name.replace("_", "-")


class QuotaKey(StrEnum):
    """The quotas of Kafka, by the names of their keys."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


class AcknowledgeType(IntEnum):
    """The outcome of acquired records, as a share consumer reports it (KIP-932; RENEW: KIP-1222).

    GAP stands for offsets without a record for the application: markers of transactions, and records that compaction
    removed.
    """

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ShareAcquireMode(IntEnum):
    """How strictly ShareFetch limits the number of acquired records (KIP-1206).

    BATCH_OPTIMIZED acquires whole batches and so may exceed `max_records`. RECORD_LIMIT never exceeds it.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1
