"""A node whose files are removed while it runs. It imports many modules at their first use."""

import sys
from pathlib import Path

from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from jepsen.processes.server_process import ServerProcess
from tests.support.node_process import NodeProcess
from tests.support.wire_client import connected

# `kraft`, for which no file of a module is there any more once the file of its first argument exists.
PROGRAM = """
import os, sys
from broker.cli import main

class Removed:
    def find_spec(self, name, path=None, target=None):
        if os.path.exists(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Removed())
sys.exit(main(sys.argv[2:]))
"""


class NodeWithoutFiles(NodeProcess):
    """A node whose files can be removed."""

    @property
    def removed(self) -> Path:
        return self.data_dir.with_name("removed")

    def command(self) -> list[str]:
        return [sys.executable, "-c", PROGRAM, str(self.removed), *super().command()[1:]]

    def launch(self) -> None:
        ServerProcess.launch(self)


async def test_a_node_that_cannot_import_its_coordinators_ends_and_says_why(tmp_path: Path) -> None:
    node = NodeWithoutFiles(tmp_path / "node")
    node.start()
    try:
        async with connected(node.port) as client:
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
            await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            node.removed.touch()
            topic = CreatableTopic(name="__consumer_offsets", num_partitions=1, replication_factor=1)
            await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            assert node.wait_ended() == 1
    finally:
        node.discard()
    output = node.output_tail()
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("kraft: No module named 'broker.coordinator.")
    assert output.endswith("If the files of kraft were replaced or removed while it ran, start it again")
