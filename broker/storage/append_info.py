"""The result of an append."""

from broker.storage.log_config import LogConfig
from broker.storage.producer_state import Duplicate
from broker.wire.records import NO_TIMESTAMP, TimestampType
from kraft import lazy_attrs


@lazy_attrs.define
class AppendInfo:
    """The offsets of an appended batch. `log_append_time_ms` is -1 if producers set the timestamps of the topic.

    A `duplicate` was appended before, at these offsets; nothing is staged for it.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


def duplicate_info(duplicate: Duplicate, log_start_offset: int, config: LogConfig) -> AppendInfo:
    """The result of an append of a batch that is in the log already."""
    is_append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    return AppendInfo(
        duplicate.first_offset,
        duplicate.last_offset,
        duplicate.timestamp if is_append_time else NO_TIMESTAMP,
        log_start_offset,
        duplicate=True,
    )
