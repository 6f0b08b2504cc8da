import pytest

from broker.config import DEVELOPMENT_DEFAULTS, KafkaConfig, read_config
from broker.storage.log_config import LogConfig
from metadata.configuration import BROKER_CONFIGS, TOPIC_CONFIGS, InvalidConfig

# The keys that Kafka's own config/server.properties sets.
SHIPPED = b"""
############################# Server Basics #############################
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093

############################# Socket Server Settings #############################
#     listeners = listener_name://host_name:port
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

############################# Log Basics #############################
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def development(*overrides: str) -> KafkaConfig:
    return read_config(overrides=overrides)


def test_node_without_a_file_serves_this_machine() -> None:
    config = development()
    assert (config.node_id, config.process_roles) == (1, ("broker", "controller"))
    assert {listener.host for listener in config.endpoints.listeners} == {"localhost"}
    assert [listener.port for listener in config.endpoints.listeners] == [9092, 9093]
    assert (config.log_directories, config.metadata_directory) == (("./data",), "./data")
    assert config.offsets_topic_replication_factor == 1
    assert config.quorum_bootstrap_servers == (("localhost", 9093),)
    assert (config.unknown(), config.ignored()) == ([], [])


def test_kafkas_own_file_is_read_unchanged() -> None:
    config = read_config(SHIPPED)
    assert config.log_directories == ("/tmp/kraft-combined-logs",)
    assert [listener.host for listener in config.endpoints.advertised] == ["localhost", "localhost"]
    assert config.num_recovery_threads_per_data_dir == 1
    assert config.auto_create_topics_enable
    assert config.unknown() == []


def test_file_replaces_the_development_defaults() -> None:
    config = read_config(
        b"process.roles=controller\nnode.id=3\ncontroller.quorum.voters=3@localhost:9093\n"
        b"controller.listener.names=C\nlisteners=C://:9093"
    )
    assert config.log_directories == ("/tmp/kafka-logs",)
    assert config.offsets_topic_replication_factor == 3
    assert config.quorum_voters == {3: ("localhost", 9093)}
    assert (config.is_broker, config.is_controller) == (False, True)


def test_override_wins_over_the_file() -> None:
    config = read_config(SHIPPED, ["num.partitions=6", "num.partitions=7", "log.dirs=/a, /b", "foo=a=b"])
    assert config.num_partitions == 7
    assert config.log_directories == ("/a", "/b")
    assert config.layers.static["foo"] == "a=b"


@pytest.mark.parametrize("override", ["num.partitions", "num.partitions="])
def test_override_without_a_value_is_refused(override: str) -> None:
    with pytest.raises(InvalidConfig, match=r"Missing value for key num\.partitions"):
        development(override)


def test_broker_id_and_node_id_are_the_same_value() -> None:
    assert development().broker_id == 1
    with pytest.raises(InvalidConfig, match=r"You must set `node\.id` to the same value as `broker\.id`"):
        development("broker.id=2")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (b"node.id=1", 'Missing required configuration "process.roles" which has no default value.'),
        (b"process.roles=broker", 'Missing required configuration "node.id" which has no default value.'),
        (
            b"process.roles=queen\nnode.id=1",
            "Invalid value queen for configuration process.roles: String must be one of: broker, controller",
        ),
        (b"process.roles=broker,broker\nnode.id=1", "Duplicate role names found in `process.roles`: broker, broker"),
        (b"a=\\u1", "Malformed \\uxxxx encoding."),
    ],
)
def test_invalid_files_are_refused(properties: bytes, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        read_config(properties)
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("log.roll.ms=0", "log.roll.ms must be greater than or equal to 1"),
        ("log.retention.hours=0", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("log.dirs=,", "Configuration 'log.dirs' values must not be empty."),
        ("log.cleaner.threads=128", "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."),
        (
            "replica.fetch.wait.max.ms=30001",
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary "
            "socket timeouts",
        ),
        (
            "replica.lag.time.max.ms=499",
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR",
        ),
        (
            "controller.quorum.voters=2@localhost:9093",
            "If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters "
            "controller.quorum.voters=Set(2)",
        ),
        (
            "controller.quorum.voters=localhost:9093",
            "Invalid configuration value for controller.quorum.voters. Each entry should be in the form "
            "`{id}@{host}:{port}`.",
        ),
        (
            "controller.quorum.bootstrap.servers=localhost",
            "Failed to parse host name from localhost for the configuration controller.quorum.bootstrap.servers. Each "
            'entry should be in the form "{host}:{port}"',
        ),
        (
            "queued.max.request.bytes=1",
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            "max.connections.per.ip=0",
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            "connections.max.idle.ms=100",
            "connection.failed.authentication.delay.ms=100 should always be less than connections.max.idle.ms=100 to "
            "prevent failed authentication responses from timing out",
        ),
        (
            "group.consumer.session.timeout.ms=44999",
            "group.consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        ("offsets.topic.compression.codec=5", "Unknown compression type id: 5"),
    ],
)
def test_conflicting_values_are_refused_with_kafkas_messages(override: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        development(override)
    assert raised.value.message == message


def test_dynamic_values_override_the_file() -> None:
    static = development("num.partitions=2", "log.retention.hours=5")
    config = static.with_dynamic(
        {"log.retention.ms": "9"},
        {"log.retention.bytes": "7"},
    )
    assert config.num_partitions == 2
    assert config.topic({}).retention_ms == 9
    assert config.topic({}).retention_bytes == 7
    assert config.layers.cluster == {"log.retention.ms": "9"}
    assert config.with_dynamic({}, {}).topic({}).retention_ms == 5 * 3_600_000


def test_conflicting_dynamic_value_is_refused_and_keeps_the_configuration() -> None:
    config = development()
    with pytest.raises(InvalidConfig, match=r"log\.roll\.ms must be greater"):
        config.with_dynamic({"log.roll.ms": "0"}, {})
    assert config.topic({}).segment_ms == 604_800_000


def test_unknown_and_ignored_names_are_distinguished() -> None:
    config = development(
        "foo.bar=1", "num.io.threads=9", "num.network.threads=3", "listener.name.a.ssl.key.password=x", "node.id=1"
    )
    assert config.unknown() == ["foo.bar"]
    # Three network threads are Kafka's default, so the value has no effect to lose.
    assert config.ignored() == ["num.io.threads"]


def test_misspelt_names_of_ignored_configs_are_found() -> None:
    config = development("dynamic.configs.ignored=log.retention.ms,log.retention.m,producer_byte_rate,broker.id,*")
    assert config.unknown_ignored() == ["log.retention.m", "broker.id"]


def test_limit_of_an_address_may_be_any_int() -> None:
    limits = development("max.connections.per.ip.overrides=127.0.0.1:2147483647").connections_per_ip_overrides
    assert limits == {"127.0.0.1": 2**31 - 1}
    for count in ("2147483648", "-1", "\u0661", "1_0"):
        with pytest.raises(InvalidConfig, match="is not of the form host:count"):
            development(f"max.connections.per.ip.overrides=127.0.0.1:{count}")


def test_http_listener_has_no_protocol() -> None:
    with pytest.raises(InvalidConfig, match=r"http\.listener has to be host:port, not HTTP://127\.0\.0\.1:1"):
        development("http.listener=HTTP://127.0.0.1:1")


def test_secrets_are_hidden() -> None:
    config = development("ssl.key.password=hush")
    password = config.ssl_key_password
    assert password is not None
    assert password.value == "hush"
    assert "hush" not in repr(config.values)


def test_broker_keys_of_an_effective_topic_key_take_effect() -> None:
    for key in TOPIC_CONFIGS.keys.values():
        for synonym in key.synonyms:
            assert BROKER_CONFIGS.keys[synonym.name].takes_effect == key.takes_effect, synonym.name


def test_development_defaults_are_known_names() -> None:
    assert DEVELOPMENT_DEFAULTS.keys() <= BROKER_CONFIGS.keys.keys()


def test_attribute_of_a_key_is_its_value() -> None:
    config = development()
    for name, value in config.values.items():
        assert getattr(config, name.replace(".", "_")) == value
    for name, value in config.dynamic_only.values.items():
        assert getattr(config.dynamic_only, name.replace(".", "_")) == value
    assert type(config.auto_create_topics_enable) is bool
    assert type(config.fetch_max_bytes) is int


def test_log_config_is_made_of_topic_values() -> None:
    assert LogConfig.of(development().topic({})) == LogConfig()
    config = development("log.roll.hours=2", "message.max.bytes=10")
    log_config = LogConfig.of(config.topic({"cleanup.policy": "compact,delete"}))
    assert (log_config.segment_ms, log_config.max_message_bytes) == (7_200_000, 10)
    assert log_config.cleanup_policy == ("compact", "delete")


@pytest.mark.parametrize(
    ("overrides", "is_sole_voter"),
    [
        ([], True),
        (["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"], True),
        (["listeners=PLAINTEXT://:9092,CONTROLLER://:19093"], True),
        (["controller.quorum.voters=1@localhost:9093"], True),
        (["controller.quorum.voters=1@localhost:9093,2@localhost:9095"], False),
        (["controller.quorum.bootstrap.servers=127.0.0.1:9093"], True),
        (["controller.quorum.bootstrap.servers=localhost:9095"], False),
        (["controller.quorum.bootstrap.servers=localhost:9093,localhost:9095"], False),
        (["controller.quorum.bootstrap.servers=elsewhere:9093"], False),
    ],
)
def test_sole_voter_may_create_a_cluster(overrides: list[str], is_sole_voter: bool) -> None:
    assert development(*overrides).is_sole_voter is is_sole_voter


def test_listener_on_every_interface_does_not_match_other_host_names() -> None:
    assert read_config(SHIPPED).is_sole_voter
    assert read_config(SHIPPED, ["advertised.listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093"]).is_sole_voter
    assert not read_config(SHIPPED, ["controller.quorum.bootstrap.servers=a:9093"]).is_sole_voter


def test_broker_without_controller_role_is_not_a_sole_voter() -> None:
    assert not development(
        "process.roles=broker", "listeners=PLAINTEXT://:0", "controller.quorum.voters=2@b:1"
    ).is_sole_voter
