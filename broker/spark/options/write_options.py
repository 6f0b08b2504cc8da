"""The options of writing, checked before a query starts."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.client.admin.config import AdminConfig
from broker.client.consumer.config import ConsumerConfig
from broker.client.producer.config import ProducerConfig
from broker.spark.options.client_keys import check_keys, client_settings
from broker.spark.options.option_map import IllegalOption, OptionMap

_PREFIX: Final = "kafka."
_REFUSED: Final[Mapping[str, str]] = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
}
# A query may pass the same options to its source and its sink: keys of these clients have no effect on a producer.
_OTHER_CLIENTS: Final = (ConsumerConfig, AdminConfig)


@attrs.frozen
class WriteOptions:
    """The options of a query that writes. `topic` is None where the rows have a column with their topics.

    `client_config` has Kafka's keys for the producer, `bootstrap.servers` among them.
    """

    topic: str | None
    client_config: dict[str, object] = attrs.field(hash=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Reads the options. Raises IllegalOption, with the messages of Spark's connector where it has one."""
        given = OptionMap(options)
        keys = given.with_prefix(_PREFIX)
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
        check_keys(for_producer, ProducerConfig)
        topic = given.text("topic")
        return cls(topic=None if topic is None else topic.strip(), client_config=for_producer)
