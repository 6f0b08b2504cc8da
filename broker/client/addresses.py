"""Parses bootstrap servers."""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from broker.client.errors import ConfigError

Address: TypeAlias = tuple[str, int]

_PORT: Final = re.compile("[0-9]{1,9}")
_PORT_MAX: Final = 65_535


def parse_addresses(servers: str | Sequence[str]) -> list[Address]:
    """Reads `host:port,...` or a list of `host:port`; an IPv6 address stands in brackets. Raises ConfigError."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    addresses = []
    for text in filter(None, (text.strip() for text in texts)):
        host, colon, port = text.rpartition(":")
        if not (colon and host and _PORT.fullmatch(port) and int(port) <= _PORT_MAX):
            raise ConfigError(f"{text!r} is not host:port; bootstrap servers are given as host1:9092,host2:9092")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise ConfigError("no bootstrap server is given; they are given as host1:9092,host2:9092")
    return addresses
