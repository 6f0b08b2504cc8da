"""`make check` fails for an advisory of an installed package, and says in one line that no source is reachable."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.dependency_audit import (
    NotAudited,
    Source,
    advisory_lines,
    allowed_advisories,
    installed_packages,
    main,
)
from tests.support.source_code import ROOT


def advisory(number: int) -> dict[str, Any]:
    """An advisory of h11 in OSV's schema."""
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}]
    return {
        "id": f"GHSA-0000-0000-000{number}",
        "aliases": [f"CVE-2026-000{number}"],
        "summary": "h11 takes requests that it should refuse",
        "published": "2026-01-02T03:04:05Z",
        "affected": [{"package": {"name": "h11", "ecosystem": "PyPI"}, "ranges": ranges}],
    }


@contextmanager
def osv_server(answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> Iterator[str]:
    """A server of OSV's protocol on loopback. `answer` gives status and body of the response to a query."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answer(query)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def pip_audit() -> None:
    pytest.importorskip("pip_audit", reason="`make check` installs it")


def advisories_of_h11(query: dict[str, Any]) -> tuple[int, Any]:
    return 200, {"vulns": [advisory(1), advisory(2)]} if query["package"]["name"] == "h11" else {}


@pytest.mark.usefixtures("pip_audit")
def test_advisory_of_an_installed_package_fails_the_audit_unless_it_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[tool.dependency-audit.allowed]\n"CVE-2026-0002" = "the node parses no such requests"\n')
    with osv_server(advisories_of_h11) as url:
        assert main(["--osv-url", url, "--pyproject", str(pyproject), "--timeout", "300"]) == 1
    packages = installed_packages()
    assert capsys.readouterr().out.splitlines() == [
        f"h11 {packages['h11']}: CVE-2026-0001 GHSA-0000-0000-0001, fixed in 99.0: "
        "h11 takes requests that it should refuse",
        f"{len(packages)} packages audited, 1 advisories",
    ]


@pytest.mark.usefixtures("pip_audit")
def test_source_that_fails_during_the_audit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([(200, {}), (200, {})])
    with osv_server(lambda _: next(answers, (503, {}))) as url:
        assert main(["--osv-url", url, "--timeout", "300"]) == 0
    assert capsys.readouterr().out.startswith(
        "dependencies not audited, as no source of advisories is reachable (osv: "
    )


def test_source_that_is_not_there_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert main(["--osv-url", f"http://127.0.0.1:{port}/v1/query"]) == 0
    assert "Connection refused" in capsys.readouterr().out.removesuffix("\n").splitlines()[0]


def test_source_that_never_responds_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = Source("osv", f"http://127.0.0.1:{silent.getsockname()[1]}/v1/query", probe_timeout_s=0.2)
        with pytest.raises(NotAudited, match=r"no response in 0\.2 s|timed out"):
            source.probe("h11", "0.14.0")


def test_index_without_advisories_is_no_source() -> None:
    """pip-audit passes over packages that PyPI's API does not know, and would report that all is well."""
    with osv_server(lambda _: (404, {})) as url, pytest.raises(NotAudited):
        Source("pypi", url).probe("h11", "0.14.0")
    unknown = {"name": "h11", "skip_reason": "Dependency not found on PyPI"}
    with pytest.raises(NotAudited, match="not found on PyPI"):
        advisory_lines([unknown])
    assert advisory_lines([unknown, {"name": "attrs", "version": "25.1", "vulns": []}]) == []


def test_allowed_advisories_have_reasons() -> None:
    assert all(len(reason) > 20 for reason in allowed_advisories(ROOT / "pyproject.toml").values())
