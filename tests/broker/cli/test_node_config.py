"""The log directories of the nodes of a host, as the commands read them from a file and overrides."""

from pathlib import Path

import pytest
import trio

from broker.cli.local_cluster import open_cluster
from broker.cli.local_security import LocalSecurity
from broker.cli.node_config import read_host
from kraft.env import real_env
from metadata.configuration import InvalidConfig
from tests.support.cluster_process import run_command


def read(*directories: Path | str, overrides: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    host = read_host(None, [f"log.dirs={','.join(map(str, directories))}", *overrides])
    return [broker.config.log_directories for broker in host.brokers]


def test_a_log_directory_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for other in (tmp_path / "a", f"{tmp_path}/a/", f"{tmp_path}/b/../a", tmp_path / "link"):
        with pytest.raises(InvalidConfig, match="Duplicate log directory found: "):
            read(tmp_path / "a", other)


def test_a_log_directory_within_another_is_refused(tmp_path: Path) -> None:
    """It could be taken for the directory of a partition, here of the topic `disk`."""
    outer, inner, beside = tmp_path / "a", tmp_path / "a" / "disk-1", tmp_path / "ab"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    for nested in ((outer, inner), (inner, outer), (outer, tmp_path / "link"), ("/", outer)):
        with pytest.raises(InvalidConfig, match="is within log directory"):
            read(*nested)
    assert read(outer, beside) == [(str(outer), str(beside))]


def test_the_metadata_log_may_share_a_log_directory_but_not_be_within_one(tmp_path: Path) -> None:
    assert read(tmp_path / "a", overrides=(f"metadata.log.dir={tmp_path / 'a'}",))
    assert read(tmp_path / "a", overrides=(f"metadata.log.dir={tmp_path}",))
    with pytest.raises(InvalidConfig, match="is within log directory"):
        read(tmp_path / "a", overrides=(f"metadata.log.dir={tmp_path / 'a' / 'm'}",))


def test_log_directories_of_one_broker_of_a_host_are_not_within_those_of_another(tmp_path: Path) -> None:
    two = ("kraft.brokers=2", "node.id=1")
    assert len(read(tmp_path / "a", tmp_path / "a" / "b", overrides=two)) == 2
    with pytest.raises(InvalidConfig, match="is within log directory"):
        read(tmp_path / "a", tmp_path / "a" / "broker-2", overrides=two)


@pytest.mark.parametrize("arguments", [["start"], ["format", "--standalone", "-t", "A" * 22, "-c"]])
def test_nested_log_directories_end_a_command_with_one_line(tmp_path: Path, arguments: list[str]) -> None:
    outer, properties = tmp_path / "a", tmp_path / "server.properties"
    properties.write_text(
        f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={outer},{outer}/disk-1\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    answer = run_command(*arguments, str(properties))
    assert answer.code == 1
    message = f"Log directory {outer}/disk-1 is within log directory {outer}, where it could be taken for a partition's"
    assert answer.errors.splitlines() == [f"kraft: {message}"]
    assert list(tmp_path.iterdir()) == [properties]


def test_working_directory_with_a_comma_does_not_make_two_log_directories_of_a_relative_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a,b").mkdir()
    monkeypatch.chdir(tmp_path / "a,b")
    with pytest.raises(InvalidConfig, match=f"^Log directory {tmp_path}/a,b/data: a comma separates log directories"):
        read("data")
    (broker,) = read_host(None, [f"log.dirs={tmp_path / 'c'}", "metadata.log.dir=data"]).brokers
    assert broker.config.metadata_log_dir == f"{tmp_path}/a,b/data"


def test_cluster_is_not_made_in_a_directory_with_a_comma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = real_env(lambda kind, /, **fields: None)
    with pytest.raises(InvalidConfig, match=f"^Log directory {tmp_path}/a,b: a comma separates log directories"):
        trio.run(open_cluster, env, str(tmp_path / "a,b"), 1, 9092, None, LocalSecurity.SSL)
    assert list(tmp_path.iterdir()) == []


def test_a_log_directory_with_a_null_byte_is_refused() -> None:
    """A file of properties can contain one, as the escape `\\u0000`."""
    for directories in (["/a\0b"], ["/a", "/b\0b"]):
        with pytest.raises(InvalidConfig, match=r"^Log directory /[ab]\0b: embedded null byte$"):
            read(*directories)
    with pytest.raises(InvalidConfig, match=r"^Log directory /m\0m: embedded null byte$"):
        read("/a", overrides=("metadata.log.dir=/m\0m",))
