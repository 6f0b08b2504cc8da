"""Traffic of topics. Counted by the leader, since this broker has had the partition's log."""

from typing import Final

from broker.metrics.metric import Unit, counter

_MBEAN: Final = "kafka.server:type=BrokerTopicMetrics"
_TOPIC: Final = ("topic",)

MESSAGES_IN: Final = counter(
    "kafka_server_brokertopicmetrics_messagesin_total",
    "Records that producers and coordinators appended to the topic",
    labels=_TOPIC,
    mbean=f"{_MBEAN},name=MessagesInPerSec",
)
BYTES_IN: Final = counter(
    "kafka_server_brokertopicmetrics_bytesin_total",
    "Bytes of record batches that producers and coordinators appended to the topic",
    labels=_TOPIC,
    unit=Unit.BYTES,
    mbean=f"{_MBEAN},name=BytesInPerSec",
)
BYTES_OUT: Final = counter(
    "kafka_server_brokertopicmetrics_bytesout_total",
    "Bytes of record batches that consumers fetched from the topic",
    labels=_TOPIC,
    unit=Unit.BYTES,
    mbean=f"{_MBEAN},name=BytesOutPerSec",
)
REPLICATION_BYTES_IN: Final = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    "Bytes of record batches that this broker, as a follower, fetched from leaders",
    labels=_TOPIC,
    unit=Unit.BYTES,
    mbean=f"{_MBEAN},name=ReplicationBytesInPerSec",
)
REPLICATION_BYTES_OUT: Final = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    "Bytes of record batches that followers fetched from this broker",
    labels=_TOPIC,
    unit=Unit.BYTES,
    mbean=f"{_MBEAN},name=ReplicationBytesOutPerSec",
)
FAILED_PRODUCES: Final = counter(
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "Batches of producers that were refused with an error",
    labels=_TOPIC,
    mbean=f"{_MBEAN},name=FailedProduceRequestsPerSec",
)
FAILED_FETCHES: Final = counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "Partitions of fetch requests that were answered with an error",
    labels=_TOPIC,
    mbean=f"{_MBEAN},name=FailedFetchRequestsPerSec",
)
