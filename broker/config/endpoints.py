"""The listeners of a node and the addresses it advertises, from several keys that depend on each other."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs, InvalidConfig
from metadata.protocol import SecurityProtocol

# Names of the local machine. A listener on every interface accepts connections to them.
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_THIS_MACHINE: Final = (*_LOOPBACK, "", "0.0.0.0", "::")
# The name of the listener for operators.
HTTP: Final = "HTTP"
_PORT_MAX: Final = 65535
_LISTENER: Final = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,9})"


@lazy_attrs.frozen
class Listener:
    """A listener's name and address. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol


@lazy_attrs.frozen
class Endpoints:
    """All listeners of a node. `advertised` are the addresses that clients get; by default they equal `listeners`.

    `http` is for operators (`http.listener`); it does not speak Kafka's protocol.
    """

    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    security_protocols: Mapping[str, SecurityProtocol]
    inter_broker_listener_name: str
    inter_broker_security_protocol: SecurityProtocol
    http: Listener | None = None

    @property
    def bound(self) -> tuple[Listener, ...]:
        """The listeners for which the node opens sockets."""
        return self.listeners if self.http is None else (*self.listeners, self.http)

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and brokers."""
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    @property
    def advertised_broker_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.advertised if each.name not in self.controller_listener_names)

    @property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """In the order of controller.listener.names. A listener that is not advertised is listed as it listens."""
        by_name = {each.name: each for each in (*self.controller_listeners, *self.advertised)}
        names = (name.upper() for name in self.controller_listener_names)
        return tuple(by_name[name] for name in names if name in by_name)

    def is_own_controller(self, address: tuple[str, int]) -> bool:
        """True if (host, port) is certainly a controller listener of this node.

        A host name that no listener uses counts as another machine's, even if it might be a name of this one.
        """
        host, port = address
        own = [
            each for each in (*self.controller_listeners, *self.advertised_controller_listeners) if each.port == port
        ]
        return any(host == each.host or (host in _LOOPBACK and each.host in _THIS_MACHINE) for each in own)


def read_endpoints(config: BrokerConfigs, set_names: Iterable[str]) -> Endpoints:
    """Read the keys about listeners; `set_names` are the names of keys that are not left to their defaults.

    Raises InvalidConfig.
    """
    controller_names = tuple(_csv(config.controller_listener_names or ""))
    listeners_text = config.listeners
    is_map_set = BrokerConfigs.listener_security_protocol_map.name in set_names
    protocols = _read_protocols(config.listener_security_protocol_map)
    if not is_map_set and not _speaks_security(controller_names, listeners_text):
        protocols |= dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT)
    listeners = parse_listeners(listeners_text, protocols)
    _require_distinct_ports(listeners, listeners_text)
    advertised_text = config.advertised_listeners
    is_protocol_set = BrokerConfigs.security_inter_broker_protocol.name in set_names
    name, protocol = _inter_broker(config, protocols, is_protocol_set=is_protocol_set)
    return Endpoints(
        listeners=listeners,
        advertised=listeners if advertised_text is None else parse_listeners(advertised_text, protocols),
        controller_listener_names=controller_names,
        security_protocols=protocols,
        inter_broker_listener_name=name,
        inter_broker_security_protocol=protocol,
        http=_read_http(config.http_listener, listeners),
    )


def parse_listeners(text: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[Listener, ...]:
    """Read a list of `name://host:port`; names become upper case. Raises InvalidConfig."""
    problem = f"Error creating broker listeners from '{text}': "
    listeners = []
    for entry in _csv(text.strip()):
        match = re.fullmatch(_LISTENER, entry)
        if match is None:
            raise InvalidConfig(f"{problem}Unable to parse {entry} to a broker endpoint")
        name = match[1].upper()
        if name not in protocols:
            raise InvalidConfig(f"{problem}No security protocol defined for listener {name}")
        if not 0 <= int(match[3]) <= _PORT_MAX:
            raise InvalidConfig(f"{problem}port out of range:{match[3]}")
        listeners.append(Listener(name, match[2], int(match[3]), protocols[name]))
    if len({listener.name for listener in listeners}) != len(listeners):
        raise InvalidConfig(f"Each listener must have a different name, listeners: {text}")
    return tuple(listeners)


def _read_http(text: str | None, listeners: Sequence[Listener]) -> Listener | None:
    if not text:
        return None
    match = re.fullmatch(_LISTENER, f"{HTTP}://{text}")
    if match is None or "://" in text or not 0 <= int(match[3]) <= _PORT_MAX:
        raise InvalidConfig(f"http.listener has to be host:port, not {text}")
    if any(listener.name == HTTP for listener in listeners):
        raise InvalidConfig(f"No listener may be called {HTTP} on a node with http.listener")
    http = Listener(HTTP, match[2], int(match[3]), SecurityProtocol.PLAINTEXT)
    _require_distinct_ports((*listeners, http), text)
    return http


def _read_protocols(text: str) -> dict[str, SecurityProtocol]:
    key = BrokerConfigs.listener_security_protocol_map.name
    protocols = {}
    for entry in _csv(text):
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise InvalidConfig(f"Error parsing configuration property '{key}': {entry}")
        protocols[name.strip().upper()] = _protocol(protocol.strip(), key)
    return protocols


def _protocol(name: str, key: str) -> SecurityProtocol:
    protocol = SecurityProtocol.__members__.get(name.upper())
    if protocol is None:
        raise InvalidConfig(f"Invalid security protocol `{name}` defined in {key}")
    return protocol


def _speaks_security(controller_names: Sequence[str], listeners_text: str) -> bool:
    """True if a listener is named after TLS or SASL: the controllers' protocols must then be set explicitly."""
    secure = {protocol.name for protocol in SecurityProtocol if protocol is not SecurityProtocol.PLAINTEXT}
    listener_names = (entry.partition(":")[0].upper() for entry in _csv(listeners_text))
    return not secure.isdisjoint(controller_names) or not secure.isdisjoint(listener_names)


def _inter_broker(
    config: BrokerConfigs, protocols: Mapping[str, SecurityProtocol], *, is_protocol_set: bool
) -> tuple[str, SecurityProtocol]:
    name = config.inter_broker_listener_name
    if name is None:
        key = BrokerConfigs.security_inter_broker_protocol
        protocol = _protocol(config.security_inter_broker_protocol, key.name)
        return protocol.name, protocol
    if is_protocol_set:
        raise InvalidConfig("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    listener_name = name.upper()
    if listener_name not in protocols:
        raise InvalidConfig(
            f"Listener with name {listener_name} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        )
    return listener_name, protocols[listener_name]


def _require_distinct_ports(listeners: Sequence[Listener], text: str) -> None:
    """No two listeners share a port, except for one with an IPv4 and one with an IPv6 address (KIP-797)."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port != 0:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) == 1:
            continue
        versions = [version for each in sharing if (version := _ip_version(each.host)) is not None]
        if len(sharing) - len(versions) > 1:
            raise InvalidConfig(f"Each listener must have a different port, listeners: {text}")
        if len(versions) != 2:
            raise InvalidConfig(
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the "
                f"other IPv6 address, listeners: {text}, port: {port}"
            )
        if sorted(versions) != [4, 6] or len(sharing) > 2:
            raise InvalidConfig(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {text}, port: {port}"
            )


def _ip_version(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _csv(text: str) -> list[str]:
    return [entry for entry in re.split(r"\s*,\s*", text) if entry]
