"""The names of options, and those that a misspelt one may have meant."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from logging import getLogger
from typing import Final

import attrs

from broker.client.admin.config import AdminConfig
from broker.client.consumer.config import ConsumerConfig
from broker.client.producer.config import ProducerConfig
from broker.spark.options.option_map import IllegalOption, OptionMap

_log: Final = getLogger(__name__)

KAFKA_PREFIX: Final = "kafka."

READ_OPTIONS: Final = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "includeProducer",
    "kafkaConsumer.pollTimeoutMs",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTimestampLateness",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pushDownPredicate",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
WRITE_OPTIONS: Final = (
    "decisionsTopic",
    "exactlyOnce",
    "failOnDataLoss",
    "includeHeaders",
    "topic",
    "transactionalIdPrefix",
)
# Spark passes its own options on.
_OF_SPARK: Final = ("checkpointLocation", "path", "queryName")
_CLIENT_KEYS: Final = frozenset(
    KAFKA_PREFIX + name.replace("_", ".")
    for client in (ConsumerConfig, ProducerConfig, AdminConfig)
    for name in attrs.fields_dict(client)
)
_SECURITY: Final = ("sasl.", "security.", "ssl.")
# A letter or two of a name.
_LIKENESS: Final = 0.8


def misspelt_options(given: OptionMap, known: Iterable[str]) -> list[str]:
    """A sentence for each option without effect that is close to a known name, or is a client's key without "kafka.".

    Options of the other direction are not reported: a query may pass the same ones to its source and its sink.
    """
    expected = {name.lower() for name in (*READ_OPTIONS, *WRITE_OPTIONS, *_OF_SPARK)} | _CLIENT_KEYS
    names = {name.lower(): name for name in (*known, *_CLIENT_KEYS)}
    found = [(name, _meant(name, names)) for name in given.names() if name not in expected]
    return [f"Option '{name}' has no effect: did you mean '{meant}'?" for name, meant in found if meant is not None]


def log_remarks(remarks: Iterable[str]) -> None:
    """Logs what is to be known of the options of a query. To be called on the driver, once per query."""
    for remark in remarks:
        _log.warning("%s", remark)


@contextmanager
def naming_misspelt(misspelt: Iterable[str]) -> Iterator[None]:
    """Adds these sentences to the message of an IllegalOption: one of the options may be the one that is missing."""
    try:
        yield
    except IllegalOption as error:
        if not misspelt:
            raise
        raise IllegalOption(" ".join([f"{str(error).removesuffix('.')}.", *misspelt])) from error


def _meant(name: str, names: Mapping[str, str]) -> str | None:
    """The name that is meant, of those that `names` maps their lower case to."""
    if KAFKA_PREFIX + name in _CLIENT_KEYS or name.startswith(_SECURITY):
        return KAFKA_PREFIX + name
    close = get_close_matches(name, names, n=1, cutoff=_LIKENESS)
    return names[close[0]] if close else None
