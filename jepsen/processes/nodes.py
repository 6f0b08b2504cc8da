"""A cluster of combined controllers and brokers as processes: formatted, started, killed, paused, started again.

    async with running_cluster(Path(directory), nodes=3) as cluster:
        cluster.nodes["n1"].kill()

Nodes speak to each other over `cluster.links`; clients reach them at `cluster.bootstrap`, which no fault touches.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from jepsen.processes.links import Links

_SERVES: Final = re.compile(rb"^kraft: listening on PLAINTEXT://", re.MULTILINE)
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0


@attrs.frozen
class Ports:
    """`client` is what clients use, `replication` and `controller` what nodes use among themselves."""

    client: int
    replication: int
    controller: int


class NodeProcess:
    """One node: `name`, `node_id`, its `directory` (data, config and output) and `ports`, over all its lives."""

    def __init__(
        self, name: str, node_id: int, directory: Path, ports: Ports, names: Mapping[str, str], *, is_controller: bool
    ) -> None:
        self.name = name
        self.node_id = node_id
        self.directory = directory
        self.ports = ports
        self.is_controller = is_controller
        self.properties_path = directory / "server.properties"
        self.output_path = directory / "output"
        self._names = ",".join(f"{other}={address}" for other, address in names.items())
        self._process: trio.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    async def format(self, cluster_id: str) -> None:
        command = self._command("format", "--cluster-id", cluster_id, "--config", str(self.properties_path))
        await trio.run_process(command, capture_stdout=True)

    async def start(self) -> None:
        """Start the process; it may take until others are there before it serves."""
        assert not self.is_running, f"{self.name} runs already"
        with self.output_path.open("ab") as output:
            self._process = await trio.lowlevel.open_process(
                self._command("start", str(self.properties_path)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._output_start = self.output_path.stat().st_size

    async def wait_serving(self) -> None:
        """Until it says that it listens. Raises AssertionError with the end of its output."""
        with trio.move_on_after(START_SECONDS):
            while not _SERVES.search(self.output()):
                assert self.is_running, f"{self.name} has ended:\n{self.output().decode()}"
                await trio.sleep(0.01)
            return
        raise AssertionError(f"{self.name} does not serve after {START_SECONDS} s:\n{self.output().decode()}")

    def output(self) -> bytes:
        """What this life of the node has written."""
        with self.output_path.open("rb") as file:
            file.seek(self._output_start)
            return file.read()

    async def kill(self) -> None:
        """kill -9."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, and wait."""
        await self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def _end(self, signal_number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(signal_number)
        with trio.move_on_after(STOP_SECONDS):
            await self._process.wait()
            return
        self._process.kill()
        await self._process.wait()
        raise AssertionError(f"{self.name} does not end:\n{self.output().decode()}")

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "jepsen.processes.names", self._names, *arguments]


@attrs.frozen
class ProcessCluster:
    nodes: Mapping[str, NodeProcess]
    links: Links

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.ports.client}" for node in self.nodes.values())

    def by_id(self, node_id: int) -> NodeProcess:
        return next(node for node in self.nodes.values() if node.node_id == node_id)


@asynccontextmanager
async def running_cluster(
    directory: Path, *, nodes: int = 3, late_brokers: int = 0, overrides: Mapping[str, str] | None = None
) -> AsyncIterator[ProcessCluster]:
    """A formatted cluster that serves; at the end of the block its processes are killed.

    `nodes` are controllers and brokers at once. `late_brokers` are brokers alone, formatted and not started.
    """
    cluster = _laid_out(directory, nodes, late_brokers, overrides or {})
    processes = list(cluster.nodes.values())
    async with trio.open_nursery() as nursery:
        carried = {each.name: (each.ports.replication, each.ports.controller) for each in processes}
        await nursery.start(cluster.links.run, carried)
        cluster_id = await _random_cluster_id()
        try:
            for process in processes:
                await process.format(cluster_id)
            started = [process for process in processes if process.is_controller]
            for process in started:
                await process.start()
            for process in started:
                await process.wait_serving()
            yield cluster
        finally:
            with trio.CancelScope(shield=True):
                for process in processes:
                    if process.is_running:
                        await process.kill()
        nursery.cancel_scope.cancel()


def _laid_out(directory: Path, nodes: int, late_brokers: int, overrides: Mapping[str, str]) -> ProcessCluster:
    """Names, addresses, ports, directories and properties; nothing runs."""
    names = [f"n{index}" for index in range(1, nodes + late_brokers + 1)]
    links = Links({name: f"127.0.1.{index}" for index, name in enumerate(names, 1)})
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    processes: dict[str, NodeProcess] = {}
    for index, name in enumerate(names, 1):
        seen = links.seen_from(name)
        process = NodeProcess(name, index, directory / name, ports[name], seen, is_controller=index <= nodes)
        process.directory.mkdir(parents=True)
        processes[name] = process
    voters = [
        f"{each.node_id}@{each.name}:{each.ports.controller}" for each in processes.values() if each.is_controller
    ]
    for process in processes.values():
        settings = {**_settings(process), "controller.quorum.voters": ",".join(voters), **overrides}
        process.properties_path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return ProcessCluster(processes, links)


async def _random_cluster_id() -> str:
    result = await trio.run_process([sys.executable, "-m", "broker.cli", "random-uuid"], capture_stdout=True)
    return result.stdout.decode().strip()


def _settings(process: NodeProcess) -> dict[str, str]:
    own = process.ports
    listeners = f"PLAINTEXT://127.0.0.1:{own.client},REPLICATION://{process.name}:{own.replication}"
    if process.is_controller:
        listeners += f",CONTROLLER://{process.name}:{own.controller}"
    return {
        "process.roles": "controller,broker" if process.is_controller else "broker",
        "node.id": str(process.node_id),
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(process.directory / "data"),
    }


def _free_ports(nodes: int) -> list[Ports]:
    """Three for each node, free on all addresses of this machine; they stay the same over restarts."""
    with contextlib.ExitStack() as held:
        numbers = []
        for _ in range(3 * nodes):
            sock = held.enter_context(socket.socket())
            sock.bind(("", 0))
            numbers.append(sock.getsockname()[1])
    return [Ports(*numbers[3 * index : 3 * index + 3]) for index in range(nodes)]
