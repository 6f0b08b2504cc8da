"""Reads the configuration of a node: `server.properties`, as Kafka reads it, with overrides from the command line."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker.config.checks import OF_ONE_FILE, check_directories, check_identity, check_values, read_address_limits
from broker.config.endpoints import Endpoints, read_endpoints
from broker.config.properties import parse_properties
from metadata.configuration import (
    BROKER_CONFIGS,
    DYNAMIC_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    BrokerConfigs,
    BrokerLayers,
    ConfigEntry,
    ConfigSchema,
    DynamicOnlyConfigs,
    InvalidConfig,
    TopicConfigs,
    describe_broker,
    describe_group,
    describe_topic,
    topic_values,
)
from metadata.configuration.quorum_addresses import parse_quorum_server, parse_quorum_voters
from metadata.configuration.schema import check_local_retention
from metadata.protocol import QuotaKey

# The configuration of a node that is started without a file: one combined node, reachable from this machine only. The
# values are those of the properties file that Kafka ships, apart from the directory and the loopback address. The
# node is its own controller unless controllers are set (see `_set_own_quorum`).
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


class KafkaConfig(BrokerConfigs):
    """The values in force on a node, checked and immutable. Every key is an attribute, with "_" in place of ".".

    `layers` are the texts that were set. `values` are the resulting values of all keys, by Kafka's names.
    `dynamic_only` are the keys that can be set only while a broker runs. A dynamic change makes a new KafkaConfig
    (see `with_dynamic`). Raises InvalidConfig when a value is invalid, missing, or in conflict with another.
    """

    def __init__(self, layers: BrokerLayers) -> None:
        static = _with_node_id(layers.static)
        self.layers: Final = BrokerLayers(static, layers.cluster, layers.broker)
        merged = self.layers.merged()
        super().__init__(BROKER_CONFIGS.parse(merged))
        self.dynamic_only: Final = DynamicOnlyConfigs(DYNAMIC_ONLY_CONFIGS.parse({**layers.cluster, **layers.broker}))
        check_identity(self)
        self.endpoints: Final[Endpoints] = read_endpoints(self, merged)
        self.log_directories: Final = _log_directories(self)
        check_values(self, self.endpoints)
        check_directories(self, self.log_directories)
        self.connections_per_ip_overrides: Final = read_address_limits(self.max_connections_per_ip_overrides)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def metadata_directory(self) -> str:
        """The directory of the metadata log: `metadata.log.dir`, or the first log directory."""
        return self.metadata_log_dir or self.log_directories[0]

    @property
    def quorum_voters(self) -> dict[int, tuple[str, int]]:
        """Static voters as node id -> (host, port); empty if the quorum stores its voters in the metadata log."""
        return parse_quorum_voters(self.controller_quorum_voters)

    @property
    def quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        return tuple(map(parse_quorum_server, self.controller_quorum_bootstrap_servers))

    @property
    def is_sole_voter(self) -> bool:
        """True if the configuration names no controller except this node.

        Only such a node may create a cluster by itself. If one of several controllers did, it would create a second
        cluster beside the one of the others.
        """
        if self.quorum_voters:
            return self.is_controller and set(self.quorum_voters) == {self.node_id}
        return self.is_controller and all(map(self.endpoints.is_own_controller, self.quorum_bootstrap_servers))

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> "KafkaConfig":
        """This configuration with the dynamic configs of all brokers and of this broker (KIP-226).

        Raises InvalidConfig when a value is invalid, or in conflict with others or with this node's file.
        """
        return KafkaConfig(BrokerLayers(self.layers.static, cluster, broker))

    def _check_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """Raises InvalidConfig for dynamic configs in conflict. `broker` are those of any broker, whose file may have
        other listeners and directories than this one.
        """
        config = self.with_dynamic(cluster, {name: text for name, text in broker.items() if name not in OF_ONE_FILE})
        check_local_retention(config.topic({}))

    def topic(self, overrides: Mapping[str, str]) -> TopicConfigs:
        """The values in force for a topic that sets `overrides`. Raises InvalidConfig about an invalid value."""
        return TopicConfigs(topic_values(self.values, overrides))

    def describe_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The configuration of a topic that sets `overrides`, for DescribeConfigs."""
        return describe_topic(self.layers, self.values, overrides)

    def describe_broker(self) -> list[ConfigEntry]:
        """This node's configuration for DescribeConfigs."""
        return describe_broker(self.layers, self.values)

    def describe_group(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The configuration of a group that sets `overrides`, for DescribeConfigs."""
        return describe_group(self.layers, self.values, overrides)

    def schema(self) -> ConfigSchema:
        """The rules for changes of configuration, with this node's values as the defaults of topics."""
        return ConfigSchema(self.values, self._check_dynamic)

    def unknown(self) -> list[str]:
        """Names in the file that Kafka does not know. They are kept and described, and a start warns about them."""
        return [name for name in self.layers.static if name not in BROKER_CONFIGS.keys and not _is_prefixed(name)]

    def unknown_ignored(self) -> list[str]:
        """Names in `dynamic.configs.ignored` of neither a dynamic config nor a quota, such as misspelt ones."""
        known = {"*", *DYNAMIC_CONFIGS, *DYNAMIC_ONLY_CONFIGS.keys, *QuotaKey}
        return [name for name in self.dynamic_configs_ignored if name not in known and not _is_prefixed(name)]

    def ignored(self) -> list[str]:
        """Keys in the file without an effect, whose values differ from the default.

        The keys of DEVELOPMENT_DEFAULTS are left out: every file that Kafka ships or `kraft cluster` writes has them.
        """
        return [
            name
            for name in self.layers.static
            if (key := BROKER_CONFIGS.keys.get(name)) is not None
            and not key.takes_effect
            and name not in DEVELOPMENT_DEFAULTS
            and self.values[name] != key.default
        ]


def read_config(properties: bytes | None = None, overrides: Sequence[str] = ()) -> KafkaConfig:
    """The configuration of a node from its properties file and its `--override key=value` arguments.

    `properties` is the content of the file. Without a file, DEVELOPMENT_DEFAULTS apply. Overrides win over both.
    Raises InvalidConfig.
    """
    texts = dict(DEVELOPMENT_DEFAULTS) if properties is None else _parse_file(properties)
    for override in overrides:
        name, _, text = override.partition("=")
        if not text:
            raise InvalidConfig(f"Missing value for key {name}")
        texts[name] = text
    if properties is None:
        _set_own_quorum(texts)
    return KafkaConfig(BrokerLayers(texts))


def _set_own_quorum(texts: dict[str, str]) -> None:
    """Make a development node its own controller, at its controller listener, unless controllers are set."""
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
        raise InvalidConfig(str(error)) from error


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    """Copy `node.id` to `broker.id`, or the reverse, if only one of them is set: they are names of the same value."""
    texts = dict(static)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in texts:
            texts.setdefault(other, texts[name])
    return texts


def _log_directories(config: BrokerConfigs) -> tuple[str, ...]:
    text = config.log_dir if config.log_dirs is None else config.log_dirs
    directories = tuple(filter(None, map(str.strip, text.split(","))))
    if not directories:
        raise InvalidConfig("At least one log directory must be defined via log.dirs or log.dir.")
    return directories


def _is_prefixed(name: str) -> bool:
    """True for keys of listeners and plugins, which are valid although they have no definition."""
    return name.startswith(("listener.name.", "rsm.config.", "rlmm.config.", "config.providers"))
