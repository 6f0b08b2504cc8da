"""A changed metadata directory is refused, and nothing in the log directories is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from broker.node import MetadataDirectoryRefused, NotFormatted
from broker.wire.records import Record, encode_batch
from tests.support.requests import batch, create_topic, produce, read_values
from tests.support.running_node import running_node
from tests.support.wire_client import connected

METADATA = "__cluster_metadata-0"
CHECKPOINT = f"{0:020}-{0:010}.checkpoint"
KAFKAS_RECORDS = encode_batch([Record(timestamp=0, key=None, value=b"KRaftVersion")])


async def used(directory: Path) -> Path:
    """The data directory of a node that has stopped, with one record."""
    async with running_node(directory) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"kept"))
    return directory / "data"


def everything(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def refused(directory: Path, error: type[Exception], match: str) -> None:
    before = everything(directory)
    with pytest.RaisesGroup(pytest.RaisesExc(error, match=match), flatten_subgroups=True), trio.fail_after(10):
        async with running_node(directory):
            pass
    assert everything(directory) == before


async def serves_what_it_had(directory: Path) -> None:
    async with running_node(directory) as node, connected(node.port) as client:
        assert await read_values(client) == [b"kept"]


async def test_data_without_meta_properties_is_refused_and_no_cluster_is_created(tmp_path: Path) -> None:
    properties = (await used(tmp_path)) / "meta.properties"
    content = properties.read_text()
    properties.unlink()
    await refused(tmp_path, NotFormatted, "No readable meta.properties files found in .* Restore the file .* node.id=1")
    properties.write_text(content)
    await serves_what_it_had(tmp_path)


@pytest.mark.parametrize(
    "lose",
    [
        lambda path: shutil.rmtree(path),
        lambda path: [file.unlink() for file in path.iterdir()],
        lambda path: [file.unlink() for file in path.glob("*.log")],
    ],
    ids=["directory gone", "directory emptied", "log gone"],
)
async def test_lost_metadata_log_is_refused_and_no_log_is_renamed(
    tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    data = await used(tmp_path)
    shutil.copytree(data / METADATA, tmp_path / "backup")
    lose(data / METADATA)
    await refused(tmp_path, MetadataDirectoryRefused, "the log in .*__cluster_metadata-0 is gone. Restore it")
    assert (data / "topic-0").is_dir()
    shutil.rmtree(data / METADATA, ignore_errors=True)
    shutil.copytree(tmp_path / "backup", data / METADATA)
    await serves_what_it_had(tmp_path)


async def test_wrong_directory_id_of_the_only_voter_is_refused_and_the_right_one_is_named(tmp_path: Path) -> None:
    properties = (await used(tmp_path)) / "meta.properties"
    lines = properties.read_text().splitlines()
    right = next(line for line in lines if line.startswith("directory.id="))
    properties.write_text(
        "\n".join([*(line for line in lines if line != right), "directory.id=JEXY6aqzQY-32P5TStzaFg"])
    )
    await refused(tmp_path, MetadataDirectoryRefused, f"no leader can be elected.* set {right} in ")
    properties.write_text("\n".join(lines))
    await serves_what_it_had(tmp_path)


async def test_metadata_log_in_another_log_directory_is_refused(tmp_path: Path) -> None:
    """KafkaRaftServer.initializeLogDirs has the same rule."""
    data = await used(tmp_path)
    with pytest.RaisesGroup(
        pytest.RaisesExc(MetadataDirectoryRefused, match="Found unexpected metadata location"), flatten_subgroups=True
    ):
        async with running_node(tmp_path, log_dirs=f"{tmp_path / 'new'},{data}"):
            pass


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", f"{METADATA}/{CHECKPOINT}", f"{METADATA}/{0:020}.log"])
async def test_directory_of_apache_kafka_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """`kafka-storage format` writes the first file or, with voters, the second; a Kafka node writes the third."""
    data = await used(tmp_path)
    shutil.rmtree(data / METADATA)
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).write_bytes(KAFKAS_RECORDS)
    await refused(tmp_path, MetadataDirectoryRefused, f"Apache Kafka.*{name}.* has a format of its own.*kraft format")


async def test_interrupted_creation_of_a_cluster_starts_again(tmp_path: Path) -> None:
    """The empty metadata log is written before meta.properties."""
    log = tmp_path / "data" / METADATA / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    log.touch()
    async with running_node(tmp_path):
        pass
