"""The examples of docs/testing-simulation.md: an order service with two bugs, which its checks find."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jepsen.__main__ import main
from tests.support.example_repository import SIMULATION, write_repository
from tests.support.source_code import ROOT


def run_example(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SEEDS": "1", "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture
def run_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Runs `python -m jepsen` in `tmp_path`. A process of its own would take a second to import the nodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEEDS", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["jepsen", *arguments])
        try:
            main()
        except SystemExit as exit_:
            return str(exit_)
        return capsys.readouterr().out

    yield run
    for name in ("shop", "test_shop"):  # each test has modules of its own with these names
        sys.modules.pop(name, None)


def test_bugs_are_found_and_the_mended_service_passes(tmp_path: Path) -> None:
    write_repository(tmp_path, SIMULATION)
    output = run_example(tmp_path, "pytest", "-q", "-p", "no:cacheprovider")
    assert "3 passed" in output, output


def test_the_command_runs_seeds_of_a_function(tmp_path: Path, run_command: Callable[..., str]) -> None:
    write_repository(tmp_path, SIMULATION)
    function = "test_shop:test_transactions_write_each_invoice_once"
    output = run_command("sim", "--application", function, "--seed", "5")
    assert "1 seeds without a failure" in output, output
    (tmp_path / "failing.py").write_text("async def fail(machine):\n    assert False, 'at once'\n")
    output = run_example(tmp_path, "jepsen", "sim", "--application", "failing:fail", "--seed", "7")
    assert "seed 7 fails after" in output, output
    assert "AssertionError: at once" in output, output
    assert "python -m jepsen sim --application failing:fail --seed 7" in output, output


def test_the_command_runs_an_application_with_its_options(tmp_path: Path, run_command: Callable[..., str]) -> None:
    program = """
        import trio
        from jepsen.testing import simulate

        async def look(machine):
            await trio.sleep(3)
            assert False, f"{len(machine.bootstrap_servers)} nodes after {trio.current_time():.0f} s"

        def run():
            simulate(look)
    """
    (tmp_path / "shop.py").write_text(textwrap.dedent(program))
    command = ["sim", "--application"]
    output = run_command(*command, "shop:look", "--seed", "7", "--nodes", "1", "--faults", "none")
    assert "AssertionError: 1 nodes after 3 s" in output, output
    assert "python -m jepsen sim --application shop:look --faults none --nodes 1 --seed 7" in output, output
    assert "1 seeds without" in run_command(*command, "shop:look", "--time", "1", "--nodes", "1")
    refusals = {
        ("shop:run", "--nodes", "1"): "--nodes: shop:run calls simulate, whose arguments say that",
        ("shop:look", "--nodes", "quorum-1"): "--nodes is the number of nodes of an application's cluster",
        ("shop:look", "--faults", "crsh"): "no fault is called 'crsh'; there are crash, ",
        ("shop:look", "--events"): "--events does not apply to applications",
    }
    for arguments, message in refusals.items():
        output = run_command(*command, *arguments)
        assert output.startswith(message), output
