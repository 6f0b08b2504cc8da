"""AlterConfigs and IncrementalAlterConfigs."""

from collections.abc import Sequence

import pytest

from metadata.controller import ConfigChange, ConfigOutcome, NewTopic
from metadata.image import ConfigResource
from metadata.protocol import ConfigOperation, ConfigResourceType
from tests.support.metadata import Cluster, refusal

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
GROUP = ConfigResource(ConfigResourceType.GROUP, "g")
CLIENT_METRICS = ConfigResource(ConfigResourceType.CLIENT_METRICS, "subscription")
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def with_topic() -> Cluster:
    cluster = Cluster()
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", configs={"retention.ms": "1000"})]))
    return cluster


def told(outcomes: Sequence[ConfigOutcome]) -> list[tuple[str, str] | None]:
    return [refusal(outcome.error) for outcome in outcomes]


def change(cluster: Cluster, resource: ConfigResource, *changes: ConfigChange) -> tuple[str, str] | None:
    (answer,) = told(cluster.decide(cluster.configs.incremental_alter(cluster.image, [(resource, changes)])))
    return answer


def replace(cluster: Cluster, resource: ConfigResource, **configs: str | None) -> tuple[str, str] | None:
    pairs = [(name.replace("_", "."), value) for name, value in configs.items()]
    (answer,) = told(cluster.decide(cluster.configs.alter(cluster.image, [(resource, pairs)])))
    return answer


def test_incremental_alter_keeps_other_configs() -> None:
    cluster = with_topic()
    assert change(cluster, TOPIC, ConfigChange("segment.ms", SET, "5000")) is None
    assert cluster.image.configs.topic("t") == {"retention.ms": "1000", "segment.ms": "5000"}
    assert change(cluster, TOPIC, ConfigChange("retention.ms", DELETE, None)) is None
    assert cluster.image.configs.topic("t") == {"segment.ms": "5000"}


def test_lists_grow_and_shrink_from_their_default() -> None:
    cluster = with_topic()
    assert change(cluster, TOPIC, ConfigChange("cleanup.policy", APPEND, "compact")) is None
    assert cluster.image.configs.topic("t")["cleanup.policy"] == "delete,compact"
    assert change(cluster, TOPIC, ConfigChange("cleanup.policy", SUBTRACT, "delete")) is None
    assert cluster.image.configs.topic("t")["cleanup.policy"] == "compact"


def test_append_is_refused_for_other_types_than_lists() -> None:
    cluster = with_topic()
    assert change(cluster, TOPIC, ConfigChange("segment.ms", APPEND, "1")) == (
        "INVALID_CONFIG",
        "Can't APPEND to key segment.ms because its type is not LIST.",
    )


def test_alter_configs_removes_configs_that_are_not_named() -> None:
    cluster = with_topic()
    assert replace(cluster, TOPIC, segment_ms="5000") is None
    assert cluster.image.configs.topic("t") == {"segment.ms": "5000"}
    assert replace(cluster, TOPIC) is None
    assert TOPIC not in cluster.image.configs.resources


def test_unchanged_config_has_no_record_except_for_brokers() -> None:
    cluster = with_topic()
    same = [(TOPIC, [ConfigChange("retention.ms", SET, "1000")])]
    assert not cluster.configs.incremental_alter(cluster.image, same).records
    setting = ConfigChange("log.cleaner.threads", SET, "2")
    assert change(cluster, BROKER, setting) is None
    assert len(cluster.configs.incremental_alter(cluster.image, [(BROKER, [setting])]).records) == 1


def test_brokers_have_configs_of_their_own_and_in_common() -> None:
    cluster = with_topic()
    assert change(cluster, BROKER, ConfigChange("log.cleaner.threads", SET, "2")) is None
    assert change(cluster, ALL_BROKERS, ConfigChange("log.cleaner.threads", SET, "2")) is None
    assert cluster.image.configs.broker(1) == {"log.cleaner.threads": "2"}
    assert cluster.image.configs.all_brokers() == {"min.insync.replicas": "1", "log.cleaner.threads": "2"}


