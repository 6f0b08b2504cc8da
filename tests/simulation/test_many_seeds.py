"""Runs of more seeds than the processes of one pool take."""

import argparse

import pytest

from jepsen.simulation import command


def test_all_seeds_are_run_when_their_processes_are_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "RUNS_PER_PROCESS", 2)
    options = argparse.ArgumentParser()
    command.add_arguments(options)
    arguments = "--seed 1 --count 9 --time 1 --faults none --nodes quorum-1 --jobs 2"
    assert command.run(options.parse_args(arguments.split())) == 0
    assert capsys.readouterr().out.startswith("9 seeds, 0 with violations")
