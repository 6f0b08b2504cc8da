"""The rules between keys, checked once every single value is valid. The messages are Kafka's."""

import ipaddress
import re
from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from broker.config.endpoints import Endpoints
from metadata.configuration import BrokerConfigs, InvalidConfig
from metadata.configuration.quorum_addresses import parse_quorum_voters
from metadata.configuration.vocabulary import INT_MAX
from metadata.protocol import SecurityProtocol

_MIB = 1024 * 1024
# Dynamic configs that have to fit to other configs of a broker's own file.
OF_ONE_FILE: Final = frozenset(
    key.name
    for key in (BrokerConfigs.listeners, BrokerConfigs.listener_security_protocol_map, BrokerConfigs.cordoned_log_dirs)
)
_LOCALHOST: Final = ("127.0.0.1", "::1")

# The class names that Kafka's configs may have for the assignors. Other classes cannot be loaded.
ASSIGNOR_CLASSES: Final = MappingProxyType(
    {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    }
)
_SHARE_ASSIGNORS: Final = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")
_ASSIGNORS: Final = (*ASSIGNOR_CLASSES.values(), *ASSIGNOR_CLASSES)


def check_identity(config: BrokerConfigs) -> None:
    """Check the node's id and roles; raises InvalidConfig."""
    _require(config.node_id == config.broker_id, "You must set `node.id` to the same value as `broker.id`.")
    roles = config.process_roles
    _require(bool(roles), "At least one role must be defined via process.roles.")
    _require(len(set(roles)) == len(roles), f"Duplicate role names found in `process.roles`: {', '.join(roles)}")


def check_values(config: BrokerConfigs, endpoints: Endpoints) -> None:
    """Check a broker's or controller's values against each other; raises InvalidConfig about the first conflict."""
    for protocol in ("consumer", "share", "streams"):
        _check_group_bounds(config, f"group.{protocol}")
    _check_groups(config)
    _check_streams_groups(config)
    _check_logs(config)
    _check_replication(config)
    _check_roles(config, endpoints)
    _check_listeners(config, endpoints)
    _check_connections(config)


def check_directories(config: BrokerConfigs, log_directories: Collection[str]) -> None:
    """Raises InvalidConfig if a directory is cordoned that is not a log directory."""
    cordoned = set(config.cordoned_log_dirs)
    _require(
        cordoned <= {"*"} or cordoned <= set(log_directories),
        f"All entries in {BrokerConfigs.cordoned_log_dirs.name} must be present in log.dirs or log.dir, or be *.",
    )


