"""Dynamic configs that cannot be applied leave the old values, name themselves, and never end the node."""

from collections.abc import Mapping

from broker.config import KafkaConfig, read_config
from broker.config.effective import EffectiveConfig
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import ConfigResourceType
from metadata.records import ConfigRecord
from tests.support.running_node import Traced

ALL_BROKERS, THIS_BROKER = (ConfigResourceType.BROKER, ""), (ConfigResourceType.BROKER, "1")


class Node:
    """The configuration of a node that follows the metadata."""

    def __init__(self, *overrides: str) -> None:
        self.traced = Traced()
        self.effective = EffectiveConfig(read_config(None, overrides), self.traced)
        self._image = MetadataImage()

    @property
    def config(self) -> KafkaConfig:
        return self.effective.config

    def change(self, resource: tuple[ConfigResourceType, str], configs: Mapping[str, str | None]) -> None:
        """Publish a change of one resource, as if a controller of another release had let it pass."""
        delta = MetadataDelta(self._image)
        kind, name = resource
        delta.replay(
            ConfigRecord(resource_type=kind, resource_name=name, name=config, value=value)
            for config, value in configs.items()
        )
        self._image = delta.apply(self._image.offset + 1)
        self.effective.publish(delta, self._image)

    def refused(self) -> list[tuple[object, object, object]]:
        """Resource, config and value of the events so far, which are forgotten."""
        events = self.traced.of("dynamic_config_refused")
        self.traced.events.clear()
        return [(each["resource"], each["config"], each["value"]) for each in events]

    def retention_of(self, topic: str) -> int:
        return self.effective.topic(topic, self._image.configs.topic(topic)).log.retention_ms


def test_invalid_value_at_the_start_leaves_the_default_and_the_others_are_applied() -> None:
    node = Node()
    invalid = {"max.connection.creation.rate": "0", "log.retention.ms": "soon", "num.partitions": "3"}
    node.change(ALL_BROKERS, {"max.connections": "7", **invalid})
    assert node.config.max_connections == 7
    assert node.config.max_connection_creation_rate == 2**31 - 1
    assert node.config.log_retention_ms is None
    assert sorted(node.refused()) == [
        ("broker default", "log.retention.ms", "soon"),
        ("broker default", "max.connection.creation.rate", "0"),
        ("broker default", "num.partitions", "3"),
    ]


def test_invalid_value_at_run_time_leaves_the_old_one_and_is_reported_once() -> None:
    node = Node()
    node.change(THIS_BROKER, {"max.connections": "7"})
    node.change(THIS_BROKER, {"max.connections": "0"})
    assert node.config.max_connections == 7
    assert node.refused() == [("broker 1", "max.connections", "0")]
    node.change(ALL_BROKERS, {"log.retention.ms": "5"})
    assert node.config.log_retention_ms == 5
    assert node.refused() == []
    node.change(THIS_BROKER, {"max.connections": None})
    assert node.config.max_connections == 2**31 - 1


def test_of_contradicting_values_the_one_that_can_be_applied_is() -> None:
    """The controller knows only its own file: another node's may contradict a change."""
    node = Node("log.cleaner.dedupe.buffer.size=3000000", "log.roll.hours=2")
    node.change(ALL_BROKERS, {"log.cleaner.threads": "5", "log.retention.ms": "9", "log.roll.ms": "0"})
    assert (node.config.log_cleaner_threads, node.config.log_retention_ms, node.config.log_roll_ms) == (1, 9, None)
    assert sorted(node.refused()) == [
        ("broker default", "log.cleaner.threads", "5"),
        ("broker default", "log.roll.ms", "0"),
    ]
    node.change(ALL_BROKERS, {"log.cleaner.dedupe.buffer.size": "30000000"})
    assert node.config.log_cleaner_threads == 5, "it is tried again with every change"


def test_changes_that_are_possible_only_together_are_applied_in_any_order() -> None:
    for first in ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size"):
        values = {"log.cleaner.threads": "200", "log.cleaner.dedupe.buffer.size": "300000000", "log.roll.ms": "0"}
        node = Node()
        node.change(ALL_BROKERS, {first: values[first], **values})
        assert node.config.log_cleaner_threads == 200
        assert node.refused() == [("broker default", "log.roll.ms", "0")]


def test_part_of_the_node_that_cannot_take_a_value_keeps_the_old_one() -> None:
    node = Node()
    taken: list[int] = []

    def take(config: KafkaConfig) -> None:
        taken.append(1 // (config.max_connections - 5))

    node.effective.add_listener(take)
    node.change(ALL_BROKERS, {"max.connections": "5", "log.retention.ms": "9"})
    assert node.config.log_retention_ms == 9
    assert node.config.max_connections == 2**31 - 1
    assert taken[-1] == 0
    assert node.refused() == [("broker default", "max.connections", "5")]


def test_topic_keeps_the_value_before_an_invalid_one_and_at_the_start_the_default() -> None:
    node = Node()
    topic = (ConfigResourceType.TOPIC, "t")
    node.change(topic, {"retention.ms": "5", "segment.bytes": "1"})
    assert node.retention_of("t") == 5
    assert node.refused() == [("topic t", "segment.bytes", "1")]
    node.change(topic, {"retention.ms": "-2"})
    node.change(topic, {"segment.ms": "7"})
    assert node.retention_of("t") == 5
    assert set(node.refused()) == {("topic t", "segment.bytes", "1"), ("topic t", "retention.ms", "-2")}
    node.change(topic, {"retention.ms": None, "segment.bytes": None})
    assert node.retention_of("t") == 7 * 24 * 3_600_000


def test_unknown_configs_of_topics_and_invalid_ones_of_groups_do_no_harm() -> None:
    node = Node()
    node.change((ConfigResourceType.TOPIC, "t"), {"of.another.release": "x"})
    node.change((ConfigResourceType.GROUP, "g"), {"consumer.session.timeout.ms": "never"})
    assert node.retention_of("t") == 7 * 24 * 3_600_000
    assert node.refused() == [("group g", "consumer.session.timeout.ms", "never")]


def test_secret_is_not_traced() -> None:
    node = Node()
    node.change(THIS_BROKER, {"ssl.keystore.password": "secret"})
    assert node.refused() == [("broker 1", "ssl.keystore.password", "[hidden]")]


def test_ignored_configs_are_as_if_they_were_not_set() -> None:
    node = Node("dynamic.configs.ignored=max.connections,log.retention.ms")
    node.change(ALL_BROKERS, {"max.connections": "1", "log.retention.bytes": "5"})
    node.change(THIS_BROKER, {"log.retention.ms": "1"})
    assert (node.config.max_connections, node.config.log_retention_bytes) == (2**31 - 1, 5)
    assert node.config.log_retention_ms is None
    assert node.traced.events == [
        ("dynamic_configs_ignored", {"resource": "broker default", "configs": "max.connections"}),
        ("dynamic_configs_ignored", {"resource": "broker 1", "configs": "log.retention.ms"}),
    ]


def test_all_dynamic_configs_can_be_ignored() -> None:
    node = Node("dynamic.configs.ignored=*")
    node.change(ALL_BROKERS, {"max.connections": "1", "log.retention.bytes": "5"})
    assert (node.config.max_connections, node.config.log_retention_bytes) == (2**31 - 1, -1)
