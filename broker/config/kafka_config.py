"""A node's configuration: `server.properties` as Kafka reads it, overrides, and values by name with their types."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, overload

from broker.config.checks import check_values
from broker.config.endpoints import Endpoints, Listener, read_endpoints
from broker.config.honoured import HONOURED_BROKER_CONFIGS
from broker.config.properties import parse_properties
from metadata.configuration import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    BrokerLayers,
    ConfigEntry,
    ConfigError,
    ConfigSchema,
    ConfigValue,
    Password,
    Values,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_values,
)
from metadata.configuration.quorum_addresses import parse_quorum_server, parse_quorum_voters

# What a node runs with that was given no file: one combined node, reachable from this machine only. These are the
# values of the properties file that Kafka ships, apart from the directory and the loopback address. Unless somebody
# says who the controllers are, this node is (see `_own_quorum`).
DEVELOPMENT_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "./data",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
)


class _Integer:
    """An integer of the configuration as an attribute; the key must have a default or be required."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, config: None, owner: type) -> "_Integer": ...
    @overload
    def __get__(self, config: "KafkaConfig", owner: type) -> int: ...
    def __get__(self, config: "KafkaConfig | None", owner: type) -> "int | _Integer":
        return self if config is None else config.get_int(self._name)


class _Boolean:
    """A truth value of the configuration as an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, config: None, owner: type) -> "_Boolean": ...
    @overload
    def __get__(self, config: "KafkaConfig", owner: type) -> bool: ...
    def __get__(self, config: "KafkaConfig | None", owner: type) -> "bool | _Boolean":
        return self if config is None else config.get_bool(self._name)


class KafkaConfig:
    """The values in force on a node: checked, immutable, by name or as attributes where the node uses them often.

    `layers` is what was set, `values` is what follows from it for every known key. A dynamic change makes a new
    KafkaConfig (`with_dynamic`). Raises ConfigError when a value is bad, missing, or in conflict with another.
    """

    def __init__(self, layers: BrokerLayers) -> None:
        static = _with_node_id(layers.static)
        self.layers: Final = BrokerLayers(static, layers.cluster, layers.broker)
        merged = self.layers.merged()
        self.values: Final[Values] = BROKER_CONFIGS.parse(merged)
        self._dynamic_only_values = DYNAMIC_ONLY_CONFIGS.parse({**layers.cluster, **layers.broker})
        if self.node_id != self.get_int("broker.id"):
            raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
        self.process_roles: Final = _process_roles(self.get_list("process.roles"))
        self.endpoints: Final[Endpoints] = read_endpoints(self.values, merged)
        self.log_dirs: Final = _log_dirs(self.find_str("log.dirs"), self.get_str("log.dir"))
        check_values(self.values, self.node_id, self.process_roles, self.endpoints)

    node_id = _Integer("node.id")
    broker_heartbeat_interval_ms = _Integer("broker.heartbeat.interval.ms")
    broker_session_timeout_ms = _Integer("broker.session.timeout.ms")
    initial_broker_registration_timeout_ms = _Integer("initial.broker.registration.timeout.ms")
    request_timeout_ms = _Integer("request.timeout.ms")

    controller_quorum_election_timeout_ms = _Integer("controller.quorum.election.timeout.ms")
    controller_quorum_fetch_timeout_ms = _Integer("controller.quorum.fetch.timeout.ms")
    controller_quorum_election_backoff_max_ms = _Integer("controller.quorum.election.backoff.max.ms")
    controller_quorum_request_timeout_ms = _Integer("controller.quorum.request.timeout.ms")
    controller_quorum_retry_backoff_ms = _Integer("controller.quorum.retry.backoff.ms")
    metadata_log_max_record_bytes_between_snapshots = _Integer("metadata.log.max.record.bytes.between.snapshots")
    metadata_log_max_snapshot_interval_ms = _Integer("metadata.log.max.snapshot.interval.ms")

    auto_leader_rebalance_enable = _Boolean("auto.leader.rebalance.enable")
    leader_imbalance_check_interval_seconds = _Integer("leader.imbalance.check.interval.seconds")
    auto_create_topics_enable = _Boolean("auto.create.topics.enable")
    delete_topic_enable = _Boolean("delete.topic.enable")
    num_partitions = _Integer("num.partitions")
    default_replication_factor = _Integer("default.replication.factor")
    max_request_partition_size_limit = _Integer("max.request.partition.size.limit")

    socket_request_max_bytes = _Integer("socket.request.max.bytes")
    socket_listen_backlog_size = _Integer("socket.listen.backlog.size")
    socket_send_buffer_bytes = _Integer("socket.send.buffer.bytes")
    socket_receive_buffer_bytes = _Integer("socket.receive.buffer.bytes")
    connections_max_idle_ms = _Integer("connections.max.idle.ms")
    max_connections = _Integer("max.connections")
    max_connections_per_ip = _Integer("max.connections.per.ip")
    queued_max_requests = _Integer("queued.max.requests")

    fetch_max_bytes = _Integer("fetch.max.bytes")
    max_incremental_fetch_session_cache_slots = _Integer("max.incremental.fetch.session.cache.slots")
    message_max_bytes = _Integer("message.max.bytes")
    producer_id_expiration_ms = _Integer("producer.id.expiration.ms")
    producer_id_expiration_check_interval_ms = _Integer("producer.id.expiration.check.interval.ms")

    log_retention_check_interval_ms = _Integer("log.retention.check.interval.ms")
    log_flush_scheduler_interval_ms = _Integer("log.flush.scheduler.interval.ms")
    log_flush_offset_checkpoint_interval_ms = _Integer("log.flush.offset.checkpoint.interval.ms")
    log_flush_start_offset_checkpoint_interval_ms = _Integer("log.flush.start.offset.checkpoint.interval.ms")
    log_cleaner_enable = _Boolean("log.cleaner.enable")
    log_cleaner_threads = _Integer("log.cleaner.threads")
    log_cleaner_dedupe_buffer_size = _Integer("log.cleaner.dedupe.buffer.size")
    log_cleaner_io_buffer_size = _Integer("log.cleaner.io.buffer.size")
    log_cleaner_backoff_ms = _Integer("log.cleaner.backoff.ms")
    log_dir_failure_timeout_ms = _Integer("log.dir.failure.timeout.ms")
    log_initial_task_delay_ms = _Integer("log.initial.task.delay.ms")
    num_recovery_threads_per_data_dir = _Integer("num.recovery.threads.per.data.dir")
    replica_high_watermark_checkpoint_interval_ms = _Integer("replica.high.watermark.checkpoint.interval.ms")
    replica_lag_time_max_ms = _Integer("replica.lag.time.max.ms")
    replication_quota_window_num = _Integer("replication.quota.window.num")
    replication_quota_window_size_seconds = _Integer("replication.quota.window.size.seconds")
    replica_socket_timeout_ms = _Integer("replica.socket.timeout.ms")
    replica_fetch_backoff_ms = _Integer("replica.fetch.backoff.ms")
    replica_fetch_max_bytes = _Integer("replica.fetch.max.bytes")
    replica_fetch_min_bytes = _Integer("replica.fetch.min.bytes")
    replica_fetch_response_max_bytes = _Integer("replica.fetch.response.max.bytes")
    replica_fetch_wait_max_ms = _Integer("replica.fetch.wait.max.ms")

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def rack(self) -> str | None:
        return self.find_str("broker.rack")

    @property
    def leader_replication_throttled_rate(self) -> int:
        """Bytes per second (KIP-73). Only ever set while the broker runs."""
        return self._dynamic_only("leader.replication.throttled.rate")

    @property
    def follower_replication_throttled_rate(self) -> int:
        return self._dynamic_only("follower.replication.throttled.rate")

    @property
    def replica_selector_class(self) -> str | None:
        return self.find_str("replica.selector.class")

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Every listener, the controllers' too; `endpoints` has them apart, and what is advertised."""
        return self.endpoints.listeners

    @property
    def metadata_log_dir(self) -> str:
        """The directory of the metadata log: `metadata.log.dir`, or the first log directory."""
        return self.find_str("metadata.log.dir") or self.log_dirs[0]

    @property
    def quorum_voters(self) -> dict[int, tuple[str, int]]:
        """Static voters as node id -> (host, port); empty where the quorum keeps its voters itself."""
        return parse_quorum_voters(self.get_list("controller.quorum.voters"))

    @property
    def quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        return tuple(map(parse_quorum_server, self.get_list("controller.quorum.bootstrap.servers")))

    @property
    def is_sole_voter(self) -> bool:
        """Whether the configuration knows of no controller but this node.

        Only then it may found a cluster by itself: one of several that did would found one of its own.
        """
        if self.quorum_voters:
            return self.is_controller and set(self.quorum_voters) == {self.node_id}
        return self.is_controller and all(map(self.endpoints.is_own_controller, self.quorum_bootstrap_servers))

    def get_int(self, name: str) -> int:
        """The value of an INT, SHORT or LONG key; asserts that it is set or has a default."""
        value = self.values[name]
        assert isinstance(value, int), f"{name} is no integer: {value!r}"
        return value

    def get_float(self, name: str) -> float:
        value = self.values[name]
        assert isinstance(value, float), f"{name} is no double: {value!r}"
        return value

    def get_bool(self, name: str) -> bool:
        value = self.values[name]
        assert isinstance(value, bool), f"{name} is no boolean: {value!r}"
        return value

    def get_str(self, name: str) -> str:
        value = self.values[name]
        assert isinstance(value, str), f"{name} is no string: {value!r}"
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert isinstance(value, tuple), f"{name} is no list: {value!r}"
        return value

    def find_int(self, name: str) -> int | None:
        """As `get_int`, for a key that may be null."""
        return None if self.values[name] is None else self.get_int(name)

    def find_str(self, name: str) -> str | None:
        return None if self.values[name] is None else self.get_str(name)

    def find_password(self, name: str) -> Password | None:
        value = self.values[name]
        assert value is None or isinstance(value, Password), f"{name} is no password"
        return value

    def _dynamic_only(self, name: str) -> int:
        value = self._dynamic_only_values[name]
        assert isinstance(value, int), f"{name} is no integer: {value!r}"
        return value

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> "KafkaConfig":
        """This configuration with what was set for all brokers, and for this one, while they run (KIP-226).

        A name or value that may not be set this way is left out, as Kafka leaves it out.
        Raises ConfigError when the rest is in conflict; the old configuration then stays in force.
        """
        return KafkaConfig(
            BrokerLayers(
                self.layers.static,
                {name: text for name, text in cluster.items() if self._may_be_set(name, text, per_broker=False)},
                {name: text for name, text in broker.items() if self._may_be_set(name, text, per_broker=True)},
            )
        )

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, ConfigValue | None]:
        """A topic's effective values by Kafka's names, given what it sets itself."""
        return topic_values(self.values, overrides)

    def describe_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """A topic's configuration for DescribeConfigs."""
        return describe_topic(self.layers, self.values, overrides)

    def describe_broker(self) -> list[ConfigEntry]:
        """This node's configuration for DescribeConfigs."""
        return describe_broker(self.layers, self.values)

    def describe_group(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """A group's configuration for DescribeConfigs, given what is set for it."""
        return describe_group(self.layers, self.values, overrides)

    def describe_cluster_default(self) -> list[ConfigEntry]:
        """What is set for all brokers, for DescribeConfigs of the broker without a name."""
        return describe_cluster_default(self.layers)

    def schema(self) -> ConfigSchema:
        """The rules for changes of configuration, with this node's values as the defaults of topics."""
        return ConfigSchema(self.values)

    def unknown(self) -> list[str]:
        """Names in the file that Kafka does not know: kept, described, and worth a warning."""
        return [name for name in self.layers.static if name not in BROKER_CONFIGS.keys and not _is_prefixed(name)]

    def ignored(self) -> list[str]:
        """Known names that are set to something else than their default, and that this node does not act upon.

        Those of DEVELOPMENT_DEFAULTS are in every file that Kafka ships and that `kraft cluster` writes: no news.
        """
        return [
            name
            for name in self.layers.static
            if name in BROKER_CONFIGS.keys
            and name not in HONOURED_BROKER_CONFIGS
            and name not in DEVELOPMENT_DEFAULTS
            and self.values[name] != BROKER_CONFIGS.keys[name].default
        ]

    def _may_be_set(self, name: str, text: str, *, per_broker: bool) -> bool:
        try:
            self.schema().validate_broker({name: text}, per_broker=per_broker)
        except ConfigError:
            return False
        return True


def read_config(properties: bytes | None = None, overrides: Sequence[str] = ()) -> KafkaConfig:
    """The configuration of a node from its properties file and its `--override key=value` arguments.

    `properties` is the file's content; without a file, DEVELOPMENT_DEFAULTS count. An override wins over both.
    Raises ConfigError.
    """
    texts = dict(DEVELOPMENT_DEFAULTS) if properties is None else _parse_file(properties)
    for override in overrides:
        name, _, text = override.partition("=")
        if not text:
            raise ConfigError(f"Missing value for key {name}")
        texts[name] = text
    if properties is None:
        _own_quorum(texts)
    return KafkaConfig(BrokerLayers(texts))


def _own_quorum(texts: dict[str, str]) -> None:
    """A development node is its own controller, wherever its controllers' listener is, unless told who else is."""
    names = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
    controllers = texts["controller.listener.names"].upper().split(",")
    if any(name in texts for name in names) or "controller" not in texts["process.roles"]:
        return
    addresses = (entry.strip().partition("://") for entry in texts["listeners"].split(","))
    own = [address for name, _, address in addresses if name.upper() in controllers]
    texts["controller.quorum.bootstrap.servers"] = ",".join(
        f"localhost{address}" if address.startswith(":") else address for address in own
    )


def _parse_file(properties: bytes) -> dict[str, str]:
    try:
        return parse_properties(properties)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    """`node.id` and `broker.id` are one thing; who sets one sets both."""
    texts = dict(static)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in texts:
            texts.setdefault(other, texts[name])
    return texts


def _process_roles(roles: tuple[str, ...]) -> frozenset[str]:
    if not roles:
        raise ConfigError("At least one role must be defined via process.roles.")
    if len(set(roles)) != len(roles):
        raise ConfigError(f"Duplicate role names found in `process.roles`: {', '.join(roles)}")
    return frozenset(roles)


def _log_dirs(log_dirs: str | None, log_dir: str) -> tuple[str, ...]:
    text = log_dir if log_dirs is None else log_dirs
    directories = tuple(filter(None, map(str.strip, text.split(","))))
    if not directories:
        raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")
    return directories


def _is_prefixed(name: str) -> bool:
    """Keys of listeners and of plugins: they have no definition, and are no mistake either."""
    return name.startswith(("listener.name.", "rsm.config.", "rlmm.config.", "config.providers"))
