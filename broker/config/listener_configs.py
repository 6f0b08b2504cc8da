"""Configs that are set for one listener, or for one SASL mechanism of a listener."""

from typing import TypeVar

from broker.config.kafka_config import KafkaConfig
from metadata.configuration.definition import ConfigKey

T = TypeVar("T")


def listener_value(config: KafkaConfig, listener: str, key: ConfigKey[T], mechanism: str | None = None) -> T:
    """The value of a key in force on a listener, or for a mechanism of it.

    That is `listener.name.<listener>.<mechanism>.<key>`, else `listener.name.<listener>.<key>`, else the node's value.
    Listener and mechanism are in lower case there. Raises InvalidConfig.
    """
    own = own_listener_value(config, listener, key, mechanism) if mechanism is not None else None
    if own is None:
        own = own_listener_value(config, listener, key)
    if own is not None:
        return own
    value: T = config.values[key.name]  # type: ignore[assignment]
    return value


def own_listener_value(config: KafkaConfig, listener: str, key: ConfigKey[T], mechanism: str | None = None) -> T | None:
    """The value that is set with exactly this listener and mechanism; None if there is none. Raises InvalidConfig."""
    scope = listener if mechanism is None else f"{listener}.{mechanism}"
    text = config.layers.merged().get(f"listener.name.{scope.lower()}.{key.name}")
    if text is None:
        return None
    value: T = key.parse(text)  # type: ignore[assignment]
    return value
