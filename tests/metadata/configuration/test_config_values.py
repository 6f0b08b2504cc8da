"""Every config accepts and refuses the values that Apache Kafka accepts and refuses, to the edges of its ranges.

The rows of `tests/kafka_facts/config_values.csv` are Kafka's answers. Differences are listed here, with the reason.
"""

import re
from collections.abc import Mapping

import pytest

from broker.config import KafkaConfig
from broker.config.checks import check_supported
from metadata.configuration import BrokerLayers, InvalidConfig
from metadata.controller import check_quota
from metadata.protocol import KafkaError
from metadata.records import quota_entity
from tests.support import config_values

# As in KafkaFacts.java.
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/tmp/kafka-logs",
}

# Scope and name of configs that accept other values than in Kafka, as regular expressions. docs/compatibility.md has
# what a user may notice.
DIFFERENCES: Mapping[str, str] = {
    r"(static|broker) .*\.class(\.name)?": "there are no Java classes that could be missing",
    r"(broker|cluster) metric\.reporters": "there are no Java classes that could be missing",
    r"(static|group) (group\.)?consumer\.(min\.|max\.)?heartbeat\.interval\.ms": "the default is lower",
    r"group (streams|errors)\..*": "streams groups and dead-letter queues are not supported",
    r"broker (listeners|listener\.security\.protocol\.map|cordoned\.log\.dirs)": "compared with the broker's own file "
    "when it is applied, and listeners do not change while a node runs",
    r"broker listener\.name\.plaintext\.listeners": "has no effect",
    r"(broker|cluster) config\.providers": "empty names are refused in a file and in a change alike",
    r"(static|broker|cluster) max\.connections\.per\.ip\.overrides": "host names and negative numbers are refused",
    r"broker min\.insync\.replicas": "refused by the controller while ELR is in use: see test_alter_configs.py",
}


@pytest.fixture(scope="module")
def node() -> KafkaConfig:
    return KafkaConfig(BrokerLayers(NODE))


def accepts(node: KafkaConfig, scope: str, name: str, text: str) -> bool:
    schema = node.schema()
    try:
        match scope:
            case "static":
                config = KafkaConfig(BrokerLayers({**NODE, name: text}))
                check_supported(config)
            case "broker" | "cluster":
                schema.validate_broker({name: text}, per_broker=scope == "broker")
            case "topic":
                schema.validate_topic({name: text})
            case "group":
                schema.validate_group({name: text})
            case "client-metrics":
                schema.validate_client_metrics({name: text})
    except InvalidConfig:
        return False
    return True


def accepts_quota(entity: dict[str, str | None], key: str, value: float) -> bool:
    try:
        check_quota(quota_entity(list(entity.items())), key, value)
    except KafkaError:
        return False
    return True


def test_values_are_those_that_kafka_accepts(node: KafkaConfig) -> None:
    rows = [
        config_values.find_row(scope, name, fact, lambda text: accepts(node, scope, name, text))  # noqa: B023
        for scope, name, fact in config_values.configs()
    ]
    rows += config_values.quota_rows(accepts_quota)
    of_kafka = {(row.scope, row.name): row for row in config_values.read_rows()}
    assert {(row.scope, row.name) for row in rows} == set(of_kafka)
    different = [row for row in rows if row != of_kafka[row.scope, row.name]]
    explained = {
        pattern: [row for row in different if re.fullmatch(pattern, f"{row.scope} {row.name}")]
        for pattern in DIFFERENCES
    }
    unexplained = [row for row in different if not any(row in of_one for of_one in explained.values())]
    assert unexplained == [], [of_kafka[row.scope, row.name] for row in unexplained]
    assert all(explained.values()), "a difference that is gone is still listed"


@pytest.mark.parametrize("scope", ["broker", "cluster"])
@pytest.mark.parametrize("prefix", ["", config_values.LISTENER_PREFIX])
@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_limit_that_keeps_everyone_out_is_refused(node: KafkaConfig, scope: str, prefix: str, name: str) -> None:
    assert accepts(node, scope, prefix + name, "1")
    assert not accepts(node, scope, prefix + name, "0")
