"""The examples of docs/testing-histories.md: a repository whose tests run in a session of pytest, and a script."""

from pathlib import Path

import pytest

from jepsen.testing import cluster
from jepsen.testing.server_lease import ServerLease
from tests.jepsen.testing.test_pytest_plugin import run_session
from tests.support.document_examples import examples, run_example
from tests.support.example_repository import write_repository

pytestmark = pytest.mark.clients

DOCUMENT = "docs/testing-histories.md"


def test_tests_of_the_repository_find_the_planted_bugs(tmp_path: Path) -> None:
    write_repository(tmp_path, DOCUMENT)
    done = run_session(tmp_path, "", "-n", "0")
    assert "6 passed, 1 xfailed" in done.stdout, done.stdout + done.stderr


def test_script_prints_the_documented_output(
    server: ServerLease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "own_server", lambda: server)
    [(code, shown)] = [(code, shown) for _, code, shown in examples(DOCUMENT) if not code.startswith("# ")]
    assert run_example(code, DOCUMENT, {"directory": tmp_path}) == shown
    page = (tmp_path / "report.html").read_text()
    assert "No anomaly" in page
    assert "checkout@" in page or "orders" in page
