"""The configurations of several brokers of one host, from the one file that `kraft.brokers` is set in.

A broker runs one event loop, and so uses one core. Broker k of the host, counted from 0, has the node id of the file
plus k. The first has the roles of the file. The others are brokers only, so that a host has one voter of the quorum.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from types import MappingProxyType
from typing import Final, TypeAlias

from broker.config.endpoints import Endpoints, Listener
from broker.config.kafka_config import KafkaConfig
from metadata.configuration import InvalidConfig

# Between the ports of a host's brokers. With 1, the second broker's client port would be the first one's controller
# port in Kafka's usual 9092 and 9093.
PORT_STEP: Final = 10
_PORT_MAX: Final = 65_535
# The addresses of an empty host, which means every interface, and of this machine's name for itself.
_NAMED: Final = MappingProxyType({"": ("0.0.0.0", "::"), "localhost": ("127.0.0.1", "::1")})
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# Only the supervisor reads the metrics of a broker. It reads the chosen port from the broker's output.
_HTTP_LISTENER: Final = "127.0.0.1:0"


def broker_overrides(config: KafkaConfig) -> list[dict[str, str]]:
    """The configs of each broker that differ from `config`, which is the file's with absolute directories.

    Raises InvalidConfig if the brokers cannot share a host with this file.
    """
    if not config.is_broker:
        raise InvalidConfig(f"kraft.brokers={config.kraft_brokers} needs the role broker in process.roles")
    for listener in config.endpoints.controller_listeners:
        if listener.port == 0:
            raise InvalidConfig(
                f"With kraft.brokers={config.kraft_brokers}, listener {listener.name} needs a port other than 0: the "
                "other brokers connect to it"
            )
    return [_overrides(config, index) for index in range(config.kraft_brokers)]


def check_addresses(brokers: Sequence[KafkaConfig], http: Listener | None) -> None:
    """Raises InvalidConfig if brokers of a host would collide.

    Two of them may not listen on one address, or advertise one to clients: these would reach another broker than they
    mean. The `http` listener of the supervisor counts as one of another broker.
    """
    taken = [] if http is None else [(http, "the supervisor")]
    advertised: list[tuple[Listener, str]] = []
    for config in brokers:
        owner = f"broker {config.node_id}"
        listeners = [(each, owner) for each in config.endpoints.listeners]
        own = [(each, owner) for each in config.endpoints.advertised_broker_listeners]
        _require_apart(listeners, taken, _overlap, "listen on", len(brokers))
        _require_apart(own, advertised, _is_same, "be advertised at", len(brokers))
        taken += listeners
        advertised += own


def _require_apart(
    own: Sequence[tuple[Listener, str]],
    taken: Sequence[tuple[Listener, str]],
    collide: Callable[[Listener, Listener], bool],
    verb: str,
    brokers: int,
) -> None:
    for (listener, owner), (other, other_owner) in product(own, taken):
        if listener.port and listener.port == other.port and collide(listener, other):
            raise InvalidConfig(
                f"kraft.brokers={brokers}: {listener.name} of {owner} and {other.name} of {other_owner} would both "
                f"{verb} port {listener.port}. A broker has ports {PORT_STEP} above those of the one before it"
            )


def _is_same(listener: Listener, other: Listener) -> bool:
    return listener.host.lower() == other.host.lower()


def _overlap(listener: Listener, other: Listener) -> bool:
    """Whether two listeners have an address in common. A name other than localhost may have any address."""
    addresses, others = _addresses(listener.host), _addresses(other.host)
    if addresses is None or others is None:
        return _is_same(listener, other) or any(each.is_unspecified for each in (*(addresses or ()), *(others or ())))
    return any(
        one == two or (one.version == two.version and (one.is_unspecified or two.is_unspecified))
        for one, two in product(addresses, others)
    )


def _addresses(host: str) -> list[_Address] | None:
    """The addresses of a host; None if they are not known."""
    try:
        return [ipaddress.ip_address(each) for each in _NAMED.get(host.lower(), (host,))]
    except ValueError:
        return None


def _overrides(config: KafkaConfig, index: int) -> dict[str, str]:
    node_id = config.node_id + index
    overrides = {
        "kraft.brokers": "1",
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "broker.rack": config.broker_rack or str(config.node_id),
        "log.dirs": _own_directories(config.log_directories, node_id),
    }
    if config.cordoned_log_dirs:
        overrides["cordoned.log.dirs"] = _own_directories(config.cordoned_log_dirs, node_id)
    if config.metadata_log_dir is not None:
        overrides["metadata.log.dir"] = _own_directories([config.metadata_log_dir], node_id)
    if config.endpoints.http is not None:
        overrides["http.listener"] = _HTTP_LISTENER
    return {**overrides, **(_of_first_broker(config) if index == 0 else _of_further_broker(config, index))}


def _own_directories(directories: Iterable[str], node_id: int) -> str:
    """The directories of a broker within those of the file. `*` stands for all of its log directories."""
    return ",".join(each if each == "*" else f"{each}/broker-{node_id}" for each in directories)


def _of_first_broker(config: KafkaConfig) -> dict[str, str]:
    """The listeners of the first broker. If the file changes, a restart leaves them as those of the others are."""
    overrides = {"listeners": config.listeners}
    if config.advertised_listeners is not None:
        overrides["advertised.listeners"] = config.advertised_listeners
    return overrides


def _of_further_broker(config: KafkaConfig, index: int) -> dict[str, str]:
    """The roles, listeners and controllers of a broker after the first."""
    endpoints = config.endpoints
    overrides = {
        "process.roles": "broker",
        "controller.quorum.auto.join.enable": "false",
        "listeners": _shifted(endpoints.broker_listeners, index),
    }
    if config.advertised_listeners is not None:
        overrides["advertised.listeners"] = _shifted(endpoints.advertised_broker_listeners, index)
    if config.controller_quorum_bootstrap_servers:
        overrides["controller.quorum.bootstrap.servers"] = ",".join(config.controller_quorum_bootstrap_servers)
    if config.early_start_listeners:
        overrides["early.start.listeners"] = _without_controllers(config.early_start_listeners, endpoints)
    return overrides


def _shifted(listeners: Iterable[Listener], index: int) -> str:
    """The listeners of a broker, from those of the first. Port 0 stays: any free port. Raises InvalidConfig."""
    return ",".join(f"{each.name}://{_host(each)}:{_port(each, index)}" for each in listeners)


def _host(listener: Listener) -> str:
    return f"[{listener.host}]" if ":" in listener.host else listener.host


def _port(listener: Listener, index: int) -> int:
    port = listener.port + PORT_STEP * index if listener.port else 0
    if port > _PORT_MAX:
        raise InvalidConfig(
            f"kraft.brokers: listener {listener.name} of broker {index + 1} of this host would have port {port}, and "
            f"the largest port is {_PORT_MAX}"
        )
    return port


def _without_controllers(names: str, endpoints: Endpoints) -> str:
    """The names of `early.start.listeners` that a broker has. An override has to have a value."""
    own = {each.name for each in endpoints.broker_listeners}
    return ",".join(name for name in map(str.strip, names.split(",")) if name in own) or min(own)
