"""The examples of a document as modules that mypy reads: one for each section."""

import ast
import re
import textwrap

from tests.support.document_examples import examples
from tests.support.source_code import ROOT

_HOISTED = ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign


def typed_modules(document: str) -> dict[str, str]:
    """The source of each section by a module's name. Definitions come first; each example is a function of its own."""
    modules = {}
    for section in re.findall(r"^## (.+)$", (ROOT / document).read_text(), re.MULTILINE):
        codes = [code for _, code, _ in examples(document, section)]
        if codes:
            modules[re.sub(r"\W+", "_", section.lower())] = _module(codes)
    return modules


def _module(codes: list[str]) -> str:
    hoisted, functions = [], []
    for number, code in enumerate(codes):
        body = []
        for statement in ast.parse(code).body:
            source = ast.get_source_segment(code, statement) or ""
            (hoisted if isinstance(statement, _HOISTED) else body).append(source)
        if body:
            indented = textwrap.indent("\n".join(body), "    ")
            functions.append(f"async def example_{number}() -> None:\n{indented}\n")
    return "\n".join([*dict.fromkeys(hoisted), "", *functions])
