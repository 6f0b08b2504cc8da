"""docs/client.md and docs/migration.md: each example runs against a node, and prints what the document says."""

import ast
import inspect
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest
import trio

from tests.support.node_process import NodeProcess
from tests.support.source_code import ROOT

SECTIONS = [
    (document, section)
    for document in ("docs/client.md", "docs/migration.md")
    for section in re.findall(r"^## (.+)$", (ROOT / document).read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = NodeProcess(tmp_path_factory.mktemp("node") / "data")
    node.start()
    yield node.bootstrap
    node.stop()


def examples(document: str, section: str) -> list[tuple[int, str, str | None]]:
    """The Python blocks of a section, each with its line, and the output that a text block behind it shows."""
    text = (ROOT / document).read_text()
    start = text.index(f"\n## {section}\n")
    end = text.find("\n## ", start + 1)
    blocks = re.finditer(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", text[: end if end > 0 else None], re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block[1], block[2]) for block in blocks if block.start() > start]


@pytest.mark.parametrize(("document", "section"), [each for each in SECTIONS if examples(*each)])
def test_the_examples_run_and_print_what_they_show(document: str, section: str, bootstrap: str) -> None:
    names: dict[str, Any] = {}
    for line, code, expected in examples(document, section):
        source = "\n" * line + code.replace("localhost:9092", bootstrap)
        compiled = compile(source, document, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with redirect_stdout(printed):
            result = eval(compiled, names)
            if inspect.iscoroutine(result):
                trio.run(lambda result=result: result)
        if expected is not None:
            assert printed.getvalue() == expected, f"{document}, line {line}"
