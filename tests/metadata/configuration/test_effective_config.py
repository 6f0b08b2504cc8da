import pytest

from metadata.configuration import (
    BROKER_CONFIGS,
    BrokerLayers,
    ConfigEntry,
    InvalidConfig,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_defaults,
    topic_values,
)
from metadata.protocol import ConfigSource, ConfigType

NODE = {"node.id": "1", "process.roles": "broker"}


def topic_entry(layers: BrokerLayers, name: str, **overrides: str) -> ConfigEntry:
    broker = BROKER_CONFIGS.parse(layers.merged())
    renamed = {key.replace("_", "."): text for key, text in overrides.items()}
    return next(entry for entry in describe_topic(layers, broker, renamed) if entry.name == name)


def broker_entry(layers: BrokerLayers, name: str) -> ConfigEntry:
    broker = BROKER_CONFIGS.parse(layers.merged())
    return next(entry for entry in describe_broker(layers, broker) if entry.name == name)


def synonyms(entry: ConfigEntry) -> list[tuple[str, str | None, str]]:
    return [(synonym.name, synonym.value, synonym.source.name) for synonym in entry.synonyms]


@pytest.mark.parametrize(
    ("set_in_file", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
    ],
)
def test_a_topics_retention_comes_from_the_finest_unit_that_is_set(
    set_in_file: dict[str, str], retention_ms: int
) -> None:
    assert topic_defaults(BROKER_CONFIGS.parse(NODE | set_in_file))["retention.ms"] == retention_ms


def test_a_topics_flush_interval_falls_back_to_the_scheduler() -> None:
    broker = BROKER_CONFIGS.parse(NODE | {"log.flush.scheduler.interval.ms": "3000"})
    assert topic_defaults(broker)["flush.ms"] == 3000
    broker = BROKER_CONFIGS.parse(NODE | {"log.flush.scheduler.interval.ms": "3000", "log.flush.interval.ms": "9"})
    assert topic_defaults(broker)["flush.ms"] == 9


def test_a_topics_own_values_win_and_are_checked() -> None:
    broker = BROKER_CONFIGS.parse(NODE | {"log.segment.bytes": "2097152"})
    assert topic_values(broker, {"cleanup.policy": "compact, delete"})["cleanup.policy"] == ("compact", "delete")
    assert topic_values(broker, {})["segment.bytes"] == 2_097_152
    with pytest.raises(InvalidConfig, match="Value must be at least 1048576"):
        topic_values(broker, {"segment.bytes": "14"})


def test_a_value_set_for_this_broker_hides_the_cluster_and_the_file() -> None:
    layers = BrokerLayers(
        NODE | {"log.retention.bytes": "1"}, cluster={"log.retention.bytes": "2"}, broker={"log.retention.bytes": "3"}
    )
    entry = topic_entry(layers, "retention.bytes", retention_bytes="4")
    assert (entry.value, entry.source, entry.type) == ("4", ConfigSource.TOPIC, ConfigType.LONG)
    assert synonyms(entry) == [
        ("retention.bytes", "4", "TOPIC"),
        ("log.retention.bytes", "3", "BROKER"),
        ("log.retention.bytes", "2", "DEFAULT_BROKER"),
        ("log.retention.bytes", "1", "STATIC_BROKER"),
        ("log.retention.bytes", "-1", "DEFAULT"),
    ]
    assert topic_entry(layers, "retention.bytes").value == "3"
    assert topic_entry(layers, "retention.bytes").source is ConfigSource.BROKER


def test_a_dynamic_value_hides_coarser_units_of_the_file() -> None:
    layers = BrokerLayers(NODE | {"log.retention.minutes": "5"}, cluster={"log.retention.ms": "100"})
    assert "log.retention.minutes" not in layers.merged()
    assert topic_entry(layers, "retention.ms").value == "100"
    assert synonyms(topic_entry(layers, "retention.ms")) == [
        ("log.retention.ms", "100", "DEFAULT_BROKER"),
        ("log.retention.minutes", "5", "STATIC_BROKER"),
        ("log.retention.hours", "168", "DEFAULT"),
    ]


