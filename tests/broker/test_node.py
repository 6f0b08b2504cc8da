"""A whole node: restarts and crashes, refused starts, and flush.messages."""

import errno
import json
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.node import MetadataDirectoryRefused, NotFormatted
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import MetaPropertiesError
from broker.wire.api.delete_topics import DeleteTopicsRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from tests.support.faulty_disk import FaultyDisk
from tests.support.linux import reads_proc
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce, produce_request, read_values
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected, only

CLEAN, CRASH = False, True


def end(node: RunningNode, crash: bool) -> None:
    """Crash the node at the end of the block in which it runs, or let it stop cleanly."""
    if crash:
        node.crash()


async def topics(port: int) -> dict[str, Any]:
    async with connected(port) as client:
        response = await client.call(MetadataRequest(topics=None), 12)
    return {topic.name: topic for topic in response.topics}


# Restarts


@pytest.mark.parametrize("crash", [CLEAN, CRASH])
async def test_topics_records_and_offsets_survive_a_restart(tmp_path: Path, crash: bool) -> None:
    ids = {}
    for life in range(3):
        async with running_node(tmp_path) as node, connected(node.port) as client:
            name = f"topic-{life}"
            ids[name] = await create_topic(client, name, partitions=2)
            for earlier in range(life + 1):
                answer = await produce(client, batch(b"%d" % life), topic=f"topic-{earlier}", index=1)
                assert answer.base_offset == life - earlier
            assert await read_values(client, topic="topic-0", indexes=[1]) == [b"%d" % each for each in range(life + 1)]
            end(node, crash)

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert {name: topic.topic_id for name, topic in (await topics(node.port)).items()} == ids
        assert await read_values(client, topic="topic-1", indexes=[1]) == [b"1", b"2"]
        assert (await fetch(client, topic="topic-0", indexes=[0])).high_watermark == 0


@pytest.mark.parametrize("crash", [CLEAN, CRASH])
async def test_retry_is_detected_after_a_restart(tmp_path: Path, crash: bool) -> None:
    def numbered(sequence: int) -> bytes:
        return batch(b"value", timestamp=now_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)

    now_ms = int(time.time() * 1000)  # producers in a snapshot may have expired since
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        for sequence in range(3):
            await produce(client, numbered(sequence))
        end(node, crash)

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert (await produce(client, numbered(2))).base_offset == 2
        assert (await produce(client, numbered(4))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await produce(client, numbered(3))).base_offset == 3


@pytest.mark.parametrize("crash", [CLEAN, CRASH])
async def test_cluster_id_survives_a_restart(tmp_path: Path, crash: bool) -> None:
    cluster_ids = set()
    for _ in range(2):
        async with running_node(tmp_path) as node:
            cluster_ids.add(node.node.cluster_id)
            end(node, crash)

    assert len(cluster_ids) == 1
    assert len(cluster_ids.pop()) == 22


async def test_only_a_crash_starts_a_new_leader_epoch(tmp_path: Path) -> None:
    """Records in the page cache may be lost then, and their readers must be able to detect that (KIP-320).

    There is one epoch without a leader until the broker is ready again, and one in which it leads.
    """
    epochs = []
    for crash in (CLEAN, CLEAN, CRASH, CLEAN, CRASH, CRASH, CLEAN):
        async with running_node(tmp_path) as node, connected(node.port) as client:
            if not epochs:
                await create_topic(client)
            epochs.append(only((await topics(node.port))["topic"].partitions).leader_epoch)
            end(node, crash)

    assert epochs == [0, 0, 0, 2, 2, 4, 6]


async def test_each_incarnation_has_its_own_broker_epoch(tmp_path: Path) -> None:
    """The clean-shutdown marker contains it (KIP-966), and is valid once."""
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    epochs = []
    for crash in (CLEAN, CLEAN, CRASH, CLEAN):
        async with running_node(tmp_path) as node:
            assert not marker.exists()
            end(node, crash)
        assert marker.exists() != crash
        if not crash:
            epochs.append(json.loads(marker.read_text())["brokerEpoch"])

    assert epochs == sorted(set(epochs))
    assert len(epochs) == 3


