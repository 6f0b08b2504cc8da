"""Parsing of `controller.quorum.voters` and `controller.quorum.bootstrap.servers`."""

import re
from collections.abc import Sequence

from metadata.configuration.definition import InvalidConfig

_HOST_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
PORT_MAX = 65535


def parse_quorum_voters(entries: Sequence[str]) -> dict[int, tuple[str, int]]:
    """Parse `1@host:9093` entries to a mapping of node id to (host, port). Raises InvalidConfig."""
    voters: dict[int, tuple[str, int]] = {}
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    for entry in entries:
        parts = entry.split("@")
        if len(parts) != 2:
            raise InvalidConfig(f"Invalid configuration value for controller.quorum.voters. {form}")
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", parts[0]):
            raise InvalidConfig(f"Failed to parse voter ID as an integer from {parts[0]}")
        address = _host_port(parts[1])
        if address is None:
            raise InvalidConfig(
                f"Failed to parse host name from entry {entry} for the configuration controller.quorum.voters. {form}"
            )
        voters[int(parts[0])] = address
    return voters


def parse_quorum_server(entry: str) -> tuple[str, int]:
    """Parse a `host:9093` entry to (host, port). Raises InvalidConfig."""
    address = _host_port(entry)
    if address is None:
        raise InvalidConfig(
            f"Failed to parse host name from {entry} for the configuration controller.quorum.bootstrap.servers. "
            'Each entry should be in the form "{host}:{port}"'
        )
    return address


def _host_port(text: str) -> tuple[str, int] | None:
    match = _HOST_PORT.fullmatch(text)
    if match is None or len(match[2]) > 9:
        return None
    port = int(match[2])
    if port > PORT_MAX:
        raise InvalidConfig(f"port out of range:{port}")
    return match[1], port
