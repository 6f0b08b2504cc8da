"""The results of `stats`. Sizes are in bytes; times in milliseconds since 1970, lateness and spans in milliseconds."""

import attrs


@attrs.frozen
class Sizes:
    """How large values are. Tombstones do not count."""

    mean: float
    p50: int
    p95: int
    p99: int
    max: int


@attrs.frozen
class Lateness:
    """The lag of records' times after the latest earlier time in their partition; `late` counts late records."""

    late: int
    p50_ms: int
    p99_ms: int
    max_ms: int


@attrs.frozen
class SequenceCounts:
    """Counts by the sequence numbers of idempotent producers. `records` are those that `producers` have numbered.

    `duplicates` have the producer id, epoch and sequence number of a record at an earlier offset. `missing` numbers lie
    in `gaps`: they are lost, as far as no missing offset explains them by compaction or retention.
    """

    producers: int
    records: int
    duplicates: int
    gaps: int
    missing: int


@attrs.frozen
class Measures:
    """The measures of a topic or a partition. `keys` is estimated, within about 2 %.

    `missing_offsets` lie in `gaps` between records: compaction, transactions and DeleteRecords leave them.
    `duplicate_offsets` are records at the offset of another one, as a file that was loaded twice has them.
    `sequences` is null for files without the columns of producers.
    """

    records: int
    bytes: int
    first_ms: int | None
    last_ms: int | None
    records_per_second: float
    keys: int
    null_keys: int
    null_values: int
    value_sizes: Sizes
    lateness: Lateness
    gaps: int
    missing_offsets: int
    duplicate_offsets: int
    sequences: SequenceCounts | None


@attrs.frozen
class PartitionStats:
    """One partition."""

    partition: int
    first_offset: int
    last_offset: int
    measures: Measures


@attrs.frozen
class KeyCount:
    """A frequent key, as text; at most its first 64 bytes."""

    key: str
    records: int


@attrs.frozen
class RatePoint:
    """The records whose times lie in the interval that begins at `time_ms`."""

    time_ms: int
    records: int
    bytes: int


@attrs.frozen
class TopicStats:
    """One topic. `partition_skew` is the largest partition's records by the mean, `key_share` the first key's share.

    `rates` has a point for each `interval_ms` in which there are records.
    """

    topic: str
    measures: Measures
    partitions: list[PartitionStats]
    partition_skew: float
    top_keys: list[KeyCount]
    key_share: float
    interval_ms: int
    rates: list[RatePoint]
