"""The rules between keys: what Kafka checks once every single value is fine. The messages are Kafka's."""

import re
from collections.abc import Set as AbstractSet

from broker.config.endpoints import Endpoints, SecurityProtocol
from metadata.configuration import ConfigError, Values
from metadata.configuration.quorum_addresses import parse_quorum_voters

_MIB = 1024 * 1024


def check_values(values: Values, node_id: int, roles: AbstractSet[str], endpoints: Endpoints) -> None:
    """Check a broker's or controller's values against each other; raises ConfigError about the first conflict."""
    for protocol in ("consumer", "share", "streams"):
        _check_group_timeouts(values, f"group.{protocol}")
    _check_groups(values)
    _check_logs(values)
    _check_replication(values)
    _check_roles(values, node_id, roles, endpoints)
    _check_listeners(values, roles, endpoints)
    _check_connections(values)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _number(values: Values, name: str) -> float:
    value = values[name]
    assert isinstance(value, (int, float)), f"{name} is a number that is always there"
    return value


def _check_group_timeouts(values: Values, prefix: str) -> None:
    for kind in ("heartbeat.interval.ms", "session.timeout.ms"):
        current, low, high = f"{prefix}.{kind}", f"{prefix}.min.{kind}", f"{prefix}.max.{kind}"
        _require(_number(values, high) >= _number(values, low), f"{high} must be greater than or equal to {low}")
        _require(_number(values, current) >= _number(values, low), f"{current} must be greater than or equal to {low}")
        _require(_number(values, current) <= _number(values, high), f"{current} must be less than or equal to {high}")
    heartbeat, session = f"{prefix}.heartbeat.interval.ms", f"{prefix}.session.timeout.ms"
    _require(_number(values, heartbeat) < _number(values, session), f"{heartbeat} must be less than {session}")


def _check_groups(values: Values) -> None:
    for low, high in (
        ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
        ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
        ("group.share.max.size", "group.share.max.share.sessions"),
    ):
        _require(_number(values, high) >= _number(values, low), f"{high} must be greater than or equal to {low}")
    assignors = values["group.share.assignors"]
    assert isinstance(assignors, tuple), "a list"
    _require(
        len(assignors) == 1, f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"
    )
    _require(
        _number(values, "group.streams.num.standby.replicas") <= _number(values, "group.streams.max.standby.replicas"),
        "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
    )
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        codec = _number(values, name)
        _require(0 <= codec <= 4, f"Unknown compression type id: {codec}")
    protocols = values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple), "a list"
    _require("classic" in protocols, "Disabling the 'classic' protocol is not supported.")


def _first_set(values: Values, *names: str) -> int:
    return next(value for name in names if isinstance(value := values[name], int))


