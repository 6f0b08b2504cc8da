import pytest

from metadata.configuration import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigSchema,
    InvalidConfig,
    append_to_list,
    split_list,
    subtract_from_list,
)
from metadata.protocol import ConfigResourceType

NODE = {"node.id": "1", "process.roles": "broker"}


@pytest.fixture
def schema() -> ConfigSchema:
    return ConfigSchema(BROKER_CONFIGS.parse(NODE))


@pytest.fixture
def tiered_schema() -> ConfigSchema:
    return ConfigSchema(BROKER_CONFIGS.parse(NODE | {"remote.log.storage.system.enable": "true"}))


def test_valid_topic_configs_pass(schema: ConfigSchema) -> None:
    schema.validate_topic({"retention.ms": "-1", "cleanup.policy": "compact", "min.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"cleanup.policy": "compact,drop"},
            "Invalid value drop for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"cleanup.policy": "compact,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            {"leader.replication.throttled.replicas": "0:1,x"},
            "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_invalid_topic_configs_are_refused_with_kafkas_messages(
    schema: ConfigSchema, configs: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidConfig) as raised:
        schema.validate_topic(configs)
    assert raised.value.message == message


def test_a_topics_lag_is_compared_with_the_brokers() -> None:
    schema = ConfigSchema(BROKER_CONFIGS.parse(NODE | {"log.cleaner.max.compaction.lag.ms": "100"}))
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms \(101\) > max\.compaction\.lag\.ms \(100\)"):
        schema.validate_topic({"min.compaction.lag.ms": "101"})


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"cleanup.policy": "compact"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        ({"local.retention.ms": "-1"}, "Value must not be -1 as retention.ms value is set as 604800000."),
        (
            {"retention.bytes": "10", "local.retention.bytes": "11"},
            "Value must not be more than retention.bytes property value: 10",
        ),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "5"}, "must be set to the identical value"),
    ],
)
def test_tiered_topics_have_rules_of_their_own(
    tiered_schema: ConfigSchema, configs: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidConfig) as raised:
        tiered_schema.validate_topic(configs | {"remote.storage.enable": "true"})
    assert reason in raised.value.message
    tiered_schema.validate_topic({"remote.storage.enable": "true", "local.retention.ms": "5"})


def test_disabling_remote_storage_requires_a_choice_about_its_data(tiered_schema: ConfigSchema) -> None:
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfig, match="It is invalid to disable remote storage without deleting remote data"):
        tiered_schema.validate_topic({}, existing)
    tiered_schema.validate_topic({"remote.log.delete.on.disable": "true"}, existing)


def test_configs_that_may_change_on_one_broker_or_on_all(schema: ConfigSchema) -> None:
    schema.validate_broker({"log.retention.ms": "5", "leader.replication.throttled.rate": "7"}, per_broker=False)
    schema.validate_broker({"listener.name.a.ssl.keystore.location": "/k", "foo": "x"}, per_broker=True)
    schema.validate_broker({"listener.name.a.max.connections": "5"}, per_broker=False)


