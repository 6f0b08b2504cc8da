"""The options of reading, checked before a query starts."""

from collections.abc import Mapping
from typing import Final, TypedDict

import attrs

from broker.client.consumer.config import ConsumerConfig
from broker.spark.options.client_keys import read_consumer_keys
from broker.spark.options.limits import OffsetLimit, check_start_before_end, read_ending, read_starting
from broker.spark.options.names import READ_OPTIONS, misspelt_options, naming_misspelt
from broker.spark.options.option_map import IllegalOption, OptionMap
from broker.spark.options.topics import TopicChoice, read_topics

_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
_POLL_TIMEOUT_MS: Final = 120_000  # the default of spark.network.timeout
_FETCH_OFFSET_RETRIES: Final = 3
_FETCH_OFFSET_RETRY_INTERVAL_MS: Final = 1_000
_STREAMING_PREFIX: Final = "spark-kafka-source"
_BATCH_PREFIX: Final = "spark-kafka-relation"

_GROUP_ID_REMARK: Final = (
    "Kafka option 'kafka.group.id' has been set on this query. Queries that share a group commit offsets over each "
    "other, so that lag tools mislead: let each query have a group of its own."
)
_ONLY_STREAMING: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")


@attrs.frozen
class ReadOptions:
    """The options of a query that reads. Picklable: executors get them with their reader.

    `group_id` is set by kafka.group.id only; otherwise a streaming query makes an id from `group_id_prefix`.
    `client_config` has Kafka's keys for the clients, `bootstrap.servers` among them. `remarks` are sentences for the
    log: options that are set and have no effect, or are unwise.
    """

    topics: TopicChoice
    starting: OffsetLimit
    ending: OffsetLimit
    fails_on_data_loss: bool
    has_headers: bool
    has_producers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    fetch_offset_retries: int
    fetch_offset_retry_interval_ms: int
    group_id: str | None
    group_id_prefix: str
    is_filter_pushed: bool
    max_timestamp_lateness_ms: int | None
    client_config: dict[str, object] = attrs.field(hash=False, repr=False)
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_streaming: bool) -> "ReadOptions":
        """Reads the options. Raises IllegalOption and IllegalJson, with the messages of Spark's connector."""
        given = OptionMap(options)
        misspelt = misspelt_options(given, READ_OPTIONS)
        with naming_misspelt(misspelt):
            return cls._read(given, misspelt, is_streaming=is_streaming)

    @classmethod
    def _read(cls, given: OptionMap, misspelt: list[str], *, is_streaming: bool) -> "ReadOptions":
        starting = read_starting(given, is_streaming=is_streaming)
        ending = read_ending(given, is_streaming=is_streaming)
        topics = read_topics(given)
        config: dict[str, object] = {**read_consumer_keys(given, ConsumerConfig)}
        group_id = config.pop("group.id", None)
        check_start_before_end(starting, ending)
        return cls(
            topics=topics,
            starting=starting,
            ending=ending,
            fails_on_data_loss=given.flag("failOnDataLoss", default=True),
            has_headers=given.flag("includeHeaders", default=False),
            has_producers=given.flag("includeProducer", default=False),
            min_partitions=given.positive_int32("minPartitions"),
            max_records_per_partition=given.positive("maxRecordsPerPartition"),
            group_id=None if group_id is None else str(group_id),
            group_id_prefix=given.text("groupIdPrefix") or (_STREAMING_PREFIX if is_streaming else _BATCH_PREFIX),
            is_filter_pushed=given.flag("pushDownPredicate", default=False),
            max_timestamp_lateness_ms=given.duration_ms("maxTimestampLateness"),
            client_config=config,
            remarks=(*misspelt, *_remarks(given, is_streaming=is_streaming)),
            **_trigger_limits(given),
            **_retry_options(given),
        )

    @property
    def reads_committed(self) -> bool:
        """True under kafka.isolation.level=read_committed, where the latest offset is the last stable one."""
        return self.client_config.get("isolation.level") == "read_committed"


class _TriggerLimits(TypedDict):
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_trigger_delay_ms: int


def _trigger_limits(given: OptionMap) -> _TriggerLimits:
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise IllegalOption(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
        )
    return _TriggerLimits(
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_bytes_per_trigger=given.positive("maxBytesPerTrigger"),
        max_trigger_delay_ms=_or_default(given.duration_ms("maxTriggerDelay"), _MAX_TRIGGER_DELAY_MS),
    )


class _RetryOptions(TypedDict):
    poll_timeout_ms: int
    fetch_offset_retries: int
    fetch_offset_retry_interval_ms: int


def _retry_options(given: OptionMap) -> _RetryOptions:
    return _RetryOptions(
        poll_timeout_ms=_or_default(given.positive("kafkaConsumer.pollTimeoutMs"), _POLL_TIMEOUT_MS),
        fetch_offset_retries=_or_default(given.positive_int32("fetchOffset.numRetries"), _FETCH_OFFSET_RETRIES),
        fetch_offset_retry_interval_ms=_or_default(
            given.not_negative("fetchOffset.retryIntervalMs"), _FETCH_OFFSET_RETRY_INTERVAL_MS
        ),
    )


def _or_default(value: int | None, default: int) -> int:
    return default if value is None else value


def _remarks(given: OptionMap, *, is_streaming: bool) -> list[str]:
    remarks = []
    if "kafka.group.id" in given:
        remarks.append(_GROUP_ID_REMARK)
        if "groupIdPrefix" in given:
            remarks.append("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    if not is_streaming:
        remarks += [f"{name} option ignored in batch queries" for name in _ONLY_STREAMING if name in given]
    elif "pushDownPredicate" in given:
        remarks.append(
            "pushDownPredicate option ignored in streaming queries: Spark pushes filters to batch reads only"
        )
    return remarks