def _check_logs(values: Values) -> None:
    roll = _first_set(values, "log.roll.ms", "log.roll.hours")
    _require(roll >= 1, "log.roll.ms must be greater than or equal to 1")
    jitter = _first_set(values, "log.roll.jitter.ms", "log.roll.jitter.hours")
    _require(jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    retention = _first_set(values, "log.retention.ms", "log.retention.minutes", "log.retention.hours")
    _require(retention != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = _number(values, "log.cleaner.threads")
    _require(
        threads == 0 or _number(values, "log.cleaner.dedupe.buffer.size") // threads > _MIB,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_replication(values: Values) -> None:
    wait = _number(values, "replica.fetch.wait.max.ms")
    _require(
        wait <= _number(values, "replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait <= _number(values, "replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )


def _check_roles(values: Values, node_id: int, roles: AbstractSet[str], endpoints: Endpoints) -> None:
    entries = values["controller.quorum.voters"]
    assert isinstance(entries, tuple), "a list"
    voters = parse_quorum_voters(entries)
    _require(
        bool(voters) or values["controller.quorum.bootstrap.servers"] != (),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    shown = f"controller.quorum.voters=Set({', '.join(map(str, voters))})"
    if "controller" in roles:
        _require(
            not voters or node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of "
            f"voters {shown}",
        )
        _check_controller(values, roles, endpoints)
    else:
        _require(
            node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set "
            f"of voters {shown}",
        )
        _check_broker_only(endpoints)


def _check_controller(values: Values, roles: AbstractSet[str], endpoints: Endpoints) -> None:
    names = endpoints.controller_listener_names
    if "broker" not in roles:
        _require(
            len(endpoints.advertised_controller_listeners) == len(endpoints.listeners),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
        _require(
            values["inter.broker.listener.name"] is None or endpoints.inter_broker_listener_name not in names,
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            "value when process.roles=controller",
        )
    _require(
        bool(endpoints.advertised_controller_listeners),
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
        "running the KRaft controller role",
    )
    _require(
        {listener.name for listener in endpoints.listeners}.issuperset(names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running "
        "the KRaft controller role",
    )


def _check_broker_only(endpoints: Endpoints) -> None:
    names = endpoints.controller_listener_names
    _require(
        bool(names),
        "controller.listener.names must contain at least one value when running KRaft with just the broker role",
    )
    _require(
        not endpoints.controller_listeners,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
        "KRaft with just the broker role",
    )
    for name in names:
        _require(
            name.upper() in endpoints.security_protocols,
            f"Controller listener with name {name.upper()} defined in controller.listener.names not found in "
            "listener.security.protocol.map  (an explicit security mapping for each controller listener is required if "
            "listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT in "
            "use)",
        )


def _check_listeners(values: Values, roles: AbstractSet[str], endpoints: Endpoints) -> None:
    early = values["early.start.listeners"]
    listening = [listener.name for listener in endpoints.listeners]
    for name in filter(None, map(str.strip, str(early or "").split(","))):
        _require(
            name in listening,
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
            "controller.listener.names",
        )
    if "broker" in roles:
        _check_advertised(endpoints, listening)
    advertised = (*endpoints.advertised_broker_listeners, *endpoints.advertised_controller_listeners)
    _require(
        all(listener.host != "0.0.0.0" for listener in advertised),
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
    )
    speaks_sasl = endpoints.inter_broker_security_protocol in (
        SecurityProtocol.SASL_PLAINTEXT,
        SecurityProtocol.SASL_SSL,
    )
    mechanisms = values["sasl.enabled.mechanisms"]
    _require(
        not speaks_sasl
        or (isinstance(mechanisms, tuple) and values["sasl.mechanism.inter.broker.protocol"] in mechanisms),
        "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
        "inter-broker communication",
    )


def _check_advertised(endpoints: Endpoints, listening: list[str]) -> None:
    advertised = [listener.name for listener in endpoints.advertised_broker_listeners]
    _require(
        bool(advertised),
        "There must be at least one broker advertised listener. Perhaps all listeners appear in "
        "controller.listener.names?",
    )
    _require(
        endpoints.inter_broker_listener_name in advertised,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based "
        f"on currently configured listeners are {','.join(advertised)}",
    )
    _require(
        set(advertised) <= set(listening),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
        f"{','.join(advertised)}. The valid options based on the current configuration are {','.join(listening)}",
    )


def _check_connections(values: Values) -> None:
    queued = _number(values, "queued.max.request.bytes")
    _require(
        queued <= 0 or queued >= _number(values, "socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = str(values["max.connections.per.ip.overrides"] or "")
    _require(
        values["max.connections.per.ip"] != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    _check_overrides(overrides)
    idle_ms = _number(values, "connections.max.idle.ms")
    delay_ms = _number(values, "connection.failed.authentication.delay.ms")
    _require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )


def _check_overrides(text: str) -> None:
    name = "max.connections.per.ip.overrides"
    invalid = []
    for entry in filter(None, map(str.strip, text.split(","))):
        host, colon, count = map(str.strip, entry.rpartition(":"))
        _require(
            bool(colon) and count.isdecimal() and len(count) < 10,
            f"Error parsing configuration property '{name}': {entry} is not of the form host:count",
        )
        if not re.fullmatch(r"[0-9a-zA-Z\-%._:]*", host):
            invalid.append(host)
    _require(not invalid, f"{name} contains invalid addresses : {','.join(invalid)}")