@pytest.mark.parametrize(
    ("configs", "per_broker", "message"),
    [
        ({"num.partitions": "3"}, True, "Cannot update these configs dynamically: [num.partitions]"),
        (
            {"ssl.keystore.location": "/k"},
            True,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        (
            {"log.cleaner.threads": "x"},
            False,
            "Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            {"listener.name.a.max.connections": "-1"},
            False,
            "Invalid value -1 for configuration max.connections: Value must be at least 0",
        ),
        (
            {"listener.name.a.ssl.keystore.location": "/k"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listener.name.a.ssl.keystore.location]",
        ),
    ],
)
def test_configs_that_may_not_change_on_a_broker(
    schema: ConfigSchema, configs: dict[str, str], per_broker: bool, message: str
) -> None:
    with pytest.raises(InvalidConfig) as raised:
        schema.validate_broker(configs, per_broker=per_broker)
    assert raised.value.message == message


def test_only_lists_can_be_appended_to(schema: ConfigSchema) -> None:
    assert schema.is_list(ConfigResourceType.TOPIC, "cleanup.policy")
    assert not schema.is_list(ConfigResourceType.TOPIC, "retention.ms")
    assert not schema.is_list(ConfigResourceType.TOPIC, "nope")
    assert not schema.is_list(ConfigResourceType.GROUP, "cleanup.policy")
    assert schema.default(ConfigResourceType.TOPIC, "cleanup.policy") == "delete"
    assert schema.default(ConfigResourceType.BROKER, "log.roll.ms") is None


def test_unknown_configs_are_sensitive(schema: ConfigSchema) -> None:
    assert schema.is_sensitive(ConfigResourceType.BROKER, "ssl.key.password")
    assert schema.is_sensitive(ConfigResourceType.BROKER, "nope")
    assert not schema.is_sensitive(ConfigResourceType.TOPIC, "retention.ms")


def test_element_that_a_list_has_several_times_counts_once() -> None:
    """KIP-1161."""
    assert TOPIC_CONFIGS.parse({"cleanup.policy": "delete, compact,delete"})["cleanup.policy"] == ("delete", "compact")
    throttled = "leader.replication.throttled.replicas"
    assert TOPIC_CONFIGS.parse({throttled: "0:1,0:1"})[throttled] == ("0:1", "0:1")


def test_lists_grow_and_shrink_by_elements() -> None:
    assert append_to_list("delete", "compact,delete") == "delete,compact"
    assert append_to_list(None, "a,b") == "a,b"
    assert append_to_list("", "a") == "a"
    assert append_to_list("a", "b,,") == "a,b"
    assert append_to_list("a", ",b") == "a,,b"
    assert append_to_list("a", ",,") == "a"
    assert append_to_list("a", "") == "a,"
    assert subtract_from_list("a,b,a,c", "a,x") == "b,a,c"
    assert subtract_from_list(None, "a") == ""
    assert split_list("a,,b") == ["a", "b"]


def test_valid_group_configs_pass(schema: ConfigSchema) -> None:
    schema.validate_group({})
    schema.validate_group({"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"})


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nope": "1"}, "Unknown group config name: nope"),
        ({"group.consumer.session.timeout.ms": "1"}, "Unknown group config name: group.consumer.session.timeout.ms"),
        (
            {"share.record.lock.duration.ms": "60001"},
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
        ),
        (
            {"share.auto.offset.reset": "by_duration:-PT1S"},
            "Invalid value by_duration:-PT1S for configuration share.auto.offset.reset: Invalid value "
            "`by_duration:-PT1S` for configuration share.auto.offset.reset. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
        ({"streams.num.standby.replicas": "1"}, "Unknown group config name: streams.num.standby.replicas"),
        (
            {"consumer.session.timeout.ms": "soon"},
            "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            {"consumer.heartbeat.interval.ms": "0"},
            "Invalid value 0 for configuration consumer.heartbeat.interval.ms: Value must be at least 1",
        ),
        (
            {"consumer.session.timeout.ms": "44999"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "3999"},
            "consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "15001"},
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
    ],
)
def test_invalid_group_configs_are_refused(schema: ConfigSchema, configs: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        schema.validate_group(configs)
    assert caught.value.message == message


def test_group_configs_are_checked_together_with_the_brokers_values() -> None:
    bounds = {"group.consumer.min.session.timeout.ms": "4000", "group.consumer.max.heartbeat.interval.ms": "50000"}
    schema = ConfigSchema(BROKER_CONFIGS.parse(NODE | bounds))
    schema.validate_group({"consumer.session.timeout.ms": "5000"})
    for configs in ({"consumer.session.timeout.ms": "4000"}, {"consumer.heartbeat.interval.ms": "45000"}):
        with pytest.raises(InvalidConfig) as caught:
            schema.validate_group(configs)
        assert caught.value.message == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
