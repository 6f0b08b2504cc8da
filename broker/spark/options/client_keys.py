"""Options that begin with "kafka.": keys of the client, and those that the data source decides itself."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.client import ConfigError
from broker.client.config import ClientConfig, read_config
from broker.spark.options.names import KAFKA_PREFIX
from broker.spark.options.option_map import IllegalOption, OptionMap

_AUTO_OFFSET_RESET: Final = (
    "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingoffsets' to 'earliest' "
    "or 'latest' to specify where to start. Structured Streaming manages which offsets are consumed internally, rather "
    "than relying on the kafkaConsumer to do it. This will ensure that no data is missed when new topics/partitions "
    "are dynamically subscribed. Note that 'startingoffsets' only applies when a new Streaming query is started, and "
    "that resuming will always pick up from where the query left off. See the docs for more details."
)
_DESERIALIZER: Final = (
    "Kafka option '{}.deserializer' is not supported as {}s are deserialized as byte arrays with "
    "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the {}s."
)
_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": _AUTO_OFFSET_RESET,
    "key.deserializer": _DESERIALIZER.format("key", "key", "key"),
    "value.deserializer": _DESERIALIZER.format("value", "value", "value"),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}


def read_consumer_keys(options: OptionMap, config_class: type[ClientConfig]) -> dict[str, str]:
    """The keys under "kafka.", without that prefix. Raises IllegalOption for those that the data source decides itself,
    and for what the client refuses."""
    keys = options.with_prefix(KAFKA_PREFIX)
    for key, reason in _REFUSED.items():
        if key in keys:
            raise IllegalOption(reason)
    if "bootstrap.servers" not in keys:
        raise IllegalOption("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    check_keys(keys, config_class)
    return keys


def check_keys(keys: Mapping[str, object], config_class: type[ClientConfig]) -> None:
    """Raises IllegalOption for keys that the client does not have, and for values that it refuses."""
    try:
        read_config(config_class, None, keys)
    except (ConfigError, ValueError) as error:
        raise IllegalOption(f"Kafka option {error}") from error


def client_settings(keys: Mapping[str, object], config_class: type[ClientConfig]) -> dict[str, object]:
    """The keys that a class of clients has; the others are for other clients of the same query."""
    fields = attrs.fields_dict(config_class)
    return {key: value for key, value in keys.items() if key.replace(".", "_") in fields}
