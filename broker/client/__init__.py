"""The client library on Trio: Producer, Consumer, Admin, and a blocking face of each."""

from typing import TYPE_CHECKING

from broker.client.connection import Connection
from broker.client.errors import ConnectionLost
from broker.client.payloads import decode_response, encode_request

if TYPE_CHECKING:
    from broker.client.consumer.consumer import Consumer
    from broker.client.consumer.errors import (
        CorruptRecords,
        DeserializationFailed,
        LogTruncation,
        NoOffsetForPartition,
        NotAssigned,
        OffsetOutOfRange,
        PartitionFailed,
    )
    from broker.client.errors import (
        ClientError,
        ClosedError,
        ConfigError,
        KafkaError,
        TimedOut,
        UnsupportedByBroker,
    )
    from broker.client.producer.buffer_memory import BufferFull, RecordTooLarge
    from broker.client.producer.delivery import Delivery
    from broker.client.producer.partitioners import Partitioner, RoundRobinPartitioner, TopicPartitions
    from broker.client.producer.producer import Producer
    from broker.client.producer.routing import BadPartition
    from broker.client.serializers import BytesSerializer, Deserializer, JsonSerializer, Serializer, StringSerializer
    from broker.client.types import (
        ConsumerRecord,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        TopicPartition,
    )
else:
    from broker.client.exports import __getattr__ as __getattr__

__all__ = [
    "BadPartition",
    "BufferFull",
    "BytesSerializer",
    "ClientError",
    "ClosedError",
    "ConfigError",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "ConsumerRecord",
    "CorruptRecords",
    "Delivery",
    "DeserializationFailed",
    "Deserializer",
    "JsonSerializer",
    "KafkaError",
    "LogTruncation",
    "NoOffsetForPartition",
    "Node",
    "NotAssigned",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "PartitionFailed",
    "Partitioner",
    "Producer",
    "RecordMetadata",
    "RecordTooLarge",
    "RoundRobinPartitioner",
    "Serializer",
    "StringSerializer",
    "TimedOut",
    "TopicPartition",
    "TopicPartitions",
    "UnsupportedByBroker",
    "decode_response",
    "encode_request",
]
