"""A controller whose disk has lost metadata refuses to start, and `kraft accept-loss` lets it start without."""

from pathlib import Path

import pytest

from broker.cli.main import main
from broker.client.admin import NewTopic
from broker.client.blocking import SyncAdmin
from tests.support.node_process import NodeProcess

LOG = "__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture
def damaged(tmp_path: Path) -> NodeProcess:
    """A node whose log has a flipped bit in the entry that created the topic "second". It is down."""
    node = NodeProcess(tmp_path / "data")
    node.start()
    with SyncAdmin(node.bootstrap) as admin:
        for topic in ("first", "second"):
            admin.create_topics([NewTopic(topic, 1, 1)])
    node.kill()
    path = node.data_dir / LOG
    content = bytearray(path.read_bytes())
    content[content.rindex(b"second")] ^= 0x20
    path.write_bytes(content)
    return node


def run(node: NodeProcess, *arguments: str) -> int:
    overrides = [part for key, value in node.settings.items() for part in ("--override", f"{key}={value}")]
    return main(["accept-loss", *overrides, *arguments])


def test_node_starts_only_after_the_loss_is_accepted(damaged: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"was durable\. .*kraft accept-loss"):
            damaged.start()
    assert run(damaged, "--dry-run") == 0
    assert capsys.readouterr().out.startswith("Would give up 2 records of the metadata, from offset ")
    with pytest.raises(AssertionError, match="kraft accept-loss"):
        damaged.start()

    assert run(damaged) == 0
    assert capsys.readouterr().out.startswith("Gave up 2 records of the metadata, from offset ")
    damaged.start()
    with SyncAdmin(damaged.bootstrap) as admin:
        assert [topic.name for topic in admin.list_topics()] == ["first"]
    damaged.stop()
    assert run(damaged) == 0
    assert capsys.readouterr().out == "Nothing is lost.\n"


def test_command_refuses_while_the_node_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = NodeProcess(tmp_path / "data")
    node.start()
    try:
        assert run(node) == 1
        assert "Failed to acquire lock" in capsys.readouterr().err
    finally:
        node.stop()


def test_directory_without_a_metadata_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(NodeProcess(tmp_path / "data")) == 1
    assert "has no metadata log" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
