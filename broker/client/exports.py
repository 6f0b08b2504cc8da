"""Where the public names of the library are. They are imported when they are first used: a node needs none of them."""

from importlib import import_module
from typing import Any, Final

_MODULES: Final = {
    "consumer.consumer": ("Consumer",),
    "consumer.errors": (
        "CorruptRecords",
        "DeserializationFailed",
        "LogTruncation",
        "NoOffsetForPartition",
        "NotAssigned",
        "OffsetOutOfRange",
        "PartitionFailed",
    ),
    "errors": ("ClientError", "ClosedError", "ConfigError", "KafkaError", "TimedOut", "UnsupportedByBroker"),
    "producer.buffer_memory": ("BufferFull", "RecordTooLarge"),
    "producer.delivery": ("Delivery",),
    "producer.partitioners": ("Partitioner", "RoundRobinPartitioner", "TopicPartitions"),
    "producer.producer": ("Producer",),
    "producer.routing": ("BadPartition",),
    "serializers": ("BytesSerializer", "Deserializer", "JsonSerializer", "Serializer", "StringSerializer"),
    "types": (
        "ConsumerRecord",
        "Node",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "RecordMetadata",
        "TopicPartition",
    ),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'broker.client' has no attribute {name!r}")
    return getattr(import_module(f"broker.client.{_MODULE_OF[name]}"), name)
