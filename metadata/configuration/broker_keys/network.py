"""Listeners, connections and requests (SocketServerConfigs in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, one_of
from metadata.configuration.vocabulary import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    KIB,
    LONG,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    PER_BROKER,
    STRING,
)
from metadata.protocol import ConfigType


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class SocketServerConfigs(ConfigValues):
    """Listeners, connections and requests."""

    listeners = key(STRING, "PLAINTEXT://:9092", None, HIGH,
        "Where this node listens: name://host:port and so on. An empty host is every interface.", PER_BROKER,
        described_as=ConfigType.LIST)
    advertised_listeners = key(STRING, None, None, HIGH,
        "Addresses that clients connect to, where they differ from listeners.", described_as=ConfigType.LIST)
    listener_security_protocol_map = key(STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, LOW,
        "Which security protocol each listener speaks: name:protocol, separated by commas.", PER_BROKER)
    controller_listener_names = key(STRING, None, None, HIGH,
        "Names of the listeners that controllers use; a broker connects to the first of them.",
        described_as=ConfigType.LIST)
    inter_broker_listener_name = key(STRING, None, None, MEDIUM,
        "The listener over which brokers talk to each other; not set, security.inter.broker.protocol says it.")
    security_inter_broker_protocol = key(STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM,
        "The security protocol between brokers, where inter.broker.listener.name is not set.", takes_effect=False)
    socket_send_buffer_bytes = key(INT, 100 * KIB, None, HIGH,
        "SO_SNDBUF of server sockets; -1 leaves it to the operating system.")
    socket_receive_buffer_bytes = key(INT, 100 * KIB, None, HIGH,
        "SO_RCVBUF of server sockets; -1 leaves it to the operating system.", takes_effect=False)
    socket_request_max_bytes = key(INT, 100 * MIB, at_least(1), HIGH,
        "Largest request; a larger one closes the connection.")
    socket_listen_backlog_size = key(INT, 4096, at_least(1), MEDIUM,
        "How many connections may wait to be accepted; the operating system may allow fewer.")
    max_connections_per_ip = key(INT, INT_MAX, at_least(0), MEDIUM,
        "Most connections from one address.", CLUSTER_WIDE)
    max_connections_per_ip_overrides = key(STRING, "", None, MEDIUM,
        "Other limits for some addresses: host:count, separated by commas.", CLUSTER_WIDE)
    max_connections = key(INT, INT_MAX, at_least(0), MEDIUM,
        "Most connections in all; one listener's is listener.name.<name>.max.connections.", CLUSTER_WIDE)
    max_connection_creation_rate = key(INT, INT_MAX, at_least(0), MEDIUM,
        "Most new connections per second; one listener's is listener.name.<name>.max.connection.creation.rate.",
        CLUSTER_WIDE)
    connections_max_idle_ms = key(LONG, 10 * MINUTE_MS, None, MEDIUM,
        "A connection on which nothing happens for this many ms is closed.")
    connection_failed_authentication_delay_ms = key(INT, 100, at_least(0), LOW,
        "How long in ms the close after a failed authentication is delayed.")
    queued_max_requests = key(INT, 500, at_least(1), HIGH,
        "How many requests may wait for a thread in Apache Kafka before no more are read.", takes_effect=False)
    queued_max_request_bytes = key(LONG, -1, None, MEDIUM,
        "How many bytes of requests may wait before no more are read; -1 is no limit.", takes_effect=False)
    num_network_threads = key(INT, 3, at_least(1), HIGH,
        "Threads that serve connections in Apache Kafka.", CLUSTER_WIDE, takes_effect=False)
    http_listener = key(STRING, None, None, MEDIUM,
        "Not Kafka's: host:port of the HTTP listener with /metrics, /healthz and /readyz; port 0 is any free one.")
    controller_socket_timeout_ms = key(INT, 30_000, None, MEDIUM,
        "How long in ms a request to the controller may take.", takes_effect=False)
# fmt: on
