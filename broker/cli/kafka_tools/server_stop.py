"""kafka-server-stop: stops the nodes of this machine that `kraft start` runs (kafka-server-stop.sh, KIP-979)."""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from broker.cli.errors import UnreadableFile
from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.options import integer
from broker.cli.node_config import read_host
from broker.cli.printing import print_line
from broker.cli.start_arguments import read_start_arguments
from broker.config import KafkaConfig
from metadata.configuration import InvalidConfig

_PROCESSES: Final = Path("/proc")
_MODULE: Final = "broker.cli"
# The parent's id among the fields of /proc/<pid>/stat after the name of the program.
_PARENT: Final = 1


@attrs.frozen
class _Process:
    """A process of `kraft start`. `arguments` are those after `start`; `directory` is None if it cannot be told."""

    process_id: int
    parent_id: int
    arguments: Sequence[str]
    directory: str | None

    def config(self) -> KafkaConfig | None:
        """The node's configuration; None if it cannot be read from here, or if this is a supervisor of several."""
        started = read_start_arguments(self.arguments)
        if started is None:
            return None
        path = started.properties
        if path is not None and not os.path.isabs(path):
            if self.directory is None:
                return None
            path = os.path.join(self.directory, path)
        try:
            host = read_host(path, started.settings)
        except (OSError, InvalidConfig, UnreadableFile):
            return None
        return host.config if len(host.brokers) == 1 else None


async def run(arguments: Sequence[str]) -> int:
    """Sends SIGTERM, or the signal in the variable SIGNAL, to the nodes. Returns exit code 1 if no node runs at all.

    As in Kafka, no message says that none of the nodes is meant.
    """
    parser = ToolParser("kafka-server-stop", description="Stops the nodes of this machine.", allow_abbrev=False)
    parser.add_argument("--process-role", metavar="ROLE", help="Only nodes with exactly this process.roles.")
    parser.add_argument("--node-id", type=integer, metavar="ID", help="Only this node; wins over --process-role.")
    options = parser.parse_args(arguments)
    if options.node_id is not None and options.process_role:
        print_line("When both node-id and process-role are provided, the value for node-id will take precedence")
    running = [each async for each in _nodes()]
    if not running:
        print_line("No kafka server to stop")
        return 1
    if options.node_id is None and not options.process_role:
        # A supervisor stops its brokers itself, in order.
        ids = {each.process_id for each in running}
        stopped = [each for each in running if each.parent_id not in ids]
    else:
        stopped = [each for each in running if _is_meant(each, options.node_id, options.process_role)]
    name = os.environ.get("SIGNAL") or "TERM"
    for process in stopped:
        os.kill(process.process_id, signal.Signals[f"SIG{name.removeprefix('SIG')}"])
    return 0


async def _nodes() -> AsyncIterator[_Process]:
    """The processes of this machine that run a node and whose arguments may be read."""
    try:
        found = _of_files()
    except FileNotFoundError:
        found = await _of_ps()
    for process_id, parent_id, words in found:
        at = next((index for index, word in enumerate(words) if _is_command(words, index, word)), None)
        if at is not None and words[at + 1 : at + 2] == ["start"]:
            yield _Process(process_id, parent_id, words[at + 2 :], await _directory(process_id))


def _of_files() -> list[tuple[int, int, list[str]]]:
    """Processes with their parents and command lines, as Linux tells them. Raises FileNotFoundError elsewhere."""
    found = []
    for name in sorted(os.listdir(_PROCESSES)):
        if not (name.isascii() and name.isdecimal()):
            continue
        try:
            words = (_PROCESSES / name / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
            parent_id = int((_PROCESSES / name / "stat").read_bytes().rpartition(b")")[2].split()[_PARENT])
        except OSError:
            continue  # it has ended, or belongs to another user
        found.append((int(name), parent_id, words))
    return found


async def _of_ps() -> list[tuple[int, int, list[str]]]:
    """Processes with their parents and command lines, as ps prints them: an argument with spaces comes as several."""
    lines = await _output("ps", "-A", "-ww", "-o", "pid=,ppid=,args=")
    return [(int(words[0]), int(words[1]), words[2:]) for words in map(str.split, lines) if words]


async def _directory(process_id: int) -> str | None:
    """The working directory of a process, as Linux tells it, or lsof, which is part of macOS."""
    try:
        return os.readlink(_PROCESSES / str(process_id) / "cwd")
    except OSError:
        lines = await _output("lsof", "-a", "-p", str(process_id), "-d", "cwd", "-Fn")
        return next((line[1:] for line in lines if line.startswith("n/")), None)


async def _output(*command: str) -> list[str]:
    """The lines that a program prints; none if it is not installed."""
    try:
        ended = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    except FileNotFoundError:
        return []
    return ended.stdout.decode("utf-8", "surrogateescape").splitlines()


def _is_command(words: Sequence[str], index: int, word: str) -> bool:
    """True if the word is where Python is told to run `kraft`: the script, or the module after -m."""
    if index == 0 or not os.path.basename(words[0]).startswith("python"):
        return False
    return (index == 1 and os.path.basename(word) == "kraft") or (words[index - 1] == "-m" and word == _MODULE)


def _is_meant(process: _Process, node_id: int | None, role: str | None) -> bool:
    config = process.config()
    if config is None:
        return False
    if node_id is not None:
        return config.node_id == node_id
    assert role is not None, "one of both is given"
    roles = {name for name, has in (("broker", config.is_broker), ("controller", config.is_controller)) if has}
    return roles == {each.strip() for each in role.split(",")}
