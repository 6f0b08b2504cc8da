"""Counts unclear words and sentence openings in docstrings, comments and Markdown, by package.

`python -m tests.support.prose` lowers the numbers of `tests/prose_counts.txt` to what it counts now.
`python -m tests.support.prose broker/net RULE` prints the sentences of one package that a rule counts.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.source_code import ROOT, statements

COUNTS: Final = ROOT / "tests" / "prose_counts.txt"
TREES: Final = ("kraft", "metadata", "broker", "jepsen", "benchmarks", "pyspark_kraft", "tests", "docs")

# A word in place of the field's own: after, again, incarnation, or a subject that is a noun.
_WORDS: Final = {
    "nobody": r"\bnobody\b",
    "somebody": r"\bsomebody\b",
    "whoever": r"\bwh(?:oever|omever|osever)\b",
    "anew": r"\banew\b",
    # A follower falls or lags behind its leader, and may be left far behind.
    "behind": r"(?<!lag )(?<!lags )(?<!lagging )(?<!fall )(?<!falls )(?<!fallen )(?<!far )(?<!left )\bbehind\b",
    # Documents tell the life of a request.
    "life": r"(?<!-)\blife\b(?! cycle| of an? \w*\s?(?:request|commit))",
}
_OPENINGS: Final = {"Of": r"Of\b", "Who": r"Who(?:m|se)?\b", "What": r"What\b"}
_RULES: Final = {
    **{name: re.compile(pattern, re.IGNORECASE) for name, pattern in _WORDS.items()},
    **{name: re.compile(pattern) for name, pattern in _OPENINGS.items()},
}
# Questions may begin with "What" and "Who".
_SENTENCE: Final = re.compile(r"(?<=[.!:;])\s+|(?<=\?)\s+")
_TEST_NAME: Final = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_TEST_NAME_RULE: Final = re.compile(r"_(?:who|whoever|nobody|somebody|anew|life|what|of_what)_|_behind(?:_|$)")
_COMMENT: Final = re.compile(r"(?:^|  )#(?:: | |$)(.*)")
_MARKUP: Final = re.compile(r"^(?:[-*>#]+|\d+\.|\|)\s+|`[^`]*`")


def count_prose() -> dict[tuple[str, str], int]:
    """How often each rule finds something, by package and rule. Rules that find nothing are absent."""
    return dict(Counter((package, rule) for package, rule, _ in findings()))


def findings() -> Iterator[tuple[str, str, str]]:
    """The package, the rule and the sentence of each match."""
    for path in _paths():
        package, text = _package(path), path.read_text()
        for sentence in _sentences(path, text):
            for rule, pattern in _RULES.items():
                found = [pattern.match(sentence)] if rule in _OPENINGS else pattern.finditer(sentence)
                if not (rule in _OPENINGS and sentence.endswith("?")):
                    yield from ((package, rule, sentence) for match in found if match)
        if package.startswith("tests"):
            names: list[str] = _TEST_NAME.findall(text)
            yield from ((package, "test_name", name) for name in names if _TEST_NAME_RULE.search(name))


def read_counts() -> dict[tuple[str, str], int]:
    rows = [line.split() for line in COUNTS.read_text().splitlines()]
    return {(package, rule): int(count) for package, rule, count in rows}


def write_counts(counts: dict[tuple[str, str], int]) -> None:
    lines = [f"{package} {rule} {count}\n" for (package, rule), count in sorted(counts.items()) if count]
    COUNTS.write_text("".join(lines))


def sentences_of(text: str) -> list[str]:
    """Split a paragraph into sentences; the cells of a table are separate."""
    return [part for cell in text.split(" | ") for part in _SENTENCE.split(" ".join(cell.split())) if part]


def python_prose(text: str) -> Iterator[str]:
    """The paragraphs of a module's docstrings and comments."""
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")
    yield from _comments(text)


def _comments(text: str) -> Iterator[str]:
    """Comments; those on adjacent lines form one paragraph."""
    paragraph: list[str] = []
    for line in text.splitlines():
        found = _COMMENT.search(line.lstrip() if line.lstrip().startswith("#") else line)
        if found is None or not line.lstrip().startswith("#"):
            yield " ".join(paragraph)
            paragraph = []
        if found is not None:
            paragraph.append(found[1])
    yield " ".join(paragraph)


def _markdown_prose(text: str) -> Iterator[str]:
    """Paragraphs, list items and table rows, without code."""
    paragraph: list[str] = []
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        if not line.strip() or re.match(r"\s*(?:[-*>#|]|\d+\.)", line):
            yield " ".join(paragraph)
            paragraph = []
        paragraph.append(_MARKUP.sub("", line.strip()).strip())
    yield " ".join(paragraph)


def _sentences(path: Path, text: str) -> Iterator[str]:
    paragraphs = _markdown_prose(text) if path.suffix == ".md" else python_prose(text)
    for paragraph in paragraphs:
        yield from sentences_of(paragraph)


def _paths() -> list[Path]:
    trees = [path for tree in TREES for path in (ROOT / tree).rglob("*") if path.suffix in (".py", ".md")]
    return sorted([*trees, *ROOT.glob("*.md")])


def _package(path: Path) -> str:
    """The package of a path: the first two folders of a module, or the document itself."""
    relative = path.relative_to(ROOT)
    return str(relative) if path.suffix == ".md" else "/".join(relative.parts[:-1][:2])


def _lower_counts() -> None:
    recorded, found = read_counts(), count_prose()
    write_counts({key: min(count, found.get(key, 0)) for key, count in recorded.items()})


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print("\n".join(text for package, rule, text in findings() if [package, rule] == sys.argv[1:]))
    else:
        _lower_counts()
