"""README's tour, up to the section that kills nodes: every command runs in a shell, and prints the
documented output.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source_code import ROOT

TIMEOUT_SECONDS = 180
LOOKS = re.compile(r"^kraft \w+ (describe|offsets)\b")
TOUR = (ROOT / "README.md").read_text().partition("## A tour of five minutes")[2].partition("**Kill a node.**")[0]


def steps() -> list[tuple[str, list[str]]]:
    """The commands of the tour, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    blocks = TOUR[TOUR.index("**Look around.**") :]
    for line in blocks.splitlines():
        if line.startswith("    $ "):
            found.append((line.removeprefix("    $ "), []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line.removeprefix("    "))
    return found


def comparable(line: str) -> str:
    """A line without the parts that differ between runs: ids, numbers, padding."""
    return " ".join(re.sub(r"\d+", "0", re.sub(r"\b[\w-]{22}\b", "ID", line)).split())


def matches(line: str, expected: str) -> bool:
    """True if the line is as expected; `...` at the end stands for anything."""
    if expected.endswith(" ..."):
        return comparable(line).startswith(comparable(expected.removesuffix("...")))
    return comparable(line) == comparable(expected)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell on a machine where the README's cluster runs on free ports."""
    binaries = Path(sys.executable).parent
    variables = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "KRAFT_CONFIG": str(tmp_path / "config.toml"),
    }
    with (
        (tmp_path / "out").open("wb") as output,
        subprocess.Popen(
            ["kraft", "cluster", "start", "--first-port", "0"],
            cwd=tmp_path,
            env=variables,
            stdout=output,
            stderr=output,
        ) as cluster,
    ):
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while (serves := re.search(r"all nodes serve clients, at (\S+);", (tmp_path / "out").read_text())) is None:
                assert time.monotonic() < deadline, (tmp_path / "out").read_text()
                time.sleep(0.05)
            yield {**variables, "KRAFT_BOOTSTRAP_SERVERS": serves[1].partition(",")[0]}
        finally:
            cluster.terminate()


def difference(printed: list[str], expected: list[str]) -> str:
    """The problem with the output of a command, or an empty string."""
    for index, line in enumerate(expected):
        if line == "...":
            break
        if index == len(printed) or not matches(printed[index], line):
            return f"prints {printed[index:]}, not {line!r}"
    return ""


def run(command: str, environment: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def test_every_command_of_the_tour_prints_the_documented_output(environment: dict[str, str], tmp_path: Path) -> None:
    commands = steps()
    assert len(commands) > 8
    for command, expected in commands:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            done = run(command, environment, tmp_path)
            wrong = difference(done.stdout.splitlines(), expected) or (done.returncode and f"ends with {done.stdout}")
            if not wrong:
                break
            # The asked broker may not know yet what the controller has just acknowledged, as in Kafka.
            assert LOOKS.search(command), f"{command}\n{wrong}"
            assert time.monotonic() < deadline, f"{command}\n{wrong}"
