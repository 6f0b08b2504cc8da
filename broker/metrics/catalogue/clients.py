"""Clients. Their connections and quotas."""

from typing import Final

from broker.metrics.metric import Unit, counter, gauge

_SOCKET_SERVER: Final = "kafka.server:type=socket-server-metrics"
_ENTITY: Final = ("user", "client_id")

CONNECTIONS: Final = gauge(
    "kafka_server_socketservermetrics_connections",
    "Open connections by the software of their clients (KIP-511); rare software beyond a bound is counted as other",
    labels=("listener", "client_software_name", "client_software_version"),
    mbean=f"{_SOCKET_SERVER},clientSoftwareName=*,clientSoftwareVersion=*,listener=*,networkProcessor=*",
)
CONNECTION_COUNT: Final = gauge(
    "kafka_server_socketservermetrics_connection_count",
    "Open connections of a listener, with those that have yet to send a request",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: connection-count",
)
CONNECTIONS_CREATED: Final = counter(
    "kafka_server_socketservermetrics_connection_creation_total",
    "Connections that were accepted",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: connection-creation-total",
)
CONNECTIONS_REFUSED: Final = counter(
    "kafka_server_socketservermetrics_connection_refused_total",
    "Connections that were closed at once because of a limit",
    labels=("listener",),
)
AUTHENTICATIONS: Final = counter(
    "kafka_server_socketservermetrics_successful_authentication_total",
    "Connections whose client has authenticated by SASL, or by a TLS handshake on a listener without SASL",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: successful-authentication-total",
)
FAILED_AUTHENTICATIONS: Final = counter(
    "kafka_server_socketservermetrics_failed_authentication_total",
    "Connections whose client was refused by SASL or in a TLS handshake, or has refused the node's certificate",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: failed-authentication-total",
)
REAUTHENTICATIONS: Final = counter(
    "kafka_server_socketservermetrics_successful_reauthentication_total",
    "Authentications of a client that had authenticated before on its connection (KIP-368)",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: successful-reauthentication-total",
)
FAILED_REAUTHENTICATIONS: Final = counter(
    "kafka_server_socketservermetrics_failed_reauthentication_total",
    "Those that were refused, for example because the user was removed; the connection is closed",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: failed-reauthentication-total",
)
EXPIRED_CONNECTIONS: Final = counter(
    "kafka_server_socketservermetrics_expired_connections_killed_total",
    "Connections that were closed because their client sent a request after its session had expired (KIP-368)",
    labels=("listener",),
    mbean=f"{_SOCKET_SERVER},listener=*,networkProcessor=*: expired-connections-killed-count",
)
PRODUCE_BYTE_RATE: Final = gauge(
    "kafka_server_produce_byte_rate",
    "Rate at which the clients that share a producer_byte_rate quota produce",
    labels=_ENTITY,
    unit=Unit.BYTES_PER_SECOND,
    mbean="kafka.server:type=Produce,user=*,client-id=*: byte-rate",
)
PRODUCE_THROTTLE_TIME: Final = gauge(
    "kafka_server_produce_throttle_time",
    "Average pause of those clients after requests that exceeded the quota",
    labels=_ENTITY,
    unit=Unit.MILLISECONDS,
    mbean="kafka.server:type=Produce,user=*,client-id=*: throttle-time",
)
FETCH_BYTE_RATE: Final = gauge(
    "kafka_server_fetch_byte_rate",
    "Rate at which the clients that share a consumer_byte_rate quota fetch",
    labels=_ENTITY,
    unit=Unit.BYTES_PER_SECOND,
    mbean="kafka.server:type=Fetch,user=*,client-id=*: byte-rate",
)
FETCH_THROTTLE_TIME: Final = gauge(
    "kafka_server_fetch_throttle_time",
    "Average pause of those clients after requests that exceeded the quota",
    labels=_ENTITY,
    unit=Unit.MILLISECONDS,
    mbean="kafka.server:type=Fetch,user=*,client-id=*: throttle-time",
)
REQUEST_TIME: Final = gauge(
    "kafka_server_request_request_time",
    "Share of the event loop that the clients use which share a request_percentage quota",
    labels=_ENTITY,
    unit=Unit.PERCENT,
    mbean="kafka.server:type=Request,user=*,client-id=*: request-time",
)
REQUEST_THROTTLE_TIME: Final = gauge(
    "kafka_server_request_throttle_time",
    "Average pause of those clients after requests that exceeded the quota",
    labels=_ENTITY,
    unit=Unit.MILLISECONDS,
    mbean="kafka.server:type=Request,user=*,client-id=*: throttle-time",
)
