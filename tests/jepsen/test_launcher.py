"""A node that the tests' launcher has forked is what `kraft start` is: its signals, files, directory and end."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.processes.launcher import Launcher, Program
from jepsen.processes.nodes import START_SECONDS
from jepsen.processes.server_process import ServerProcess
from tests.support.linux import reads_proc
from tests.support.node_process import NodeProcess


class CommandProcess(NodeProcess):
    """A node that is started by the command."""

    def launch(self) -> None:
        ServerProcess.launch(self)


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "launched")
    yield node
    node.discard()


def signals_and_files(node: NodeProcess) -> tuple[dict[str, str], list[str]]:
    """The masks of the process's signals, and its open files, without inodes and names of directories."""
    status = Path(f"/proc/{node.pid}/status").read_text()
    files = [os.readlink(each) for each in Path(f"/proc/{node.pid}/fd").iterdir()]
    return (
        dict(re.findall(r"^(Sig(?:Blk|Ign|Cgt)):\s(\w+)$", status, re.MULTILINE)),
        sorted(re.sub(r"\[\d+\]|^.*/(?:launched|started)", "", name) for name in files),
    )


@reads_proc
def test_launched_node_has_the_signals_and_files_of_a_started_one(launched: NodeProcess, tmp_path: Path) -> None:
    started = CommandProcess(tmp_path / "started")
    try:
        started.start()
        launched.start()
        assert signals_and_files(launched) == signals_and_files(started)
        started.stop()
        launched.stop()
    finally:
        started.discard()


@reads_proc
def test_launched_node_runs_in_the_directory_of_the_test(
    launched: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    launched.overrides["log.dirs"] = "relative"
    launched.start()
    assert (tmp_path / "relative" / "meta.properties").exists()
    assert Path(f"/proc/{launched.pid}/cwd").readlink() == tmp_path.resolve()
    launched.stop()


def test_end_of_a_launched_node_has_its_exit_code(launched: NodeProcess) -> None:
    launched.overrides["process.roles"] = "neither"
    launched.launch()
    assert launched.wait_ended() == 1
    assert "process.roles" in launched.output()
    del launched.overrides["process.roles"]
    launched.start()
    with pytest.raises(subprocess.TimeoutExpired):
        launched.process.wait(0.01)
    launched.kill()
    assert launched.process.returncode == -signal.SIGKILL
    launched.process.send_signal(signal.SIGTERM)  # like Popen, none after the end


@pytest.mark.parametrize(
    "preparation",
    ["import absent", "1 /", "raise ValueError", "", "def prepare():\n    yield\n    raise ValueError"],
    ids=["import", "syntax", "import-raises", "no-function", "steps-raise"],
)
def test_preparation_that_fails_does_not_end_the_launcher(
    preparation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_preparation.py").write_text(preparation)
    (tmp_path / "printing_program.py").write_text("print('it runs')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launcher = Launcher()
    try:
        with (tmp_path / "output").open("wb") as output:
            program = Program("printing_program", ("failing_preparation",), "failing_preparation")
            assert launcher.start(program, (), output.fileno()).wait(START_SECONDS) == 0
    finally:
        launcher.close()
    assert (tmp_path / "output").read_text() == "it runs\n"
