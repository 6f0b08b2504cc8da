"""Logs. The files of partitions, and the log directories."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge, histogram

_LOG: Final = "kafka.log:type=Log"
_PARTITION: Final = ("topic", "partition")
_DIRECTORY: Final = ("logdirectory",)

LOG_SIZE: Final = gauge(
    "kafka_log_log_size",
    "Size of the partition's log on this broker",
    labels=_PARTITION,
    unit=Unit.BYTES,
    mbean=f"{_LOG},name=Size,topic=*,partition=*",
)
LOG_START_OFFSET: Final = gauge(
    "kafka_log_log_logstartoffset",
    "First offset of the partition's log on this broker",
    labels=_PARTITION,
    unit=Unit.OFFSET,
    mbean=f"{_LOG},name=LogStartOffset,topic=*,partition=*",
)
LOG_END_OFFSET: Final = gauge(
    "kafka_log_log_logendoffset",
    "Offset of the next record of the partition's log on this broker",
    labels=_PARTITION,
    unit=Unit.OFFSET,
    mbean=f"{_LOG},name=LogEndOffset,topic=*,partition=*",
)
DIRECTORY_OFFLINE: Final = gauge(
    "kafka_log_logmanager_logdirectoryoffline",
    "Whether the log directory failed",
    labels=_DIRECTORY,
    unit=Unit.BOOLEAN,
    mbean="kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=*",
)
OFFLINE_DIRECTORY_COUNT: Final = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories that failed",
    mbean="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
DIRECTORY_TOTAL_BYTES: Final = gauge(
    "kafka_log_logmanager_volume_total_bytes",
    "Size of the volume that the log directory is on",
    labels=_DIRECTORY,
    unit=Unit.BYTES,
)
DIRECTORY_FREE_BYTES: Final = gauge(
    "kafka_log_logmanager_volume_usable_bytes",
    "Free space of the volume that the log directory is on",
    labels=_DIRECTORY,
    unit=Unit.BYTES,
)
FSYNC_TIME: Final = histogram(
    "kafka_log_logflushstats_logflushtimems",
    "Time of an fsync, of the quorum's log or of a partition's, with the wait for a thread",
    unit=Unit.MILLISECONDS,
    mbean="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
)
SCRUBBED_BYTES: Final = counter(
    "kafka_log_scrubber_read_bytes_total", "Bytes of files that the scrubber has read again", unit=Unit.BYTES
)
SCRUB_DAMAGED: Final = counter(
    "kafka_log_scrubber_damaged_total",
    "Damaged files, and damaged places of segments, that the scrubber has found, each once",
)
SCRUB_REBUILT: Final = counter(
    "kafka_log_scrubber_rebuilt_total", "Damaged files that the scrubber has made again itself"
)
SCRUB_UNREPAIRED: Final = gauge(
    "kafka_log_scrubber_unrepaired_files",
    "Files of the metadata log that the scrubber has found damaged and not replaced",
)
SCRUB_LAST_PASS: Final = gauge(
    "kafka_log_scrubber_last_pass_timestamp_seconds",
    "Time since 1970 at which all files of a log directory had been read again, 0 before the first pass",
    unit=Unit.SECONDS,
)
