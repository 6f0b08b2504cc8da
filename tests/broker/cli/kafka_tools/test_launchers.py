"""`kraft kafka-tools install`, and the launchers that it writes."""

import json
import os
import subprocess
from pathlib import Path

from broker.cli.kafka_tools.tools import NAMES
from tests.support.cluster_process import run_command
from tests.support.source_code import ROOT


def test_launchers_run_the_tools_with_and_without_sh(tmp_path: Path) -> None:
    directory = tmp_path / "it's bin"
    answer = run_command("kafka-tools", "install", str(directory), "--json")
    assert answer.code == 0, answer.errors
    installed = json.loads(answer.output)
    assert sorted(installed["launchers"]) == sorted(os.listdir(directory))
    assert set(installed["launchers"]) == {f"{name}{suffix}" for name in NAMES for suffix in ("", ".sh")}
    environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
    for name in ("kafka-topics.sh", "kafka-topics"):
        done = subprocess.run(
            [name, "--list"], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (1, "--bootstrap-server must be specified\n")


def test_install_replaces_its_own_launchers_and_nothing_else(tmp_path: Path) -> None:
    assert run_command("kafka-tools", "install", str(tmp_path)).code == 0
    assert run_command("kafka-tools", "install", str(tmp_path)).code == 0
    (tmp_path / "kafka-topics").write_text("#!/bin/sh\n# Kafka's own\n")
    (tmp_path / "kafka-configs").unlink()
    answer = run_command("kafka-tools", "install", str(tmp_path))
    assert answer.code == 1
    assert f"{tmp_path}/kafka-topics is not a launcher of kraft" in answer.errors
    assert not (tmp_path / "kafka-configs").exists()


def test_the_document_lists_every_tool() -> None:
    lines = (ROOT / "docs" / "kafka-tools.md").read_text().splitlines()
    assert {line.split("`")[1] for line in lines if line.startswith("| `")} == set(NAMES)
