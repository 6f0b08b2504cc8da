"""Configs through an Admin, on a running node."""

from pathlib import Path

import pytest

from broker.client import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    KafkaError,
    NewTopic,
)
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "orders")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
GROUP = ConfigResource(ConfigResourceType.GROUP, "readers")
NOWHERE = ConfigResource(ConfigResourceType.TOPIC, "nowhere")
NO_BROKER = ConfigResource(ConfigResourceType.BROKER, "77")


async def test_configs_of_topics_brokers_and_groups_are_changed_and_described(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        changed = await admin.incremental_alter_configs(
            {
                TOPIC: [
                    ConfigChange("retention.ms", "60000"),
                    ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND),
                ],
                BROKER: [ConfigChange("log.cleaner.threads", "2")],
                ALL_BROKERS: [ConfigChange("log.retention.ms", "120000")],
                GROUP: [ConfigChange("consumer.session.timeout.ms", "50000")],
            }
        )
        changed.raise_first()
        described = (await admin.describe_configs([TOPIC, BROKER, GROUP], include_synonyms=True)).raise_first()
        retention = described[TOPIC]["retention.ms"]
        assert (retention.value, retention.source, retention.type) == ("60000", ConfigSource.TOPIC, ConfigType.LONG)
        assert not retention.is_default
        assert [(each.name, each.value, each.source) for each in retention.synonyms[:2]] == [
            ("retention.ms", "60000", ConfigSource.TOPIC),
            ("log.retention.ms", "120000", ConfigSource.DEFAULT_BROKER),
        ]
        assert described[TOPIC]["cleanup.policy"].value == "delete,compact"
        assert described[TOPIC]["segment.bytes"].is_default
        assert described[BROKER]["log.cleaner.threads"].source == ConfigSource.BROKER
        assert described[GROUP]["consumer.session.timeout.ms"].source == ConfigSource.GROUP
        back = {TOPIC: [ConfigChange("retention.ms", None, ConfigOperation.DELETE)]}
        (await admin.incremental_alter_configs(back)).raise_first()
        of_topic = (await admin.describe_configs([TOPIC], names=["retention.ms"])).value(TOPIC)
        assert {name: entry.value for name, entry in of_topic.items()} == {"retention.ms": "120000"}


async def test_documentation_comes_if_asked(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        described = await admin.describe_configs([BROKER], names=["log.retention.ms"], include_documentation=True)
        assert described.value(BROKER)["log.retention.ms"].documentation
        described = await admin.describe_configs([BROKER], names=["log.retention.ms"])
        assert described.value(BROKER)["log.retention.ms"].documentation is None


async def test_resources_that_do_not_exist_and_changes_that_are_refused_are_errors_of_their_resource(
    tmp_path: Path,
) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        changed = await admin.incremental_alter_configs(
            {
                TOPIC: [ConfigChange("no.such.config", "1")],
                NOWHERE: [ConfigChange("retention.ms", "1")],
                GROUP: [ConfigChange("consumer.session.timeout.ms", "50000")],
            },
            validate_only=True,
        )
        codes = {item: error.code for item, error in changed.failed.items() if isinstance(error, KafkaError)}
        assert codes == {TOPIC: ErrorCode.INVALID_CONFIG, NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        described = await admin.describe_configs([TOPIC, NOWHERE, NO_BROKER])
        assert list(described.succeeded) == [TOPIC]
        absent = described[NO_BROKER]
        assert isinstance(absent, KafkaError)
        assert absent.code == ErrorCode.BROKER_NOT_AVAILABLE
        assert "broker 77 is not part of the cluster" in absent.message


def test_a_change_has_a_value_unless_it_deletes() -> None:
    with pytest.raises(ValueError, match="every other operation takes one"):
        ConfigChange("retention.ms", None)
    with pytest.raises(ValueError, match="DELETE takes no value"):
        ConfigChange("retention.ms", "1", ConfigOperation.DELETE)


async def test_resources_with_configs_are_listed_by_type(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        assert set(await admin.list_config_resources()) >= {TOPIC, BROKER}
        assert await admin.list_config_resources([ConfigResourceType.TOPIC]) == [TOPIC]
        assert await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == []
