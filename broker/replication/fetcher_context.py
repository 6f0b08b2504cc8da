"""The settings and services that the replica fetchers of a broker share."""

from collections.abc import Callable
from typing import Final

from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.net.connection_drivers import ConnectionDrivers
from broker.replication.disconnected_brokers import DisconnectedBrokers
from broker.replication.fetch_plan import FetchSettings
from broker.replication.partition import Partition
from broker.replication.throttles import Throttle
from kraft import lazy_attrs
from kraft.env import Env
from metadata.image import BrokerImage

CONNECT_TIMEOUT_MS: Final = 1_000


@lazy_attrs.frozen(kw_only=True)
class FetcherContext:
    """See the module's docstring.

    `source` finds a broker's registration; `listener_name` names the endpoint to fetch from. `drivers` drive the
    connections. `throttle` limits the bytes fetched for throttled replicas that are not in sync. `log_failed` is called
    with a partition whose disk has failed.
    """

    env: Env
    drivers: ConnectionDrivers
    settings: FetchSettings
    client_id: str
    listener_name: str
    request_timeout_ms: float  # replica.socket.timeout.ms
    source: Callable[[int], BrokerImage | None]
    broker_epoch: Callable[[], int]
    throttle: Throttle
    log_failed: Callable[[Partition, OSError], None]
    disconnected_brokers: DisconnectedBrokers
    security: ConnectionSecurity = PLAINTEXT
