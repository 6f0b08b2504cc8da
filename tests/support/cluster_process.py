"""A cluster as an operator runs it: formatted nodes, each in its own process, and the `kraft` command."""

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

from broker.cli import main
from broker.storage.meta_properties import read_meta_properties
from broker.wire.uuids import encode_uuid, new_uuid
from jepsen.processes.ports import free_ports
from kraft.env import RealDisk
from tests.support.node_process import NodeProcess

WITHIN_S = 60.0


class Answer(NamedTuple):
    """The result of a command."""

    code: int
    output: str
    errors: str


def run_command(*arguments: str) -> Answer:
    """`kraft <arguments>` within this process, which is faster than a process of its own."""
    written = io.BytesIO()
    output = io.TextIOWrapper(written, encoding="utf-8", errors="surrogateescape", write_through=True)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(arguments)
    return Answer(code, written.getvalue().decode(errors="surrogateescape"), errors.getvalue())


def random_uuid() -> str:
    return encode_uuid(new_uuid(SystemRandom().randbytes))


class ClusterProcess:
    """Nodes by their ids. `voters` are the quorum's first voters; further nodes may also be controllers."""

    def __init__(
        self,
        directory: Path,
        *,
        voters: Sequence[int] = (1, 2, 3),
        others: Mapping[int, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """`others` are further nodes, with their roles. No process is started."""
        self.directory = directory
        self.cluster_id = random_uuid()
        self.voters = tuple(voters)
        roles = dict.fromkeys(voters, "broker,controller") | dict(others or {})
        ports = free_ports(2 * len(roles))
        self.nodes = {
            node_id: NodeProcess(directory / f"node-{node_id}", ports=ports[2 * index : 2 * index + 2])
            for index, node_id in enumerate(roles)
        }
        self.directory_ids = {node_id: random_uuid() for node_id in voters}
        self.brokers = [node_id for node_id in roles if "broker" in roles[node_id]]
        servers = ",".join(f"127.0.0.1:{self.nodes[voter].controller_port}" for voter in voters)
        for node_id, node in self.nodes.items():
            node.overrides |= {
                "process.roles": roles[node_id],
                "node.id": str(node_id),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": servers,
                **(overrides or {}),
            }
            if roles[node_id] == "broker":
                node.overrides["listeners"] = f"PLAINTEXT://127.0.0.1:{node.port}"
            elif roles[node_id] == "controller":
                node.overrides["listeners"] = f"CONTROLLER://127.0.0.1:{node.controller_port}"
            self.properties_path(node_id).write_text(
                "".join(f"{name}={value}\n" for name, value in node.settings.items())
            )

    def properties_path(self, node_id: int) -> Path:
        """The properties file with which the node is started."""
        return self.directory / f"node-{node_id}.properties"

    @property
    def bootstrap(self) -> str:
        return ",".join(self.nodes[node_id].bootstrap for node_id in self.brokers)

    def format(self, node_id: int, *, joins: bool = False) -> Answer:
        """Format a node as one of the first voters. Other nodes, and voters with `joins`, are formatted to join the
        quorum.
        """
        controllers = ",".join(
            f"{voter}@127.0.0.1:{self.nodes[voter].controller_port}:{self.directory_ids[voter]}"
            for voter in self.voters
        )
        founds = node_id in self.voters and not joins
        quorum = ["--initial-controllers", controllers] if founds else ["--no-initial-controllers"]
        config = str(self.properties_path(node_id))
        answer = run_command("format", "--config", config, "--cluster-id", self.cluster_id, *quorum)
        assert answer.code == 0, answer.errors
        return answer

    def start(self) -> None:
        """Format and start all nodes, and wait until they serve and every broker knows that they do."""
        for node_id, node in self.nodes.items():
            self.format(node_id)
            node.launch()
        for node in self.nodes.values():
            node.wait_serving()
        self.ask_every_broker(
            lambda described: sorted(broker["id"] for broker in described["brokers"]) == sorted(self.brokers),
            "cluster",
            "describe",
        )

    def stop(self, timeout: float = 20) -> float:
        """Shut down all running nodes at the same time. Returns the seconds until all had ended."""
        began = time.monotonic()
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.terminate()
        for node in running:
            code = node.wait_ended(timeout)
            assert code == 0, f"the node ended with {code} when asked to stop:\n{node.output_tail()}"
        return time.monotonic() - began

    def discard(self) -> None:
        """Kill all processes, whatever their state."""
        for node in self.nodes.values():
            node.discard()

    def ask_every_broker(self, holds: Callable[[Any], bool], *arguments: str) -> Any:
        """The JSON that a command prints, once `holds` is true for the answer of each running broker.

        A change is acknowledged once the active controller has committed it. Brokers learn of it a moment later, as in
        Kafka, so a test waits here before it relies on any broker's answer.
        """
        deadline = time.monotonic() + WITHIN_S
        for node_id in self.brokers:
            node = self.nodes[node_id]
            while node.is_running:
                answer = run_command(*arguments, "--bootstrap-server", node.bootstrap, "--json")
                if answer.code == 0 and holds(printed := json.loads(answer.output)):
                    break
                assert time.monotonic() < deadline, f"broker {node_id} answers {answer}"
                time.sleep(0.02)
        return printed

    def quorum(self, *arguments: str) -> Answer:
        """Run `kraft quorum <arguments>` with the running nodes as servers."""
        servers = ",".join(self.nodes[node_id].bootstrap for node_id in self.brokers if self.nodes[node_id].is_running)
        return run_command("quorum", "--bootstrap-server", servers, *arguments)

    def directory_id(self, node_id: int) -> str:
        """The directory id of the node's metadata log, from its latest formatting."""
        properties = read_meta_properties(RealDisk(), str(self.nodes[node_id].data_dir))
        assert properties is not None
        assert properties.directory_id is not None
        return encode_uuid(properties.directory_id)

    def add_controller(self, node_id: int, *arguments: str) -> Answer:
        """`kraft quorum add-controller` with the node's properties file."""
        config = str(self.properties_path(node_id))
        return self.quorum("--command-config", config, "add-controller", *arguments)

    def remove_controller(self, node_id: int, directory_id: str, *arguments: str) -> Answer:
        return self.quorum("remove-controller", "-i", str(node_id), "-d", directory_id, *arguments)

    def replication(self, *arguments: str) -> list[dict[str, str]]:
        """`kraft quorum describe --replication`: its rows by the names of the columns."""
        answer = self.quorum("describe", "--replication", *arguments)
        assert answer.code == 0, answer.errors
        names, *rows = ([cell.strip() for cell in line.split("\t")[:-1]] for line in answer.output.splitlines())
        return [dict(zip(names, row, strict=True)) for row in rows]

    def part(self, node_id: int) -> str:
        """The role of a node's present replica in the quorum: Leader, Follower or Observer.

        Waits until the leader knows the replica: a new leader knows an observer only from its first fetch on.
        """
        key = (str(node_id), self.directory_id(node_id))
        deadline = time.monotonic() + WITHIN_S
        while True:
            for row in self.replication():
                if (row["NodeId"], row["DirectoryId"]) == key:
                    return row["Status"]
            assert time.monotonic() < deadline, f"the leader does not know node {node_id}"
            time.sleep(0.02)

    def status(self) -> dict[str, str]:
        """`kraft quorum describe --status` by the names of its lines."""
        answer = self.quorum("describe", "--status")
        assert answer.code == 0, answer.errors
        return {name: value.strip() for name, _, value in (line.partition(":") for line in answer.output.splitlines())}

    def controller_id(self) -> int:
        """The node id of the active controller."""
        return int(self.status()["LeaderId"])


@contextlib.contextmanager
def new_cluster(directory: Path, **options: object) -> Iterator[ClusterProcess]:
    """A cluster that is not started yet. All its processes end with the block."""
    cluster = ClusterProcess(directory, **options)  # type: ignore[arg-type]
    try:
        yield cluster
    finally:
        cluster.discard()
