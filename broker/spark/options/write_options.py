"""The options of writing, checked before a query starts."""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from broker.client.admin.config import AdminConfig
from broker.client.consumer.config import ConsumerConfig
from broker.client.producer.config import ProducerConfig
from broker.spark.options.client_keys import check_keys, client_settings
from broker.spark.options.names import KAFKA_PREFIX, WRITE_OPTIONS, misspelt_options, naming_misspelt
from broker.spark.options.option_map import IllegalOption, OptionMap

_REFUSED: Final[Mapping[str, str]] = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: tasks need one each. Set the option exactlyOnce to true for "
        "transactions, and transactionalIdPrefix for the beginning of their ids"
    ),
}
_TWO_PHASE: Final = "transaction.two.phase.commit.enable"
# The most that brokers allow by default (transaction.max.timeout.ms): a batch has to be decided within it.
_TRANSACTION_TIMEOUT_MS: Final = "900000"
_DECISIONS_TOPIC: Final = "kraft-spark-decisions"
_ID_PREFIX: Final = "kraft-spark"
_NEED_EXACTLY_ONCE: Final = ("decisionsTopic", "transactionalIdPrefix")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
# A query may pass the same options to its source and its sink: keys of these clients have no effect on a producer.
_OTHER_CLIENTS: Final = (ConsumerConfig, AdminConfig)


@attrs.frozen
class ExactlyOnce:
    """How a streaming query writes exactly once: the topic with its decisions, and the beginning of its ids."""

    decisions_topic: str
    id_prefix: str
    fails_on_data_loss: bool

    @classmethod
    def of(cls, given: OptionMap, *, is_streaming: bool) -> "ExactlyOnce | None":
        """Reads the options; None if the query writes at least once. Raises IllegalOption."""
        if not given.flag("exactlyOnce", default=False):
            for name in _NEED_EXACTLY_ONCE:
                if name in given:
                    raise IllegalOption(f"{name} needs exactlyOnce: set exactlyOnce to true, or leave {name} out")
            return None
        if not is_streaming:
            raise IllegalOption(
                "exactlyOnce is for streaming queries, whose batches have ids by which a repetition is known: leave it"
                " out in a batch query"
            )
        return cls(
            decisions_topic=_name(given, "decisionsTopic", _DECISIONS_TOPIC),
            id_prefix=_name(given, "transactionalIdPrefix", _ID_PREFIX),
            fails_on_data_loss=given.flag("failOnDataLoss", default=True),
        )


def _name(given: OptionMap, option: str, default: str) -> str:
    name = (given.text(option) or default).strip()
    if not _NAME.fullmatch(name):
        raise IllegalOption(f"{option} must be of letters, digits, '.', '_' and '-', at most 100, not {name!r}")
    return name


@attrs.frozen
class WriteOptions:
    """The options of a query that writes. `topic` is None where the rows have a column with their topics.

    `client_config` has Kafka's keys for the producer, `bootstrap.servers` among them. `exactly_once` is None if a query
    writes at least once. `remarks` are sentences for the log.
    """

    topic: str | None
    client_config: dict[str, object] = attrs.field(hash=False, repr=False)
    exactly_once: ExactlyOnce | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_streaming: bool) -> "WriteOptions":
        """Reads the options. Raises IllegalOption, with the messages of Spark's connector where it has one."""
        given = OptionMap(options)
        misspelt = misspelt_options(given, WRITE_OPTIONS)
        with naming_misspelt(misspelt):
            return cls._read(given, misspelt, is_streaming=is_streaming)

    @classmethod
    def _read(cls, given: OptionMap, misspelt: list[str], *, is_streaming: bool) -> "WriteOptions":
        keys = given.with_prefix(KAFKA_PREFIX)
        for key, reason in _REFUSED.items():
            if key in keys:
                raise IllegalOption(reason)
        if "bootstrap.servers" not in keys:
            raise IllegalOption("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
        config: dict[str, object] = {**keys}
        for_others = {key for client in _OTHER_CLIENTS for key in client_settings(config, client)}
        for_producer = client_settings(config, ProducerConfig)
        # Keys that no client has are passed on too: the check suggests the key that may have been meant.
        for_producer.update({key: value for key, value in config.items() if key not in for_others})
        exactly_once = ExactlyOnce.of(given, is_streaming=is_streaming)
        if exactly_once is None:
            check_keys(for_producer, ProducerConfig)
        else:
            if str(for_producer.get(_TWO_PHASE)).lower() != "true":
                for_producer.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
            check_keys({**for_producer, "transactional.id": exactly_once.id_prefix}, ProducerConfig)
        topic = given.text("topic")
        return cls(None if topic is None else topic.strip(), for_producer, exactly_once, tuple(misspelt))
