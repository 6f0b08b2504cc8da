"""The config keys of `Admin`."""

from collections.abc import Sequence

import attrs

from broker.client.addresses import Address
from broker.client.config import ClientConfig, ClientSettings, addresses, number
from broker.client.errors import ConfigError


@attrs.frozen(kw_only=True)
class AdminConfig(ClientConfig):
    """`bootstrap_controllers` are controllers to talk to directly, in place of brokers (KIP-919).

    A call without a timeout of its own is retried for `default_api_timeout_ms`.
    """

    bootstrap_controllers: tuple[Address, ...] = addresses()
    default_api_timeout_ms: float = number(60_000, at_least=0)

    def __attrs_post_init__(self) -> None:
        """Raises ConfigError unless there is exactly one of both kinds of servers."""
        if self.bootstrap_servers and self.bootstrap_controllers:
            raise ConfigError("give either bootstrap.servers or bootstrap.controllers, not both")
        if not (self.bootstrap_servers or self.bootstrap_controllers):
            raise ConfigError("no server is given; give bootstrap servers, or bootstrap_controllers=")


class AdminSettings(ClientSettings, total=False):
    """Keyword arguments of `Admin`: Kafka's keys with underscores. Times are in milliseconds, sizes in bytes."""

    bootstrap_controllers: str | Sequence[str]
    default_api_timeout_ms: float
