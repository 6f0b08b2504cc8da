"""The scrubber of a running node, and of a cluster: flipped bits are found and repaired, and nothing wrong is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from broker.cli.commands.cluster_health import examine_cluster
from broker.client import Admin
from broker.node import scrubbing
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.env import RealDisk, RealFile
from tests.support.replicated_topics import content, create_replicated, send, stored, until_replicated
from tests.support.requests import batch, create_topic, produce, read_values
from tests.support.running_cluster import ClusterNode, RunningCluster, running_cluster
from tests.support.running_node import RunningNode, running_node
from tests.support.scrubbed_logs import flipped
from tests.support.wire_client import WireClient, connected

# Passes one after the other, at once.
AT_ONCE = {
    "log.initial.task.delay.ms": "0",
    "log.scrub.interval.ms": "1",
    "log.scrub.io.max.bytes.per.second": str(1 << 40),
}
COUNT = 40
WITHIN_S = 20
# Files of the directory of a node with one topic, a bit of each, and whether it is the only copy of a partition.
DERIVED = {
    "meta.properties": "meta.properties",
    "recovery-point-offset-checkpoint": "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint": "replication-offset-checkpoint",
    "closed index": "topic-0/00000000000000000000.index",
    "closed time index": "topic-0/00000000000000000000.timeindex",
    "snapshot": "topic-0/*.snapshot",
    "epochs": "topic-0/leader-epoch-checkpoint",
    "topic id": "topic-0/partition.metadata",
}
METADATA = {
    "quorum-state": "__cluster_metadata-0/quorum-state",
    "durable-end": "__cluster_metadata-0/durable-end",
    "metadata log": "__cluster_metadata-0/*.log",
    "metadata snapshot": "__cluster_metadata-0/*.checkpoint",
}


async def fill(client: WireClient) -> None:
    await create_topic(client, configs={"internal.segment.bytes": "1000", "index.interval.bytes": "100"})
    for number in range(COUNT):
        assert (await produce(client, batch(b"%d" % number, timestamp=number + 1))).error_code == 0


async def all_values(client: WireClient) -> list[bytes | None]:
    found: list[bytes | None] = []
    with trio.fail_after(WITHIN_S):
        while len(found) < COUNT:
            found += await read_values(client, len(found))
    return found


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not holds():
            await trio.sleep(0.02)


def flip(data: Path, pattern: str) -> tuple[Path, bytes]:
    """Flip a bit in the middle of a file, in place; returns its path and what it was."""
    path = sorted(data.glob(pattern))[-1]
    before = path.read_bytes()
    with path.open("r+b") as file:
        file.write(flipped(before, len(before) * 4 + 1))
    return path, before


def rebuilt(node: RunningNode) -> list[str]:
    kinds = ("storage_file_rebuilt", "metadata_file_rebuilt")
    return [str(event["path"]) for kind in kinds for event in node.traced.of(kind)]


@pytest.mark.parametrize("name", [*DERIVED, *METADATA])
async def test_running_node_makes_a_damaged_file_again(tmp_path: Path, name: str) -> None:
    settings = {**AT_ONCE, "metadata.log.max.record.bytes.between.snapshots": "500"}
    async with running_node(tmp_path, **settings) as node, connected(node.port) as client:
        await fill(client)
        await until(lambda: bool(list((tmp_path / "data").glob("__cluster_metadata-0/*.checkpoint"))))
        pattern = (DERIVED | METADATA)[name]
        await until(lambda: any(each.stat().st_size for each in (tmp_path / "data").glob(pattern)))
        assert rebuilt(node) == []
        path, before = flip(tmp_path / "data", pattern)
        await until(lambda: str(path) in rebuilt(node))
        if name in DERIVED:
            assert path.read_bytes() == before
        assert await all_values(client) == [b"%d" % number for number in range(COUNT)]
        assert node.traced.of("metadata_file_damaged") == []
        assert set(rebuilt(node)) == {str(path)}
    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert await all_values(client) == [b"%d" % number for number in range(COUNT)]


async def test_scrubber_is_off_until_a_dynamic_config_switches_it_on(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, **AT_ONCE | {"log.scrub.enable": "false"}) as node,
        connected(node.port) as client,
    ):
        await fill(client)
        path, _ = flip(tmp_path / "data", DERIVED["closed index"])
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert rebuilt(node) == []
        await set_config(client, "log.scrub.enable", "true")
        await until(lambda: str(path) in rebuilt(node))


async def set_config(client: WireClient, name: str, value: str) -> None:
    resource = AlterConfigsResource(4, "", [AlterableConfig(name=name, value=value)])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0, response.responses[0].error_message


@pytest.mark.parametrize("segment", ["closed", "active"])
@pytest.mark.parametrize("of_leader", [True, False])
async def test_damaged_segment_is_repaired_from_another_replica(tmp_path: Path, segment: str, of_leader: bool) -> None:
    async with running_cluster(tmp_path, overrides=AT_ONCE) as cluster:
        await create_replicated(cluster, configs={"internal.segment.bytes": "1000"})
        values = [b"%d" % number for number in range(COUNT)]
        for value in values:
            await send(cluster, 1, value)
        await until_replicated(cluster, tmp_path, (1, 2, 3))
        before = content(tmp_path, 1)
        node_id = 1 if of_leader else 2
        directory = Path(cluster.nodes[node_id].config.log_directories[0]) / "topic-0"
        paths = sorted(directory.glob("*.log"))
        flip(directory, (paths[0] if segment == "closed" else paths[-1]).name)
        await until(lambda: content(tmp_path, node_id) == before)
        await cluster.until(lambda: bool(damage_of(cluster, node_id)))
        assert stored(tmp_path, node_id) == values


def damage_of(cluster: RunningCluster, node_id: int) -> list[dict[str, object]]:
    return cluster.nodes[node_id].traced.of("partition_damaged")


class BadSector(RealDisk):
    """A device that returns a wrong bit in each snapshot of the metadata, also in new ones, while `is_bad`."""

    def __init__(self) -> None:
        self.is_bad = False

    def open(self, path: str, *, create: bool = False) -> Any:
        return FileOnBadSector(self, super().open(path, create=create))


@attrs.frozen
class FileOnBadSector:
    disk: BadSector
    file: RealFile

    def read_from_device(self, offset: int, count: int) -> bytes:
        data = self.file.read(offset, count)
        is_hit = self.disk.is_bad and self.file.path.endswith(".checkpoint")
        return flipped(data, 8) if is_hit and len(data) > 1 else data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


async def test_health_names_a_file_of_the_metadata_that_cannot_be_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "_WAIT_S", 0.2)
    disk = BadSector()
    settings = {**AT_ONCE, "metadata.log.max.record.bytes.between.snapshots": "500"}
    async with (
        running_node(tmp_path, disk=disk, **settings) as node,
        connected(node.port) as client,
        Admin(f"127.0.0.1:{node.port}") as admin,
    ):
        await create_topic(client)
        await until(lambda: bool(list((tmp_path / "data").glob("__cluster_metadata-0/*.checkpoint"))))
        assert (await examine_cluster(admin)).problems == []
        disk.is_bad = True
        with trio.fail_after(WITHIN_S):
            while not (problems := (await examine_cluster(admin)).problems):
                await trio.sleep(0.05)
        paths = [str(each) for each in (tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint")]
        assert any(problems[0].startswith(f"{path} of the metadata is damaged on broker 1 (") for path in paths)
        disk.is_bad = False
        with trio.fail_after(WITHIN_S):
            while (await examine_cluster(admin)).problems:
                await trio.sleep(0.05)


def flip_in_metadata_log(node: ClusterNode, value: bytes) -> Path:
    (path,) = Path(node.config.log_directories[0]).glob("__cluster_metadata-0/*.log")
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.write(flipped(content, 8 * content.index(value)))
    return path


async def test_lagging_controller_gets_a_snapshot_in_place_of_a_damaged_entry(tmp_path: Path) -> None:
    """The active controller goes on, and repairs its log at once: the next pass of the scrubber is a week away."""
    async with running_cluster(tmp_path) as cluster:
        active = await cluster.active_after()
        away = next(node for node in cluster.nodes.values() if node is not active)
        await away.stop()
        for number in range(3):
            async with connected(active.port) as client:
                await create_topic(client, f"created-{number}")
        path = flip_in_metadata_log(active, b"created-1")
        await cluster.start(away.node_id)
        await cluster.until(lambda: active.traced.of("metadata_file_rebuilt") != [])
        assert [event["path"] for event in active.traced.of("metadata_file_rebuilt")] == [str(path)]
        assert len(active.traced.of("log_entry_damaged")) == 1
        assert active.is_up
