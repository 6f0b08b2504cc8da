"""The limits on a node's connections: those of its configuration, and the descriptors that the process may open."""

from typing import Final

import attrs

from broker.config import KafkaConfig
from broker.config.listener_configs import own_listener_value
from broker.net.admission import ConnectionLimits
from broker.quota import ConnectionRates
from kraft.file_descriptors import descriptor_limit
from metadata.configuration.definition import ConfigKey

# File descriptors that connections of clients leave free. The minimum covers most of the needs of a node with few
# partitions, the maximum those of a topic with 4,000 partitions.
_RESERVE_MIN: Final = 64
_RESERVE_MAX: Final = 4_096


def client_descriptors_max(descriptors: int) -> int:
    """The number of open file descriptors from which on connections of clients are rejected.

    `descriptors` is the limit of the process. The rest is for new segments, checkpoints, snapshots, and connections to
    other nodes.
    """
    return descriptors - min(max(descriptors // 8, _RESERVE_MIN), _RESERVE_MAX, descriptors // 2)


def connection_limits(config: KafkaConfig) -> ConnectionLimits:
    descriptors = descriptor_limit()
    clients = client_descriptors_max(descriptors)
    limits = ConnectionLimits(
        request_size_max=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        idle_ms_max=config.connections_max_idle_ms,
        client_descriptors_max=clients,
        peer_descriptors_max=clients + (descriptors - clients) // 2,
        listener_connections_max=_by_listener(config, KafkaConfig.max_connections),
        connections_per_ip_overrides=config.connections_per_ip_overrides,
    )
    if KafkaConfig.socket_send_buffer_bytes.name in config.layers.static:
        return attrs.evolve(limits, send_buffer_bytes=config.socket_send_buffer_bytes)
    return limits


def limit_rates(rates: ConnectionRates, config: KafkaConfig) -> None:
    """Apply `max.connection.creation.rate`, of the node and by listener."""
    rates.limit(config.max_connection_creation_rate, _by_listener(config, KafkaConfig.max_connection_creation_rate))


def _by_listener(config: KafkaConfig, key: ConfigKey[int]) -> dict[str, int]:
    """The values of a key that are set for single listeners, by the listener's name."""
    values = {each.name: own_listener_value(config, each.name, key) for each in config.endpoints.listeners}
    return {name: value for name, value in values.items() if value is not None}
