"""The client library on Trio: Producer, Consumer, Admin, and a blocking face of each.

These imports are the list of public names. `exports` reads the list from this file, and imports the module of a name
when the name is first used: a node uses the connection alone, and a Spark worker a few names.
"""

from typing import TYPE_CHECKING

from broker.client.connection import Connection as Connection
from broker.client.errors import ConnectionLost as ConnectionLost
from broker.client.payloads import decode_response as decode_response
from broker.client.payloads import encode_request as encode_request

if TYPE_CHECKING:
    from broker.client.admin import ALL_ACLS as ALL_ACLS
    from broker.client.admin import HIGH_WATERMARK as HIGH_WATERMARK
    from broker.client.admin import AclBinding as AclBinding
    from broker.client.admin import AclFilter as AclFilter
    from broker.client.admin import AclOperation as AclOperation
    from broker.client.admin import AclPermission as AclPermission
    from broker.client.admin import Admin as Admin
    from broker.client.admin import AdminConfig as AdminConfig
    from broker.client.admin import AdminSettings as AdminSettings
    from broker.client.admin import ApiVersions as ApiVersions
    from broker.client.admin import ClientQuota as ClientQuota
    from broker.client.admin import ClusterDescription as ClusterDescription
    from broker.client.admin import ConfigChange as ConfigChange
    from broker.client.admin import ConfigEntry as ConfigEntry
    from broker.client.admin import ConfigOperation as ConfigOperation
    from broker.client.admin import ConfigResource as ConfigResource
    from broker.client.admin import ConfigResourceType as ConfigResourceType
    from broker.client.admin import ConfigSource as ConfigSource
    from broker.client.admin import ConfigSynonym as ConfigSynonym
    from broker.client.admin import ConfigType as ConfigType
    from broker.client.admin import CreatedTopic as CreatedTopic
    from broker.client.admin import ElectionType as ElectionType
    from broker.client.admin import Failure as Failure
    from broker.client.admin import FeatureMetadata as FeatureMetadata
    from broker.client.admin import FeatureUpdate as FeatureUpdate
    from broker.client.admin import GroupDescription as GroupDescription
    from broker.client.admin import GroupListing as GroupListing
    from broker.client.admin import GroupOffsets as GroupOffsets
    from broker.client.admin import LogDir as LogDir
    from broker.client.admin import LogDirReplica as LogDirReplica
    from broker.client.admin import MemberDescription as MemberDescription
    from broker.client.admin import NewPartitions as NewPartitions
    from broker.client.admin import NewTopic as NewTopic
    from broker.client.admin import OffsetSpec as OffsetSpec
    from broker.client.admin import PartitionDescription as PartitionDescription
    from broker.client.admin import PartitionReassignment as PartitionReassignment
    from broker.client.admin import PatternType as PatternType
    from broker.client.admin import ProducerDescription as ProducerDescription
    from broker.client.admin import ProducerEpoch as ProducerEpoch
    from broker.client.admin import QuorumDescription as QuorumDescription
    from broker.client.admin import QuorumReplica as QuorumReplica
    from broker.client.admin import QuotaMatch as QuotaMatch
    from broker.client.admin import RaftEndpoint as RaftEndpoint
    from broker.client.admin import ResourceType as ResourceType
    from broker.client.admin import Results as Results
    from broker.client.admin import ScramCredential as ScramCredential
    from broker.client.admin import ScramMechanism as ScramMechanism
    from broker.client.admin import TopicDescription as TopicDescription
    from broker.client.admin import TopicListing as TopicListing
    from broker.client.admin import TransactionDescription as TransactionDescription
    from broker.client.admin import TransactionListing as TransactionListing
    from broker.client.admin import UpgradeType as UpgradeType
    from broker.client.admin import VersionRange as VersionRange
    from broker.client.blocking import SyncAdmin as SyncAdmin
    from broker.client.blocking import SyncConsumer as SyncConsumer
    from broker.client.blocking import SyncDelivery as SyncDelivery
    from broker.client.blocking import SyncProducer as SyncProducer
    from broker.client.blocking import SyncRebalanceListener as SyncRebalanceListener
    from broker.client.consumer.config import ConsumerConfig as ConsumerConfig
    from broker.client.consumer.consumer import Consumer as Consumer
    from broker.client.consumer.errors import CorruptRecords as CorruptRecords
    from broker.client.consumer.errors import DeserializationFailed as DeserializationFailed
    from broker.client.consumer.errors import LogTruncation as LogTruncation
    from broker.client.consumer.errors import NoOffsetForPartition as NoOffsetForPartition
    from broker.client.consumer.errors import NotAssigned as NotAssigned
    from broker.client.consumer.errors import OffsetOutOfRange as OffsetOutOfRange
    from broker.client.consumer.errors import PartitionFailed as PartitionFailed
    from broker.client.consumer.errors import TopicDeleted as TopicDeleted
    from broker.client.consumer.group import AssignmentError as AssignmentError
    from broker.client.consumer.group import Assignor as Assignor
    from broker.client.consumer.group import CommitFailed as CommitFailed
    from broker.client.consumer.group import GroupMetadata as GroupMetadata
    from broker.client.consumer.group import RebalanceInProgress as RebalanceInProgress
    from broker.client.consumer.group import RebalanceListener as RebalanceListener
    from broker.client.errors import ClientError as ClientError
    from broker.client.errors import ClosedError as ClosedError
    from broker.client.errors import ConfigError as ConfigError
    from broker.client.errors import KafkaError as KafkaError
    from broker.client.errors import TimedOut as TimedOut
    from broker.client.errors import UnsupportedByBroker as UnsupportedByBroker
    from broker.client.metadata_cache import PartitionMetadata as PartitionMetadata
    from broker.client.producer.buffer_memory import BufferFull as BufferFull
    from broker.client.producer.buffer_memory import RecordTooLarge as RecordTooLarge
    from broker.client.producer.config import ProducerConfig as ProducerConfig
    from broker.client.producer.delivery import Delivery as Delivery
    from broker.client.producer.partitioners import Partitioner as Partitioner
    from broker.client.producer.partitioners import RoundRobinPartitioner as RoundRobinPartitioner
    from broker.client.producer.partitioners import TopicPartitions as TopicPartitions
    from broker.client.producer.producer import Producer as Producer
    from broker.client.producer.routing import BadPartition as BadPartition
    from broker.client.serializers import BytesSerializer as BytesSerializer
    from broker.client.serializers import Deserializer as Deserializer
    from broker.client.serializers import JsonSerializer as JsonSerializer
    from broker.client.serializers import Serializer as Serializer
    from broker.client.serializers import StringSerializer as StringSerializer
    from broker.client.types import ConsumerRecord as ConsumerRecord
    from broker.client.types import Node as Node
    from broker.client.types import OffsetAndMetadata as OffsetAndMetadata
    from broker.client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from broker.client.types import RecordMetadata as RecordMetadata
    from broker.client.types import TopicPartition as TopicPartition
else:
    from broker.client.exports import __dir__ as __dir__
    from broker.client.exports import __getattr__ as __getattr__
