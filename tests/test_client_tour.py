"""docs/client.md and other tours: each example runs with a node, and prints the documented output.

The same holds for the README's first example, and for those in docstrings, which docs/client-reference.md shows.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import broker.client
from broker.client import ConfigChange, ConfigResource, ConfigResourceType
from tests.support.document_examples import examples, run_example
from tests.support.node_process import NodeProcess
from tests.support.source_code import ROOT

SECTIONS = [
    (document, section)
    for document in ("docs/client.md", "docs/migration.md", "docs/share-groups.md")
    for section in re.findall(r"^## (.+)$", (ROOT / document).read_text(), re.MULTILINE)
] + [("README.md", "Two commands")]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """A node for one section, whose examples list all topics and groups."""
    node = NodeProcess(tmp_path / "data", {"group.initial.rebalance.delay.ms": "0"})
    node.start()
    yield node.bootstrap
    node.stop()


def docstring_example(name: str) -> str:
    """The indented block in the docstring of a public name, if there is one."""
    text = inspect.getdoc(getattr(broker.client, name)) or ""
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    return textwrap.dedent("\n\n".join(blocks))


def begin_with_the_first_record(bootstrap: str, group: str) -> None:
    """Has a share group begin with the first record."""
    with broker.client.SyncAdmin(bootstrap) as admin:
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        changes = {resource: [ConfigChange("share.auto.offset.reset", "earliest")]}
        admin.incremental_alter_configs(changes).raise_first()


@pytest.mark.parametrize(("document", "section"), [each for each in SECTIONS if examples(*each)])
def test_examples_print_the_documented_output(document: str, section: str, bootstrap: str) -> None:
    names: dict[str, Any] = {}
    for line, code, expected in examples(document, section):
        printed = run_example("\n" * line + code.replace("localhost:9092", bootstrap), document, names)
        if expected is not None:
            assert printed == expected, f"{document}, line {line}"


@pytest.mark.parametrize("name", [name for name in broker.client.__all__ if docstring_example(name)])
def test_the_examples_in_docstrings_run(name: str, bootstrap: str) -> None:
    """Each example has its own topic. Consumers find a record in it, and leave their loop where the example
    continues.
    """
    topic = f"orders-{name}"
    changes = {
        "localhost:9092": bootstrap,
        "orders": topic,
        '"jobs"': f'"{topic}"',
        'group_id="tour"': f'group_id="{topic}", auto_offset_reset="earliest"',
        "...": "break",
    }
    if "Consumer" in name:
        with broker.client.SyncProducer(bootstrap) as producer:
            producer.send(topic, b"value")
    if "ShareConsumer" in name:
        begin_with_the_first_record(bootstrap, "workers")
    code = docstring_example(name)
    for old, new in changes.items():
        code = code.replace(old, new)
    run_example(
        code,
        name,
        dict(vars(broker.client)) | {each: getattr(broker.client, each) for each in broker.client.__all__},
        is_of_asyncio=name.startswith("Asyncio"),
    )