async def test_parked_fetch_does_not_delay_a_stop(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await client.send(fetch_request(max_wait_ms=600_000), 12)
        await client.expect_silence(0.05)
        node.node.stop()
        await client.expect_close()


@reads_proc
async def test_thousands_of_clients_may_wait_to_be_accepted(tmp_path: Path) -> None:
    """2,000 clients that reconnect at once took 4.3 s with a queue of 50, and 0.9 s with this one."""
    system_max = int(await trio.Path("/proc/sys/net/core/somaxconn").read_text())
    async with running_node(tmp_path) as node:
        for bound in node.node.bound:
            (listener,) = bound.sockets
            info = listener.socket.getsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_INFO, 32)
            (queue_max,) = struct.unpack_from("I", info, 28)  # tcpi_sacked, which is the backlog of a listening socket
            assert queue_max == min(4096, system_max)


# Other files in a log directory


async def test_log_unknown_to_the_metadata_is_renamed_as_stray(tmp_path: Path) -> None:
    """It is kept, in case the metadata was lost."""
    data = tmp_path / "data"
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await create_topic(client, "unknown")
        await produce(client, batch(b"kept"), topic="unknown")
        await produce(client, batch(b"value"))
        shutil.copytree(data / "unknown-0", tmp_path / "copy")
        await client.call(DeleteTopicsRequest(topic_names=["unknown"], timeout_ms=1_000), 4)
    for stray in ("unknown-0", "topic-7"):  # one of an unknown topic, one of a partition that the topic does not have
        shutil.copytree(tmp_path / "copy", data / stray)

    async with running_node(tmp_path) as node, connected(node.port) as client:
        (told,) = node.traced.of("stray_logs_renamed")
        assert (told["path"], told["count"]) == (str(data), 2)
        assert sorted(str(told["partitions"]).split(", ")) == ["topic-7", "unknown-0"]
        assert set(await topics(node.port)) == {"topic"}
        assert await read_values(client) == [b"value"]
        names = {path.name for path in data.iterdir()}
        assert not {"unknown-0", "topic-7"} & names
        strays = sorted(path for path in data.iterdir() if path.name.endswith("-stray"))
        assert [path.name.partition(".")[0] for path in strays] == ["topic-7", "unknown-0"]
        assert (strays[1] / f"{0:020}.log").read_bytes() == (tmp_path / "copy" / f"{0:020}.log").read_bytes()

    async with running_node(tmp_path):
        assert all(path.exists() for path in strays)


async def test_log_of_another_topic_with_the_same_name_is_renamed_as_stray(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"old"))
        shutil.copytree(data / "topic-0", tmp_path / "old")
        await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)
        await create_topic(client)
    shutil.rmtree(data / "topic-0")
    shutil.copytree(tmp_path / "old", data / "topic-0")

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert await read_values(client) == []
        assert (await produce(client, batch(b"new"))).base_offset == 0


async def test_other_files_are_left_unchanged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_node(tmp_path):
        pass
    (data / "lost+found").mkdir()
    (data / "notes-1").write_text("a file")

    async with running_node(tmp_path) as node:
        assert await topics(node.port) == {}

    assert (data / "lost+found").is_dir()
    assert (data / "notes-1").read_text() == "a file"


async def test_interrupted_deletion_is_finished_at_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_node(tmp_path) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"value"))
        await client.call(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 4)
        node.crash()
    leftover = only([path for path in data.iterdir() if path.name.endswith("-delete")])

    async with running_node(tmp_path):
        with trio.fail_after(5):
            while leftover.exists():
                await trio.sleep(0.01)


# Refused starts


