"""Parses bootstrap servers."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from broker.client.arguments.check import shown
from broker.client.errors import ConfigError

Address: TypeAlias = tuple[str, int]

_PORT_MAX: Final = 65_535
_SECURED: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FORM: Final = "they are given as host1:9092,host2:9092"


def parse_addresses(servers: str | Sequence[str]) -> list[Address]:
    """Reads `host:port,...` or a list of `host:port`, each as `PLAINTEXT://host:port` too. Raises ConfigError.

    An IPv6 address stands in brackets.
    """
    texts = [servers] if isinstance(servers, str) else servers
    parts = [part.strip() for text in texts for part in text.split(",")]
    addresses = [_address(part) for part in parts if part]
    if not addresses:
        raise ConfigError(f"no bootstrap server is given; {_FORM}")
    return addresses


def _address(text: str) -> Address:
    protocol, separator, rest = text.rpartition("://")
    if protocol.upper() in _SECURED:
        raise ConfigError(f"{shown(text)}: give host:port, and security.protocol={protocol.upper()}")
    if separator and protocol.upper() != "PLAINTEXT":
        raise ConfigError(f"{shown(text)} is not host:port or PLAINTEXT://host:port")
    host, colon, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= len(str(_PORT_MAX)) and 0 < int(port) <= _PORT_MAX
    if not (colon and host and is_port):
        raise ConfigError(f"{shown(text)} is not host:port; bootstrap servers: {_FORM}")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ConfigError(f"{shown(text)}: an IPv6 address stands in brackets, as in [::1]:9092")
    return host, int(port)
