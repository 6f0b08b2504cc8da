"""docs/migration.md: every call of its tables exists in the client of its column, with the parameters that it names."""

import ast
import inspect
import re
from collections.abc import Iterator
from inspect import get_annotations
from types import ModuleType
from typing import Any, get_type_hints

import aiokafka
import aiokafka.admin
import attrs
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.consumer.fetcher
import pytest

import broker.client
from broker.client.admin.config import AdminSettings
from broker.client.consumer.config import ConsumerConfig, ConsumerSettings
from broker.client.producer.config import ProducerConfig, ProducerSettings
from broker.client.share_consumer.config import ShareConsumerSettings
from tests.support.source_code import ROOT

DOCUMENT = (ROOT / "docs" / "migration.md").read_text()
MODULES: dict[str, tuple[ModuleType, ...]] = {
    "confluent-kafka": (confluent_kafka, confluent_kafka.admin),
    "kafka-python": (kafka, kafka.admin, kafka.consumer.fetcher),
    "aiokafka": (aiokafka, aiokafka.admin),
    "broker.client": (broker.client,),
}
SETTINGS: dict[type, Any] = {
    broker.client.Producer: ProducerSettings,
    broker.client.Consumer: ConsumerSettings,
    broker.client.ShareConsumer: ShareConsumerSettings,
    broker.client.Admin: AdminSettings,
}
# A class or its attribute, possibly called; not a method of a result, nor prose.
CALL = re.compile(r"[A-Z]\w+(?:\.\w+)?(?:\(.*\))?")


def tables(section: str) -> Iterator[dict[str, str]]:
    """The rows of a section's tables: cells by the heading of their column."""
    heads: list[str] = []
    for line in DOCUMENT.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = cells
        elif not cells[0].startswith("---"):
            yield dict(zip(heads, cells, strict=True))


def calls() -> list[tuple[str, str]]:
    """Each call or attribute in the tables, with its client."""
    return [
        (client, code)
        for section in ("Producers", "Consumers", "Share consumers", "Administration")
        for row in tables(section)
        for client, cell in row.items()
        for code in re.findall(r"`([^`]+)`", cell)
        if client in MODULES and CALL.fullmatch(code)
    ]


def resolve(client: str, expression: ast.expr) -> Any:
    """The object that a dotted name names in a client."""
    if isinstance(expression, ast.Attribute):
        owner = resolve(client, expression.value)
        # A dataclass field without a default is not an attribute of the class.
        return None if expression.attr in get_annotations(owner) else getattr(owner, expression.attr)
    assert isinstance(expression, ast.Name), ast.unparse(expression)
    return next(getattr(module, expression.id) for module in MODULES[client] if hasattr(module, expression.id))


def parameters(found: Any) -> set[str]:
    """The names of a callable's parameters."""
    settings = SETTINGS.get(found) if inspect.isclass(found) else None
    if inspect.isclass(found) and hasattr(found, "DEFAULT_CONFIG"):
        return set(found.DEFAULT_CONFIG)
    try:
        names = set(inspect.signature(found).parameters)
    except ValueError:  # confluent-kafka's functions are in C, and list their parameters in the docstring
        return set(re.findall(r"\w+", found.__doc__ or ""))
    return names | set(get_type_hints(settings) if settings else ())


def check(client: str, expression: ast.expr) -> None:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            known = parameters(resolve(client, node.func))
            for keyword in node.keywords:
                assert keyword.arg in known, f"{ast.unparse(node)}: {keyword.arg} is none of {sorted(known)}"
        elif isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id[0].isupper()):
            resolve(client, node)


def test_the_tables_have_calls_of_every_client() -> None:
    for client in MODULES:
        assert len([code for each, code in calls() if each == client]) > 30, client


@pytest.mark.parametrize("client", MODULES)
def test_every_call_of_the_migration_table_exists(client: str) -> None:
    for code in sorted({code for each, code in calls() if each == client}):
        check(client, ast.parse(code, mode="eval").body)


def keys(client: str) -> dict[str, str]:
    """The config keys of a column, each with the text in parentheses after it."""
    cells = [cell for row in tables("Configs") for head, cell in row.items() if head.endswith(client)]
    return dict(pair for cell in cells for pair in re.findall(r"`([a-z._]+)`(?: \(`?(\w*)[^)]*\))?", cell))


def test_our_configs_in_the_table_have_the_defaults_that_it_says() -> None:
    fields = attrs.fields_dict(ProducerConfig) | attrs.fields_dict(ConsumerConfig)
    arguments = {"partitioner", "key_serializer", "value_serializer"}
    named = {key: default for key, default in keys("broker.client").items() if key not in arguments}
    assert len(named) > 8
    for key, default in named.items():
        field = fields[key.replace(".", "_")]
        assert not default.isdecimal() or float(default) == field.default, key


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_configs_of_python_clients_in_the_table_have_the_defaults_that_it_says(client: str) -> None:
    defaults: dict[str, Any] = {}
    if client == "kafka-python":
        defaults = {**kafka.KafkaConsumer.DEFAULT_CONFIG, **kafka.KafkaProducer.DEFAULT_CONFIG}
    else:
        for each in (aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer):
            found = inspect.signature(each).parameters.values()
            defaults |= {parameter.name: parameter.default for parameter in found}
    assert len(keys(client)) > 8
    for key, default in keys(client).items():
        assert key in defaults
        if default.isdecimal() and key != "acks":
            assert int(default) == defaults[key], key
        elif default in ("true", "false"):
            assert defaults[key] is (default == "true"), key


def test_configs_of_confluent_kafka_in_the_table_exist() -> None:
    """It has no list of its keys, so each key is set, to its default if the table has one."""
    examples = {"partition.assignment.strategy": "range"}
    named = keys("confluent-kafka")
    assert len(named) > 8
    for key, default in named.items():
        config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "group", key: examples.get(key, default)}
        confluent_kafka.Consumer(config).close()
