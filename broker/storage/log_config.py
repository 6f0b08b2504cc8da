"""The settings of a log, from the keys of its topic."""

from typing import Final

import attrs

from broker.wire.records import DECOMPRESSED_SIZE_MAX, Compression, TimestampType
from kraft import lazy_attrs
from metadata.configuration import TopicConfigs
from metadata.configuration.settings import from_key, settings_from

# Java's largest long: the value of an unset limit.
MAX_LONG: Final = 2**63 - 1


@lazy_attrs.frozen
class LogConfig:
    """A topic's effective configs. Immutable: after a change of configs the log gets a new one.

    `compact_enabled`, `keeps_create_time` (producers set the timestamps) and `stores_as_is` are derived. The last says
    that a batch with acceptable header fields is stored without reading or changing its records. They are fields,
    because every append reads them: with a cached property attrs adds `__getattr__` to the class, and every attribute
    of the object then takes 30 ns instead of 6.
    """

    segment_bytes: int = from_key(TopicConfigs.segment_bytes)
    segment_ms: int = from_key(TopicConfigs.segment_ms)
    segment_jitter_ms: int = from_key(TopicConfigs.segment_jitter_ms)
    segment_index_bytes: int = from_key(TopicConfigs.segment_index_bytes)
    flush_messages: int = from_key(TopicConfigs.flush_messages)
    flush_ms: int = from_key(TopicConfigs.flush_ms)
    retention_bytes: int = from_key(TopicConfigs.retention_bytes)
    retention_ms: int = from_key(TopicConfigs.retention_ms)
    max_message_bytes: int = from_key(TopicConfigs.max_message_bytes)
    max_decompressed_message_bytes: int = from_key(TopicConfigs.max_decompressed_message_bytes)
    index_interval_bytes: int = from_key(TopicConfigs.index_interval_bytes)
    delete_retention_ms: int = from_key(TopicConfigs.delete_retention_ms)
    min_compaction_lag_ms: int = from_key(TopicConfigs.min_compaction_lag_ms)
    max_compaction_lag_ms: int = from_key(TopicConfigs.max_compaction_lag_ms)
    file_delete_delay_ms: int = from_key(TopicConfigs.file_delete_delay_ms)
    min_cleanable_dirty_ratio: float = from_key(TopicConfigs.min_cleanable_dirty_ratio)
    cleanup_policy: tuple[str, ...] = from_key(TopicConfigs.cleanup_policy, converter=tuple)
    compression_type: str = from_key(TopicConfigs.compression_type)
    compression_gzip_level: int = from_key(TopicConfigs.compression_gzip_level)
    compression_lz4_level: int = from_key(TopicConfigs.compression_lz4_level)
    compression_zstd_level: int = from_key(TopicConfigs.compression_zstd_level)
    preallocate: bool = from_key(TopicConfigs.preallocate)
    message_timestamp_type: str = from_key(TopicConfigs.message_timestamp_type)
    message_timestamp_before_max_ms: int = from_key(TopicConfigs.message_timestamp_before_max_ms)
    message_timestamp_after_max_ms: int = from_key(TopicConfigs.message_timestamp_after_max_ms)
    compact_enabled: bool = attrs.field(init=False)
    keeps_create_time: bool = attrs.field(init=False)
    stores_as_is: bool = attrs.field(init=False)

    @compact_enabled.default
    def _derive_compact_enabled(self) -> bool:
        return "compact" in self.cleanup_policy

    @keeps_create_time.default
    def _derive_keeps_create_time(self) -> bool:
        return self.timestamp_type is TimestampType.CREATE_TIME

    @stores_as_is.default
    def _derive_stores_as_is(self) -> bool:
        return (
            not self.compact_enabled
            and self.keeps_create_time
            and self.message_timestamp_before_max_ms == MAX_LONG
            and self.target_compression is None
            and self.max_decompressed_message_bytes >= DECOMPRESSED_SIZE_MAX
        )

    @classmethod
    def of(cls, topic: TopicConfigs) -> "LogConfig":
        """The settings of a topic's logs. `internal.segment.bytes`, for tests, wins over `segment.bytes`."""
        config = settings_from(cls, topic)
        segment_bytes = topic.internal_segment_bytes
        return config if segment_bytes is None else attrs.evolve(config, segment_bytes=segment_bytes)

    @property
    def delete_enabled(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled at the latest; compaction needs inactive segments (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact_enabled else self.segment_ms

    def jitter_of(self, directory: str, base_offset: int) -> int:
        """How many ms before `max_segment_ms` a segment is rolled, so that partitions and segments differ.

        Kafka uses a random number.
        """
        spread = sum(directory.encode()) * 7919 + base_offset
        return spread * 104_729 % (min(self.segment_jitter_ms, self.max_segment_ms) + 1)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.message_timestamp_type == "LogAppendTime":
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def target_compression(self) -> Compression | None:
        """The compression of stored batches; None if each keeps its producer's."""
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
