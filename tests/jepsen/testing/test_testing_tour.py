"""The examples of docs/testing.md and docs/testing-examples.md: sessions of pytest, and scripts with their output."""

from pathlib import Path

import pytest

from jepsen.testing import cluster
from jepsen.testing.server_lease import ServerLease
from tests.jepsen.testing.test_pytest_plugin import run_session
from tests.support.document_examples import examples, run_example
from tests.support.example_repository import write_repository

pytestmark = pytest.mark.clients

DOCUMENT = "docs/testing.md"


def test_files_of_tests_pass(tmp_path: Path) -> None:
    files = [code for _, code, _ in examples(DOCUMENT) if "def test_" in code]
    assert len(files) == 5
    for number, code in enumerate(files):
        (tmp_path / f"test_example_{number}.py").write_text(code)
    done = run_session(tmp_path, "")
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_planted_bugs_of_the_example_repository_are_found(tmp_path: Path) -> None:
    write_repository(tmp_path)
    done = run_session(tmp_path, "", "-n", "0")
    assert "3 passed, 3 xfailed" in done.stdout, done.stdout + done.stderr


def test_scripts_print_the_documented_output(server: ServerLease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "own_server", lambda: server)
    scripts = [(code, shown) for _, code, shown in examples(DOCUMENT) if "def test_" not in code]
    assert len(scripts) == 1
    for code, shown in scripts:
        assert run_example(code, DOCUMENT, {}) == shown
