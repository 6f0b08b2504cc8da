"""The topic configs that a log obeys. Field names are Kafka's config names with "_" for "."; defaults are Kafka's."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs

from broker.wire.records import Compression, TimestampType

DAY_MS = 24 * 60 * 60 * 1000
MAX_LONG = 2**63 - 1

# The size of a segment for tests, below what segment.bytes allows; it wins over segment.bytes.
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"


@attrs.frozen
class LogConfig:
    """A topic's effective configs. Immutable: a change of configs gives the log another one."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    max_message_bytes: int = 1024 * 1024 + 12
    index_interval_bytes: int = 4096
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: tuple[str, ...] = attrs.field(default=("delete",), converter=tuple)
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_after_max_ms: int = 60 * 60 * 1000

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "LogConfig":
        """From parsed values by Kafka's config names; names that do not concern a log are passed over."""
        chosen = {}
        for field in attrs.fields(cls):
            value = values.get(field.name.replace("_", "."))
            if value is not None:
                chosen[field.name] = value
        if values.get(INTERNAL_SEGMENT_BYTES) is not None:
            chosen["segment_bytes"] = values[INTERNAL_SEGMENT_BYTES]
        return cls(**chosen)

    @cached_property
    def delete_enabled(self) -> bool:
        return "delete" in self.cleanup_policy

    @cached_property
    def compact_enabled(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def max_segment_ms(self) -> int:
        """When a segment is closed at the latest: nothing is compacted before (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact_enabled else self.segment_ms

    @cached_property
    def timestamp_type(self) -> TimestampType:
        if self.message_timestamp_type == "LogAppendTime":
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @cached_property
    def keeps_create_time(self) -> bool:
        return self.timestamp_type is TimestampType.CREATE_TIME

    @cached_property
    def target_compression(self) -> Compression | None:
        """What batches are stored in; None where each keeps its producer's choice."""
        if self.compression_type == "producer":
            return None
        if self.compression_type == "uncompressed":
            return Compression.NONE
        return Compression.of(self.compression_type)

    def compression_level(self, compression: Compression) -> int | None:
        levels = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }
        return levels.get(compression)

    @cached_property
    def stores_as_is(self) -> bool:
        """Whether a batch with acceptable header fields needs neither a look at its records nor any change."""
        return (
            not self.compact_enabled
            and self.timestamp_type is TimestampType.CREATE_TIME
            and self.message_timestamp_before_max_ms == MAX_LONG
            and self.target_compression is None
        )
