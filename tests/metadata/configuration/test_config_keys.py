"""Kafka 4.4's keys, compared with the output of its own definitions."""

import pytest

from metadata.configuration import (
    BROKER_CONFIGS,
    DYNAMIC_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    InvalidConfig,
    UpdateMode,
)
from metadata.configuration.definition import Required, java_text
from metadata.configuration.synonyms import TOPIC_SYNONYMS, broker_synonyms, broker_synonyms_with_base
from metadata.protocol import ConfigType
from tests.support import kafka_facts

LONG_MAX = 2**63 - 1


# Keys that are lists in Kafka since 4.2, and strings with commas here.
STRINGS_HERE = {
    "advertised.listeners",
    "controller.listener.names",
    "early.start.listeners",
    "listeners",
    "log.dir",
    "log.dirs",
}
# See `docs/compatibility.md`: members of an idle group learn of others within 5 s, and thousands of clients may wait to
# be accepted.
OTHER_DEFAULT_HERE = {
    "consumer.heartbeat.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "socket.listen.backlog.size",
}
# Keys that Kafka does not have, or does not define: its authorizer reads two by itself.
OWN_KEYS = {
    "broker": {
        "allow.everyone.if.no.acl.found",
        "dynamic.configs.ignored",
        "http.listener",
        "kraft.brokers",
        "log.scrub.enable",
        "log.scrub.interval.ms",
        "log.scrub.io.max.bytes.per.second",
        "request.log.client.ids",
        "request.log.slow.ms",
        "request.log.topics",
        "super.users",
    },
    "topic": set[str](),
    "group": set[str](),
}
KEYS = {"broker": BROKER_CONFIGS.keys, "topic": TOPIC_CONFIGS.keys, "group": GROUP_CONFIGS.keys}


def facts(scope: str) -> dict[str, dict[str, str]]:
    """Kafka's keys of a scope. Keys of streams groups are refused as unknown for groups."""
    rows = {row["name"]: row for row in kafka_facts.read("configs") if row["scope"] == scope}
    if scope == "group":
        return {name: row for name, row in rows.items() if name.startswith(("consumer.", "errors.", "share."))}
    return rows


def as_kafka_prints(default: object) -> str:
    match default:
        case None:
            return "null"
        case Required():
            return "REQUIRED"
        case tuple():
            return ",".join(default)
        case _:
            assert isinstance(default, (bool, int, float, str))
            return java_text(default)


@pytest.mark.parametrize("scope", KEYS)
def test_the_keys_are_those_of_kafka_4_4(scope: str) -> None:
    assert set(KEYS[scope]) == set(facts(scope)) | OWN_KEYS[scope]


@pytest.mark.parametrize("scope", KEYS)
def test_types_defaults_and_update_modes_are_those_of_kafka_4_4(scope: str) -> None:
    for name, row in facts(scope).items():
        key = KEYS[scope][name]
        assert (key.importance.name, str(key.internal).lower()) == (row["importance"], row["internal"]), name
        assert scope != "broker" or key.update_mode.value == row["update_mode"], name
        if name in STRINGS_HERE:
            assert key.type is ConfigType.STRING, name
            continue
        assert key.type.name == row["type"], name
        assert (as_kafka_prints(key.default) == row["default"]) == (name not in OTHER_DEFAULT_HERE), name


def test_lists_of_names_have_no_empty_elements() -> None:
    with pytest.raises(InvalidConfig, match=r"Configuration 'cordoned\.log\.dirs' values must not be empty\."):
        BROKER_CONFIGS.keys["cordoned.log.dirs"].parse("a,,b")
    assert BROKER_CONFIGS.keys["config.providers"].parse("") == ()


@pytest.mark.parametrize(
    ("name", "config_type", "default"),
    [
        ("segment.bytes", ConfigType.INT, 1 << 30),
        ("retention.ms", ConfigType.LONG, 604_800_000),
        ("flush.messages", ConfigType.LONG, LONG_MAX),
        ("max.message.bytes", ConfigType.INT, 1_048_588),
        ("cleanup.policy", ConfigType.LIST, ("delete",)),
        ("min.cleanable.dirty.ratio", ConfigType.DOUBLE, 0.5),
        ("compression.lz4.level", ConfigType.INT, 9),
        ("message.timestamp.after.max.ms", ConfigType.LONG, 3_600_000),
        ("local.retention.ms", ConfigType.LONG, -2),
        ("internal.segment.bytes", ConfigType.INT, None),
    ],
)
def test_topic_keys(name: str, config_type: ConfigType, default: object) -> None:
    key = TOPIC_CONFIGS.keys[name]
    assert (key.type, key.default) == (config_type, default)


@pytest.mark.parametrize(
    ("name", "default", "update_mode"),
    [
        ("num.partitions", 1, UpdateMode.READ_ONLY),
        ("log.retention.ms", None, UpdateMode.CLUSTER_WIDE),
        ("log.retention.hours", 168, UpdateMode.READ_ONLY),
        ("fetch.max.bytes", 57_671_680, UpdateMode.READ_ONLY),
        ("socket.request.max.bytes", 104_857_600, UpdateMode.READ_ONLY),
        ("replica.lag.time.max.ms", 30_000, UpdateMode.READ_ONLY),
        ("num.recovery.threads.per.data.dir", 2, UpdateMode.CLUSTER_WIDE),
        ("listeners", "PLAINTEXT://:9092", UpdateMode.PER_BROKER),
        ("offsets.topic.num.partitions", 50, UpdateMode.READ_ONLY),
        ("producer.id.expiration.ms", 86_400_000, UpdateMode.CLUSTER_WIDE),
        ("controller.quorum.append.linger.ms", 25, UpdateMode.READ_ONLY),
        ("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"), UpdateMode.READ_ONLY),
    ],
)
def test_broker_keys(name: str, default: object, update_mode: UpdateMode) -> None:
    key = BROKER_CONFIGS.keys[name]
    assert (key.default, key.update_mode) == (default, update_mode)


def test_every_synonym_is_a_key_of_the_same_kind_with_the_same_default() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        topic_key = TOPIC_CONFIGS.keys[name]
        in_force = next(synonym for synonym in synonyms if BROKER_CONFIGS.keys[synonym.name].default is not None)
        default = BROKER_CONFIGS.keys[in_force.name].default
        assert (default * in_force.factor if isinstance(default, int) else default) == topic_key.default, name
        assert synonyms[0].name in DYNAMIC_CONFIGS


def test_synonyms_are_listed_in_order_of_precedence() -> None:
    retention = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert broker_synonyms("log.retention.hours") == retention
    assert broker_synonyms("num.partitions") == ("num.partitions",)
    assert broker_synonyms("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)


def test_a_listeners_key_stands_before_the_one_it_overrides() -> None:
    name = "listener.name.internal.ssl.keystore.location"
    assert broker_synonyms_with_base(name) == (name, "ssl.keystore.location")
    mechanism = "listener.name.internal.scram-sha-256.sasl.jaas.config"
    assert broker_synonyms_with_base(mechanism) == (mechanism, "sasl.jaas.config")
    assert broker_synonyms(name) == (name,)
