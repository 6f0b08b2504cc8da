"""Audits the installed packages for known advisories: the last step of `make check`.

pip-audit compares the versions with PyPI's advisories, or with those of OSV. The project's own dependencies, extras and
groups are installed where the check runs, so all packages that are installed are audited. A source that cannot be
reached is said in one line, and fails nothing. An advisory fails the check, unless pyproject.toml allows it:

    [tool.dependency-audit.allowed]
    "GHSA-xxxx-xxxx-xxxx" = "the reason for which it does not concern this project"
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import attrs

PROJECT: Final = "kraft"
# Where a network drops packets, the check waits for this time per source.
PROBE_TIMEOUT_S: Final = 3.0
# One request per package, on one connection, takes some seconds. Responses of PyPI are cached for some minutes.
AUDIT_TIMEOUT_S: Final = 20.0
_PYPROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"


class NotAudited(Exception):
    """No source gives advisories. The message says why."""


@attrs.frozen
class Source:
    """A service of pip-audit, and its address: pip-audit itself knows that of PyPI."""

    service: str
    url: str
    probe_timeout_s: float = PROBE_TIMEOUT_S

    def probe(self, name: str, version: str) -> None:
        """Ask for the advisories of one package. Raises NotAudited."""
        answer = _answer_in_time(self._request(name, version), self.probe_timeout_s)
        if not isinstance(answer, dict) or (self.service == "pypi" and "vulnerabilities" not in answer):
            raise NotAudited("a response without advisories")

    def _request(self, name: str, version: str) -> urllib.request.Request:
        if self.service == "pypi":
            return urllib.request.Request(f"{self.url}/{name}/{version}/json")
        query = {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        return urllib.request.Request(self.url, json.dumps(query).encode())

    @property
    def options(self) -> list[str]:
        return ["--vulnerability-service", self.service, *(["--osv-url", self.url] if self.service == "osv" else [])]


PYPI: Final = Source("pypi", "https://pypi.org/pypi")
OSV: Final = Source("osv", "https://api.osv.dev/v1/query")


def _answer_in_time(request: urllib.request.Request, timeout_s: float) -> Any:
    """The JSON of a response. Raises NotAudited for every other outcome, and after the timeout.

    A thread asks, as nothing bounds the time of a look-up of a name. It does not keep the process from ending.
    """
    outcome: list[Any] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as response:
                outcome.append(json.load(response))
        except urllib.error.HTTPError as error:
            with error:
                outcome.append(error)
        except (OSError, ValueError) as error:
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        raise NotAudited(f"no response in {timeout_s:g} s")
    if isinstance(outcome[0], Exception):
        raise NotAudited(str(outcome[0]))
    return outcome[0]


def installed_packages() -> dict[str, str]:
    """The version of each installed package but the project itself, by name."""
    found = {each.metadata["Name"]: each.version for each in distributions()}
    return {name: version for name, version in sorted(found.items()) if name != PROJECT}


def advisories(
    packages: Mapping[str, str], sources: Sequence[Source], allowed: Mapping[str, str], timeout_s: float
) -> list[str]:
    """A line for each advisory of a package that is not allowed, from the first source that responds.

    Raises NotAudited.
    """
    reasons = []
    for source in sources:
        try:
            source.probe(*next(iter(packages.items())))
            return _audit(packages, source, allowed, timeout_s)
        except NotAudited as error:
            reasons.append(f"{source.service}: {error}")
    raise NotAudited("; ".join(reasons))


def _audit(packages: Mapping[str, str], source: Source, allowed: Mapping[str, str], timeout_s: float) -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        pinned, report = Path(directory) / "pinned.txt", Path(directory) / "report.json"
        pinned.write_text("".join(f"{name}=={version}\n" for name, version in packages.items()))
        command = [
            *(sys.executable, "-m", "pip_audit", "--requirement", str(pinned), "--no-deps", "--disable-pip"),
            *("--format", "json", "--output", str(report), "--progress-spinner", "off", "--timeout", "5"),
            *source.options,
            *(option for advisory in allowed for option in ("--ignore-vuln", advisory)),
        ]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotAudited(f"no result in {timeout_s:g} s") from error
        if not report.exists():
            last = (run.stderr.strip().splitlines() or ["no output"])[-1]
            if "requests.exceptions." in run.stderr or "pip_audit._service" in run.stderr:
                raise NotAudited(last)
            raise SystemExit(f"pip-audit has failed: {last}")
        return advisory_lines(json.loads(report.read_text())["dependencies"])


def advisory_lines(audited: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each advisory in a report of pip-audit. Raises NotAudited if the source knows none of the packages.

    An index of packages that does not serve PyPI's JSON API has none, and pip-audit passes over what it does not find.
    """
    if all("skip_reason" in each for each in audited):
        raise NotAudited(audited[0]["skip_reason"])
    return [
        f"{each['name']} {each['version']}: {' '.join(sorted([found['id'], *found['aliases']]))}, "
        f"fixed in {', '.join(found['fix_versions']) or 'no version'}: {found['description'][:200]}"
        for each in audited
        for found in each.get("vulns", ())
    ]


def allowed_advisories(pyproject: Path) -> dict[str, str]:
    """The reason for each advisory that does not concern the project."""
    tools = tomllib.loads(pyproject.read_text())["tool"]
    return dict(tools.get("dependency-audit", {}).get("allowed", {}))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.dependency_audit")
    parser.add_argument("--osv-url", help="ask this source in OSV's protocol, and no other")
    parser.add_argument("--pyproject", type=Path, default=_PYPROJECT, help="the file with the allowed advisories")
    parser.add_argument("--timeout", type=float, default=AUDIT_TIMEOUT_S, help="seconds for all packages")
    options = parser.parse_args(arguments)
    sources = [PYPI, OSV] if options.osv_url is None else [Source("osv", options.osv_url)]
    packages = installed_packages()
    try:
        found = advisories(packages, sources, allowed_advisories(options.pyproject), options.timeout)
    except NotAudited as error:
        print(f"dependencies not audited, as no source of advisories is reachable ({error})")
        return 0
    for line in found:
        print(line)
    print(f"{len(packages)} packages audited, {len(found)} advisories")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
