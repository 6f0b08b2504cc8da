"""The records of the metadata log. Names and meanings are KRaft's; the encoding is not (see `record`)."""

from metadata.records.acls import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from metadata.records.brokers import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FencingChange,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    VersionRange,
)
from metadata.records.cluster import ConfigRecord, FeatureLevelRecord, NoOpRecord, ProducerIdsRecord
from metadata.records.controllers import RegisterControllerRecord, UnregisterControllerRecord
from metadata.records.delegation_tokens import DelegationTokenRecord, RemoveDelegationTokenRecord
from metadata.records.quotas import ClientQuotaRecord, QuotaEntity, quota_entity
from metadata.records.record import (
    ZERO_UUID,
    MalformedRecord,
    MetadataRecord,
    RecordType,
    UnknownRecordType,
    decode_record,
    encode_record,
)
from metadata.records.scram import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from metadata.records.topics import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_LEADER_RECOVERY_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

__all__ = [
    "LEADER_RECOVERED",
    "LEADER_RECOVERING",
    "NO_LEADER",
    "NO_LEADER_CHANGE",
    "NO_LEADER_RECOVERY_CHANGE",
    "ZERO_UUID",
    "AccessControlEntryRecord",
    "BrokerEndpoint",
    "BrokerRegistrationChangeRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "FeatureLevelRecord",
    "FencingChange",
    "MalformedRecord",
    "MetadataRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntity",
    "RecordType",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnknownRecordType",
    "UnregisterBrokerRecord",
    "UnregisterControllerRecord",
    "UserScramCredentialRecord",
    "VersionRange",
    "decode_record",
    "encode_record",
    "quota_entity",
]