def test_hours_alone_decide_a_topics_value_without_being_listed() -> None:
    """As in Kafka, whose list begins at the name of the finest unit, which is not set."""
    entry = topic_entry(BrokerLayers(NODE | {"log.retention.hours": "1"}), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT, ())


def test_internal_keys_are_described_only_where_they_are_set() -> None:
    layers = BrokerLayers(NODE)
    broker = BROKER_CONFIGS.parse(layers.merged())
    assert "internal.segment.bytes" not in {entry.name for entry in describe_topic(layers, broker, {})}
    assert topic_entry(layers, "internal.segment.bytes", internal_segment_bytes="100").value == "100"


def test_a_brokers_values_say_whether_they_can_change() -> None:
    layers = BrokerLayers(NODE | {"num.partitions": "3", "log.cleaner.threads": "2"})
    partitions, threads = broker_entry(layers, "num.partitions"), broker_entry(layers, "log.cleaner.threads")
    assert (partitions.value, partitions.read_only, partitions.source) == ("3", True, ConfigSource.STATIC_BROKER)
    assert (threads.value, threads.read_only) == ("2", False)
    assert broker_entry(layers, "log.roll.ms").value is None
    dynamic = BrokerLayers(NODE, {}, {"leader.replication.throttled.rate": "1000"})
    assert not broker_entry(dynamic, "leader.replication.throttled.rate").read_only
    assert partitions.documentation == BROKER_CONFIGS.keys["num.partitions"].doc


def test_lists_of_listeners_and_directories_are_described_as_lists() -> None:
    layers = BrokerLayers(NODE)
    names = ("listeners", "advertised.listeners", "controller.listener.names", "early.start.listeners")
    for name in (*names, "log.dir", "log.dirs"):
        assert broker_entry(layers, name).type is ConfigType.LIST


def test_secrets_and_unknown_names_are_never_shown() -> None:
    layers = BrokerLayers(
        NODE | {"ssl.keystore.password": "x", "foo.bar": "y", "listener.name.a.plain.sasl.jaas.config": "z"},
    )
    for name in ("ssl.keystore.password", "foo.bar", "listener.name.a.plain.sasl.jaas.config"):
        entry = broker_entry(layers, name)
        assert (entry.value, entry.is_sensitive) == (None, True), name
        assert {synonym.value for synonym in entry.synonyms} == {None}, name


def test_the_clusters_defaults_are_described_alone() -> None:
    layers = BrokerLayers(NODE | {"log.retention.ms": "1"}, cluster={"log.retention.ms": "2"}, broker={"x": "3"})
    (entry,) = describe_cluster_default(layers.cluster)
    assert (entry.name, entry.value, entry.source) == (
        "log.retention.ms",
        "2",
        ConfigSource.DEFAULT_BROKER,
    )
    assert synonyms(entry) == [("log.retention.ms", "2", "DEFAULT_BROKER")]


def test_a_groups_value_comes_from_the_group_then_the_file_then_the_default() -> None:
    layers = BrokerLayers(NODE | {"group.consumer.session.timeout.ms": "50000"})
    broker = BROKER_CONFIGS.parse(layers.merged())
    session, heartbeat, *_ = describe_group(layers, broker, {})
    assert (session.name, session.value) == ("consumer.session.timeout.ms", "50000")
    assert session.source is ConfigSource.STATIC_BROKER
    assert synonyms(session) == [
        ("group.consumer.session.timeout.ms", "50000", "STATIC_BROKER"),
        ("group.consumer.session.timeout.ms", "45000", "DEFAULT"),
    ]
    assert (heartbeat.name, heartbeat.value) == ("consumer.heartbeat.interval.ms", "4000")
    assert heartbeat.source is ConfigSource.DEFAULT
    session, heartbeat, *_ = describe_group(layers, broker, {"consumer.session.timeout.ms": " 55000"})
    assert (session.value, session.source, session.type) == ("55000", ConfigSource.GROUP, ConfigType.INT)
    assert synonyms(session)[0] == ("consumer.session.timeout.ms", "55000", "GROUP")
    assert (session.read_only, session.is_sensitive) == (False, False)
    assert session.documentation
    assert heartbeat.source is ConfigSource.DEFAULT