async def test_two_nodes_do_not_share_a_directory(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        with pytest.RaisesGroup(LogDirInUse, flatten_subgroups=True):
            async with running_node(tmp_path):
                pass
        assert await topics(node.port) == {}

    async with running_node(tmp_path):
        pass


async def test_port_in_use_is_named_and_the_directory_is_released(tmp_path: Path) -> None:
    async with running_node(tmp_path / "one") as node:
        listeners = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:0"
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match=str(node.port)), flatten_subgroups=True) as raised:
            async with running_node(tmp_path / "two", listeners=listeners):
                pass
        assert raised.value.exceptions[0].errno == errno.EADDRINUSE

    async with running_node(tmp_path / "two"):
        pass


async def test_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    for name in ("one", "two"):
        async with running_node(tmp_path, log_dirs=tmp_path / name):
            pass

    with pytest.RaisesGroup(MetaPropertiesError, flatten_subgroups=True):
        async with running_node(tmp_path, log_dirs=both):
            pass

    async with running_node(tmp_path, log_dirs=tmp_path / "one"):
        pass


async def test_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with running_node(tmp_path):
        pass

    with pytest.RaisesGroup(MetaPropertiesError, flatten_subgroups=True):
        async with running_node(tmp_path, node_id=2):
            pass


def of_several(node_id: int) -> dict[str, Any]:
    return {"controller_quorum_voters": f"{node_id}@127.0.0.1:19093,7@127.0.0.1:29093", "node_id": node_id}


async def test_one_of_several_voters_creates_no_cluster(tmp_path: Path) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(NotFormatted, match="kraft format"), flatten_subgroups=True):
        async with running_node(tmp_path, **of_several(1)):
            pass
    assert not (tmp_path / "data").exists()


async def test_node_that_lost_its_metadata_creates_no_other_cluster(tmp_path: Path) -> None:
    """All its logs would be strays in the new cluster."""
    both = {"log_dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"}
    async with running_node(tmp_path, **both) as node, connected(node.port) as client:
        await create_topic(client, partitions=2)
        await produce(client, batch(b"kept"), index=0)
        await produce(client, batch(b"kept"), index=1)
    shutil.move(tmp_path / "one", tmp_path / "elsewhere")

    with pytest.RaisesGroup(NotFormatted, flatten_subgroups=True):
        async with running_node(tmp_path, **both):
            pass
    shutil.move(tmp_path / "elsewhere", tmp_path / "one")

    async with running_node(tmp_path, **both) as node, connected(node.port) as client:
        assert await read_values(client, indexes=[0]) == [b"kept"]
        assert await read_values(client, indexes=[1]) == [b"kept"]


async def test_failed_start_releases_its_ports(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        taken = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}"
    metadata_log = tmp_path / "data" / "__cluster_metadata-0"
    shutil.rmtree(metadata_log)
    metadata_log.write_text("in the way")

    with pytest.RaisesGroup(MetadataDirectoryRefused, flatten_subgroups=True):
        async with running_node(tmp_path, listeners=taken):
            pass

    async with running_node(tmp_path / "other", listeners=taken):
        pass


# flush.messages


async def test_flush_messages_1_syncs_records_before_they_are_acknowledged(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running_node(tmp_path, disk=disk) as node, connected(node.port) as client:
        await create_topic(client, configs={"flush.messages": "1"})
        disk.held = trio.Event()
        segment = str(tmp_path / "data" / "topic-0" / f"{0:020}.log")

        await client.pipeline(*[(produce_request(batch(b"value")), 9)] * 3)
        await client.expect_silence(0.1)
        assert segment not in disk.synced
        disk.held.set()

        for offset in range(3):
            answer = only(only((await client.receive()).responses).partition_responses)
            assert (answer.error_code, answer.base_offset) == (0, offset)
        assert 1 <= disk.synced.count(segment) <= 2  # requests that wait at the same time share a sync


async def test_produce_without_flush_messages_syncs_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running_node(tmp_path, disk=disk) as node, connected(node.port) as client:
        await create_topic(client)
        disk.held = trio.Event()

        assert (await produce(client, batch(b"value"))).error_code == 0
        disk.held.set()
