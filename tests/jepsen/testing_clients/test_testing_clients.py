"""Clients of the control port in other languages: their example tests pass, with the Kafka client of each language."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from tests.support.node_process import KRAFT
from tests.support.source_code import ROOT

SOURCES = ROOT / "jepsen/testing_clients"
DOCUMENT = ROOT / "docs/testing-other-languages.md"
WITHIN_S = 900
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Language:
    """A folder of `SOURCES`: the programs that its tests need, the commands that run them, and files of examples."""

    folder: str
    programs: Sequence[str]
    commands: Sequence[Sequence[str]]
    examples: Sequence[str]


LANGUAGES = (
    Language("go", ["go"], [["go", "vet", "./..."], ["go", "test", "-count=1", "./..."]], ["krafttest_test.go"]),
    Language(
        "typescript",
        ["node", "npm"],
        [["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], ["npm", "test"]],
        ["kraft-testing.test.ts"],
    ),
    Language(
        "java",
        ["java", "mvn"],
        [["mvn", "-q", "-B", "test"]],
        ["src/test/java/kraft/testing/KraftServerTest.java"],
    ),
)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.folder)
def test_examples_pass(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: Language
) -> None:
    if not request.config.getoption("--control-clients"):
        pytest.skip("needs other languages and their packages: make test-control-clients")
    if missing := [program for program in language.programs if shutil.which(program) is None]:
        pytest.skip(f"the client for {language.folder} is not tested: no {' and no '.join(missing)} on PATH")
    folder = tmp_path / language.folder
    shutil.copytree(SOURCES / language.folder, folder)
    monkeypatch.setenv("KRAFT", str(KRAFT))
    monkeypatch.delenv("KRAFT_CONTROL", raising=False)
    for command in language.commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_examples_of_the_document_are_those_that_are_run() -> None:
    blocks = _BLOCK.findall(DOCUMENT.read_text())
    for language in LANGUAGES:
        sources = "".join((SOURCES / language.folder / name).read_text() for name in language.examples)
        shown = [block for name, block in blocks if name == language.folder]
        assert shown, f"no example of {language.folder}"
        for block in shown:
            assert block in sources, f"no test has this example:\n{block}"
