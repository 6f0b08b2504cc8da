"""A key's definition says whether the key takes effect; this compares it with the modules that read the keys."""

import ast
from collections.abc import Iterable
from typing import Any

from metadata.configuration import BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS, TOPIC_CONFIGS, ConfigKey
from tests.support.source_code import Module, is_within, read_modules

# The packages of a running node. Their modules read a key as an attribute: `config.log_roll_ms`,
# `TopicConfigs.flush_ms`.
OF_A_NODE = (
    "broker.config",
    "broker.controller_client",
    "broker.coordinator",
    "broker.handlers",
    "broker.node",
    "broker.replication",
    "broker.security",
    "broker.server",
    "broker.share_partitions",
    "broker.storage",
    "metadata.controller",
)
# Validates all keys, with and without effect.
VALIDATION = ("broker.config.checks", "broker.config.endpoints", "broker.config.host_brokers")
# The bounds of a group's configs, whose names `metadata.configuration.group` derives.
READ_BY_NAME = {
    f"group.{protocol}.{bound}.{key}"
    for protocol in ("consumer", "share")
    for bound in ("min", "max")
    for key in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
} | {
    f"group.share.{bound}.{key}"
    for bound in ("min", "max")
    for key in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
}

# They read the configs of a listener by their names.
BY_LISTENER = ("broker.security.tls.settings", "broker.node.tls_contexts")


def read_by_listener() -> set[object]:
    trees = (each.tree for name, each in read_modules().items() if name in BY_LISTENER)
    return {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def attributes(modules: Iterable[Module]) -> set[str]:
    return {node.attr for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}


def modules_of_a_node() -> list[Module]:
    return [each for each in read_modules().values() if any(is_within(each.name, package) for package in OF_A_NODE)]


def attribute(key: ConfigKey[Any]) -> str:
    return key.name.replace(".", "_")


def test_key_with_effect_is_read() -> None:
    read = attributes(modules_of_a_node())
    by_name = READ_BY_NAME | read_by_listener()
    defaults = {synonym.name for key in TOPIC_CONFIGS.keys.values() for synonym in key.synonyms}
    for definition in (BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS, TOPIC_CONFIGS):
        for key in definition.keys.values():
            if key.takes_effect and key.name not in defaults | by_name:
                assert attribute(key) in read, key.name


def test_key_without_effect_is_only_validated() -> None:
    read = attributes(each for each in modules_of_a_node() if each.name not in VALIDATION)
    for key in BROKER_CONFIGS.keys.values():
        if not key.takes_effect:
            assert attribute(key) not in read, key.name