def test_client_metrics_subscription_ends_with_its_last_config() -> None:
    """KIP-714: a subscription is whatever has configs."""
    cluster = with_topic()
    assert change(cluster, CLIENT_METRICS, ConfigChange("metrics", SET, "org.apache.kafka.producer.")) is None
    assert change(cluster, CLIENT_METRICS, ConfigChange("metrics", APPEND, "org.apache.kafka.consumer.")) is None
    assert cluster.image.configs.client_metrics("subscription") == {
        "metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer."
    }
    assert change(cluster, CLIENT_METRICS, ConfigChange("metrics", DELETE, None)) is None
    assert CLIENT_METRICS not in cluster.image.configs.resources


def test_group_configs_are_accepted_before_the_group_exists() -> None:
    cluster = with_topic()
    assert change(cluster, GROUP, ConfigChange("consumer.session.timeout.ms", SET, "50000")) is None
    assert change(cluster, GROUP, ConfigChange("consumer.heartbeat.interval.ms", SET, "6000")) is None
    assert cluster.image.configs.group("g") == {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
    }
    assert cluster.image.configs.topic("g") == {}
    assert replace(cluster, GROUP, consumer_heartbeat_interval_ms="7000") is None
    assert cluster.image.configs.group("g") == {"consumer.heartbeat.interval.ms": "7000"}
    assert change(cluster, GROUP, ConfigChange("consumer.heartbeat.interval.ms", DELETE, None)) is None
    assert GROUP not in cluster.image.configs.resources


@pytest.mark.parametrize(
    ("resource", "changes", "name", "message"),
    [
        (TOPIC, [ConfigChange("no.such", SET, "1")], "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (
            TOPIC,
            [ConfigChange(f"no.such-{number}", SET, "1") for number in range(1_001)],
            "INVALID_REQUEST",
            "A resource has 1000 configs at most.",
        ),
        (
            TOPIC,
            [ConfigChange("segment.ms", SET, "1"), ConfigChange("segment.ms", DELETE, None)],
            "INVALID_REQUEST",
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            [ConfigChange("segment.ms", SET, None)],
            "INVALID_REQUEST",
            "Null value not supported for : segment.ms",
        ),
        (
            ConfigResource(127, "a"),
            [ConfigChange(name, SET, None) for name in ("segment.ms", "no.such")],
            "INVALID_REQUEST",
            "Null value not supported for : segment.ms, no.such",
        ),
        (TOPIC, [ConfigChange("segment.ms", 9, "1")], "INVALID_REQUEST", "Unknown operations type 9"),
        (
            ConfigResource(ConfigResourceType.TOPIC, "none"),
            [ConfigChange("segment.ms", SET, "1")],
            "UNKNOWN_TOPIC_OR_PARTITION",
            "The topic 'none' does not exist.",
        ),
        (
            ConfigResource(ConfigResourceType.TOPIC, ""),
            [],
            "INVALID_REQUEST",
            "Default topic resources are not allowed.",
        ),
        (
            ConfigResource(ConfigResourceType.TOPIC, "a b"),
            [],
            "INVALID_TOPIC_EXCEPTION",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            ConfigResource(ConfigResourceType.GROUP, ""),
            [],
            "INVALID_REQUEST",
            "Default group resources are not allowed.",
        ),
        (GROUP, [ConfigChange("no.such", SET, "1")], "INVALID_CONFIG", "Unknown group config name: no.such"),
        (
            GROUP,
            [ConfigChange("consumer.session.timeout.ms", SET, "1")],
            "INVALID_CONFIG",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            [ConfigChange("consumer.session.timeout.ms", APPEND, "1")],
            "INVALID_CONFIG",
            "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST.",
        ),
        (
            ConfigResource(ConfigResourceType.CLIENT_METRICS, ""),
            [],
            "INVALID_REQUEST",
            "Subscription name can't be empty",
        ),
        (
            CLIENT_METRICS,
            [ConfigChange("no.such", SET, "1")],
            "INVALID_REQUEST",
            "Unknown client metrics configuration: no.such",
        ),
        (
            CLIENT_METRICS,
            [ConfigChange("interval.ms", SET, "1")],
            "INVALID_REQUEST",
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            [ConfigChange("match", SET, "name=x")],
            "INVALID_CONFIG",
            "Illegal client matching pattern: name=x",
        ),
        (ConfigResource(ConfigResourceType.BROKER_LOGGER, "1"), [], "INVALID_REQUEST", "Unknown resource type 8"),
        (ConfigResource(77, "x"), [], "INVALID_REQUEST", "Unknown resource type 77"),
        (
            ConfigResource(ConfigResourceType.BROKER, "x"),
            [],
            "INVALID_REQUEST",
            "Node id must be an integer, but it is: x",
        ),
        (
            ConfigResource(ConfigResourceType.BROKER, "x"),
            [ConfigChange("log.cleaner.threads", APPEND, "1")],
            "INVALID_REQUEST",
            "Node id must be an integer, but it is: x",
        ),
        (
            BROKER,
            [ConfigChange("no.such", APPEND, "1")],
            "INVALID_CONFIG",
            "Unknown config name: no.such",
        ),
        (
            ConfigResource(ConfigResourceType.BROKER, " 1"),
            [],
            "INVALID_REQUEST",
            "Node id must be an integer, but it is:  1",
        ),
        (
            ConfigResource(ConfigResourceType.BROKER, "2147483648"),
            [],
            "INVALID_REQUEST",
            "Node id must be an integer, but it is: 2147483648",
        ),
        (
            BROKER,
            [ConfigChange("log.cleaner.threads", APPEND, "1")],
            "INVALID_CONFIG",
            "Config value append is not allowed for config key: log.cleaner.threads",
        ),
        (
            BROKER,
            [ConfigChange("min.insync.replicas", SET, "2"), ConfigChange("log.dirs", SET, "/x")],
            "INVALID_REQUEST",
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (ConfigResource(ConfigResourceType.BROKER, "-1"), [], "INVALID_REQUEST", "Invalid negative broker ID."),
        (ConfigResource(ConfigResourceType.BROKER, "9"), [], "BROKER_ID_NOT_REGISTERED", "No node with id 9 found."),
        (
            BROKER,
            [ConfigChange("log.dirs", SET, "/x")],
            "INVALID_REQUEST",
            "Cannot update these configs dynamically: [log.dirs]",
        ),
    ],
)
def test_invalid_changes_are_refused(
    resource: ConfigResource, changes: list[ConfigChange], name: str, message: str
) -> None:
    cluster = with_topic()
    before = cluster.image
    assert change(cluster, resource, *changes) == (name, message)
    assert cluster.image.configs == before.configs


def test_a_replacement_needs_values() -> None:
    for resource in (TOPIC, ConfigResource(127, "a")):
        assert replace(with_topic(), resource, segment_ms=None, retention_ms=None) == (
            "INVALID_REQUEST",
            "Null value not supported for : segment.ms, retention.ms",
        )


def test_each_resource_succeeds_or_fails_for_itself_and_appears_once() -> None:
    cluster = with_topic()
    outcomes = cluster.decide(
        cluster.configs.incremental_alter(
            cluster.image,
            [
                (BROKER, [ConfigChange("log.cleaner.threads", SET, "2")]),
                (TOPIC, [ConfigChange("segment.ms", SET, "1")]),
                (ALL_BROKERS, [ConfigChange("log.cleaner.threads", SET, "2")]),
                (BROKER, []),
            ],
        )
    )
    once = ("INVALID_REQUEST", "Each resource must appear at most once.")
    assert told(outcomes) == [once, None, None, once]
    assert cluster.image.configs.broker(1) == {}
    assert cluster.image.configs.topic("t")["segment.ms"] == "1"
