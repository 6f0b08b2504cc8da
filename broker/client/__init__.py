"""The client library on Trio: Producer, Consumer, Admin, and a blocking face of each."""

from typing import TYPE_CHECKING

from broker.client.connection import Connection
from broker.client.errors import ConnectionLost
from broker.client.payloads import decode_response, encode_request

if TYPE_CHECKING:
    from broker.client.errors import (
        ClientError,
        ClosedError,
        ConfigError,
        KafkaError,
        TimedOut,
        UnsupportedByBroker,
    )
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
    "ClientError",
    "ClosedError",
    "ConfigError",
    "Connection",
    "ConnectionLost",
    "ConsumerRecord",
    "KafkaError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TimedOut",
    "TopicPartition",
    "UnsupportedByBroker",
    "decode_response",
    "encode_request",
]
