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