def check_supported(config: BrokerConfigs) -> None:
    """Raises InvalidConfig if the configuration asks for an assignor that is not built in, which Kafka could load."""
    assignors = config.group_consumer_assignors
    if not assignors or not set(assignors) <= set(_ASSIGNORS):
        raise InvalidConfig(f"group.consumer.assignors has to name some of: {', '.join(_ASSIGNORS)}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidConfig(message)


def _require_order(config: BrokerConfigs, low: str, high: str) -> None:
    """The value of the key `high` is at least that of the key `low`."""
    _require(_number(config, high) >= _number(config, low), f"{high} must be greater than or equal to {low}")


def _number(config: BrokerConfigs, name: str) -> float:
    value = config.values[name]
    assert isinstance(value, (int, float)), f"{name} is a number with a default"
    return value


def _check_group_bounds(config: BrokerConfigs, prefix: str) -> None:
    for kind in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        _check_bounds(config, f"{prefix}.{kind}", f"{prefix}.min.{kind}", f"{prefix}.max.{kind}")
    heartbeat, session = f"{prefix}.heartbeat.interval.ms", f"{prefix}.session.timeout.ms"
    _require(_number(config, heartbeat) < _number(config, session), f"{heartbeat} must be less than {session}")


def _check_bounds(config: BrokerConfigs, current: str, low: str, high: str) -> None:
    _require_order(config, low, high)
    _require_order(config, low, current)
    _require(_number(config, current) <= _number(config, high), f"{current} must be less than or equal to {high}")


def _check_groups(config: BrokerConfigs) -> None:
    for kind in ("delivery.count.limit", "partition.max.record.locks"):
        _check_bounds(config, f"group.share.{kind}", f"group.share.min.{kind}", f"group.share.max.{kind}")
    for low, high in (
        (BrokerConfigs.group_share_min_record_lock_duration_ms, BrokerConfigs.group_share_record_lock_duration_ms),
        (BrokerConfigs.group_share_record_lock_duration_ms, BrokerConfigs.group_share_max_record_lock_duration_ms),
        (BrokerConfigs.group_share_max_size, BrokerConfigs.group_share_max_share_sessions),
    ):
        _require_order(config, low.name, high.name)
    assignors = config.group_share_assignors
    _require(
        len(assignors) == 1, f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"
    )
    _require(assignors[0] in _SHARE_ASSIGNORS, f"group.share.assignors has to name one of: {_SHARE_ASSIGNORS}")
    for codec in (config.offsets_topic_compression_codec, config.share_coordinator_state_topic_compression_codec):
        _require(0 <= codec <= 4, f"Unknown compression type id: {codec}")
    _require(
        "classic" in config.group_coordinator_rebalance_protocols,
        "Disabling the 'classic' protocol is not supported.",
    )


def _check_streams_groups(config: BrokerConfigs) -> None:
    _require(
        config.group_streams_num_standby_replicas <= config.group_streams_max_standby_replicas,
        "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
    )
    _require(
        set(config.group_streams_assignors) <= {"sticky"}, "group.streams.assignors has to name one of: ('sticky',)"
    )
    _require_order(
        config,
        BrokerConfigs.group_streams_min_task_offset_interval_ms.name,
        BrokerConfigs.group_streams_task_offset_interval_ms.name,
    )
    _require_order(
        config,
        BrokerConfigs.group_streams_num_warmup_replicas.name,
        BrokerConfigs.group_streams_max_warmup_replicas.name,
    )


def _first_set(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _check_logs(config: BrokerConfigs) -> None:
    roll = _first_set(config.log_roll_ms, config.log_roll_hours)
    _require(roll >= 1, "log.roll.ms must be greater than or equal to 1")
    jitter = _first_set(config.log_roll_jitter_ms, config.log_roll_jitter_hours)
    _require(jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    retention = _first_set(config.log_retention_ms, config.log_retention_minutes, config.log_retention_hours)
    _require(retention != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = config.log_cleaner_threads
    _require(threads >= 1, "log.cleaner.threads must be at least 1")
    _require(
        config.log_cleaner_dedupe_buffer_size // threads > _MIB,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _check_replication(config: BrokerConfigs) -> None:
    wait = config.replica_fetch_wait_max_ms
    _require(
        wait <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )


def _check_roles(config: BrokerConfigs, endpoints: Endpoints) -> None:
    voters = parse_quorum_voters(config.controller_quorum_voters)
    _require(
        bool(voters) or config.controller_quorum_bootstrap_servers != (),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    shown = f"controller.quorum.voters=Set({', '.join(map(str, voters))})"
    if "controller" in config.process_roles:
        _require(
            not voters or config.node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the "
            f"set of voters {shown}",
        )
        _check_controller(config, endpoints)
    else:
        _require(
            not config.controller_quorum_auto_join_enable,
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
        )
        _require(
            config.node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in "
            f"the set of voters {shown}",
        )
        _check_broker_only(endpoints)


def _check_controller(config: BrokerConfigs, endpoints: Endpoints) -> None:
    names = endpoints.controller_listener_names
    if "broker" not in config.process_roles:
        _require(
            len(endpoints.advertised_controller_listeners) == len(endpoints.listeners),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
        _require(
            config.inter_broker_listener_name is None or endpoints.inter_broker_listener_name not in names,
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


def _check_listeners(config: BrokerConfigs, endpoints: Endpoints) -> None:
    listening = [listener.name for listener in endpoints.listeners]
    early = (config.early_start_listeners or "").strip()
    for name in map(str.strip, early.split(",") if early else ()):
        _require(
            name in listening,
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
            "controller.listener.names",
        )
    if "broker" in config.process_roles:
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
    _require(
        not speaks_sasl or config.sasl_mechanism_inter_broker_protocol in config.sasl_enabled_mechanisms,
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


def _check_connections(config: BrokerConfigs) -> None:
    queued = config.queued_max_request_bytes
    _require(
        queued <= 0 or queued >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = config.max_connections_per_ip_overrides
    _require(
        config.max_connections_per_ip != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    read_address_limits(overrides)
    idle_ms = config.connections_max_idle_ms
    delay_ms = config.connection_failed_authentication_delay_ms
    _require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )


def read_address_limits(text: str) -> dict[str, int]:
    """The limits of `max.connections.per.ip.overrides` by address.

    Raises InvalidConfig for host names other than localhost: their addresses may change while a node runs.
    """
    name = BrokerConfigs.max_connections_per_ip_overrides.name
    limits: dict[str, int] = {}
    invalid = []
    for entry in filter(None, map(str.strip, text.split(","))):
        host, colon, count = map(str.strip, entry.rpartition(":"))
        _require(
            bool(colon) and re.fullmatch("[0-9]{1,10}", count) is not None and int(count) <= INT_MAX,
            f"Error parsing configuration property '{name}': {entry} is not of the form host:count",
        )
        try:
            addresses = _LOCALHOST if host == "localhost" else (str(ipaddress.ip_address(host)),)
        except ValueError:
            invalid.append(host)
        else:
            limits.update(dict.fromkeys(addresses, int(count)))
    _require(not invalid, f"{name} contains invalid addresses : {','.join(invalid)}")
    return limits
