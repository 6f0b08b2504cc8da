"""Share groups. The partitions that this broker leads, as its share consumers get them."""

from typing import Final

from broker.metrics.metric import counter, gauge

_SESSIONS: Final = "kafka.server:type=ShareSessionCache"
_PARTITIONS: Final = "kafka.server:type=SharePartitionMetrics"
_GROUPS: Final = "kafka.server:type=ShareGroupMetrics"
_SHARE_PARTITION: Final = ("group", "topic", "partition")

SESSION_COUNT: Final = gauge(
    "kafka_server_sharesessioncache_sharesessionscount",
    "Share sessions of clients",
    mbean=f"{_SESSIONS},name=ShareSessionsCount",
)
SESSION_PARTITION_COUNT: Final = gauge(
    "kafka_server_sharesessioncache_sharepartitionscount",
    "Partitions in all share sessions",
    mbean=f"{_SESSIONS},name=SharePartitionsCount",
)
SESSION_EVICTIONS: Final = counter(
    "kafka_server_sharesessioncache_sharesessionevictions_total",
    "Share sessions that ended because their connection was closed",
    mbean=f"{_SESSIONS},name=ShareSessionEvictionsPerSec",
)
IN_FLIGHT_RECORDS: Final = gauge(
    "kafka_server_sharepartitionmetrics_inflightmessagecount",
    "Offsets from the first record that the group has not finished to the last one that it was delivered",
    labels=_SHARE_PARTITION,
    mbean=f"{_PARTITIONS},name=InFlightMessageCount,group=*,topic=*,partition=*",
)
IN_FLIGHT_BATCHES: Final = gauge(
    "kafka_server_sharepartitionmetrics_inflightbatchcount",
    "Ranges of records in flight that have the same state",
    labels=_SHARE_PARTITION,
    mbean=f"{_PARTITIONS},name=InFlightBatchCount,group=*,topic=*,partition=*",
)
LOCK_TIMEOUTS: Final = counter(
    "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",
    "Records whose lock expired before their consumer acknowledged them, of all share groups",
    mbean=f"{_PARTITIONS},name=AcquisitionLockTimeoutPerSec,group=*,topic=*,partition=*",
)
ACKNOWLEDGEMENTS: Final = counter(
    "kafka_server_sharegroupmetrics_recordacknowledgements_total",
    "Records that share consumers have acknowledged, by the type of the acknowledgement",
    labels=("ack_type",),
    mbean=f"{_GROUPS},name=RecordAcknowledgementsPerSec,ackType=*",
)
DEAD_LETTERS: Final = counter(
    "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total",
    "Records that were copied to the dead-letter topic of their share group",
    labels=("group",),
    mbean=f"{_GROUPS},name=DeadLetterQueueRecordCount,group=*",
)
DEAD_LETTER_REQUESTS: Final = counter(
    "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
    "Produce requests to dead-letter topics, by share group",
    labels=("group",),
    mbean=f"{_GROUPS},name=DeadLetterQueueTotalProduceRequestsPerSec,group=*",
)
DEAD_LETTER_FAILURES: Final = counter(
    "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total",
    "Times that records of a share group were archived without a dead letter, after all attempts to write it have "
    "failed",
    labels=("group",),
    mbean=f"{_GROUPS},name=DeadLetterQueueFailedProduceRequestsPerSec,group=*",
)
