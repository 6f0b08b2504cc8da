"""The examples of a document: Python blocks, and the text blocks after them that show their output."""

import ast
import asyncio
import inspect
import io
import re
from contextlib import redirect_stdout
from typing import Any

import trio

from tests.support.source_code import ROOT


def examples(document: str, section: str | None = None) -> list[tuple[int, str, str | None]]:
    """The Python blocks of a section, or of the whole document, each with its line number and its output, if shown."""
    text = (ROOT / document).read_text()
    start = 0 if section is None else text.index(f"\n## {section}\n")
    end = -1 if section is None else text.find("\n## ", start + 1)
    blocks = re.finditer(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", text[: end if end > 0 else None], re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block[1], block[2]) for block in blocks if block.start() > start]


def run_example(code: str, document: str, names: dict[str, Any], *, is_of_asyncio: bool = False) -> str:
    """Runs an example under Trio, or else on asyncio, and returns what it prints."""
    compiled = compile(code, document, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = eval(compiled, names)
        if inspect.iscoroutine(result):
            if is_of_asyncio:
                asyncio.run(result)
            else:
                trio.run(lambda: result)
    return printed.getvalue()
