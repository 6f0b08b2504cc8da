"""The small files next to the logs: offset checkpoints, meta.properties, partition.metadata, in Kafka's formats."""

from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.checkpoints import CorruptCheckpoint, OffsetCheckpoint
from broker.storage.meta_properties import (
    InconsistentClusterId,
    InconsistentNodeId,
    MetaProperties,
    MetaPropertiesError,
    decode_meta_properties,
    read_meta_properties,
    verify_meta_properties,
    write_meta_properties,
)
from broker.storage.partition_directory import (
    PartitionDirectory,
    deleted_directory_name,
    parse_partition_directory,
    partition_directory_name,
)
from broker.storage.partition_metadata import CorruptPartitionMetadata, read_topic_id, sync_topic_id, write_topic_id
from broker.wire.uuids import decode_uuid
from kraft.env import RealDisk
from tests.support.volatile_disk import VolatileDisk

DISK = RealDisk()
DIRECTORY_ID = decode_uuid("J_2i43lWSuyhc-YrR3YGdw")


class TestOffsetCheckpoint:
    async def test_file_has_kafkas_format(self, tmp_path):
        checkpoint = OffsetCheckpoint(DISK, f"{tmp_path}/recovery-point-offset-checkpoint")
        await checkpoint.write({("orders", 0): 17, ("a.b-c_d", 11): 0})
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\norders 0 17\na.b-c_d 11 0\n"

    async def test_written_content_is_read(self, tmp_path):
        offsets = {("orders", 0): 17, ("orders", 1): 2**40}
        await OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint").write(offsets)
        assert OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint").read() == offsets

    def test_missing_or_empty_file_has_no_offsets(self, tmp_path):
        assert OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint").read() == {}
        (tmp_path / "checkpoint").touch()
        assert OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint").read() == {}

    async def test_unchanged_offsets_are_not_written(self, tmp_path):
        checkpoint = OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint")
        await checkpoint.write({("orders", 0): 17})
        written = (tmp_path / "checkpoint").stat().st_ino
        await checkpoint.write({("orders", 0): 17})
        assert (tmp_path / "checkpoint").stat().st_ino == written
        await checkpoint.write({("orders", 0): 18})
        assert checkpoint.read() == {("orders", 0): 18}

    async def test_concurrent_writes_are_serialized(self, tmp_path):
        checkpoint = OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(checkpoint.write, {("orders", 0): 17})
            nursery.start_soon(checkpoint.write, {("orders", 0): 18})
        assert checkpoint.read() in ({("orders", 0): 17}, {("orders", 0): 18})

    @pytest.mark.parametrize("content", [None, "", "0\n1\norders 0 18\n"])
    async def test_file_that_was_changed_is_written_again(self, tmp_path, content):
        path = tmp_path / "checkpoint"
        checkpoint = OffsetCheckpoint(DISK, str(path))
        await checkpoint.write({("orders", 0): 17})
        assert await checkpoint.restore() == ""
        path.unlink()
        if content is not None:
            path.write_text(content)
        assert await checkpoint.restore()
        assert path.read_text() == "0\n1\norders 0 17\n"

    @pytest.mark.parametrize(("content", "is_right"), [(None, True), ("", True), ("0\n1\norders 0 18\n", False)])
    async def test_file_without_offsets_may_be_missing_or_empty(self, tmp_path, content, is_right):
        path = tmp_path / "checkpoint"
        checkpoint = OffsetCheckpoint(DISK, str(path))
        await checkpoint.write({})
        path.unlink()
        if content is not None:
            path.write_text(content)
        assert (await checkpoint.restore() == "") == is_right
        assert OffsetCheckpoint(DISK, str(path)).read() == {}

    @pytest.mark.parametrize("offsets", [{}, {("orders", 0): 17}])
    async def test_file_that_cannot_be_read_is_written_again(self, offsets):
        disk = VolatileDisk()
        checkpoint = OffsetCheckpoint(disk, "/data/checkpoint")
        await checkpoint.write(offsets)
        disk.bad["/data/checkpoint"] = range(1)
        assert "Input/output error" in await checkpoint.restore()

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("1\n0\n", "Unrecognised version:1, expected version: 0"),
            ("0\n2\norders 0 1\n", r"Expected \[2\] entries .* but found only \[1\]"),
            ("0\n1\norders 0\n", "Malformed line .*: orders 0"),
            ("0\n1\norders x 1\n", "Malformed line"),
            ("zero", "Malformed line"),
        ],
    )
    def test_corrupt_file_is_reported(self, tmp_path, content, message):
        (tmp_path / "checkpoint").write_text(content)
        with pytest.raises(CorruptCheckpoint, match=message):
            OffsetCheckpoint(DISK, f"{tmp_path}/checkpoint").read()


class TestMetaProperties:
    PROPERTIES = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 1, DIRECTORY_ID)

    async def test_file_has_the_format_of_kip_631(self, tmp_path):
        await write_meta_properties(DISK, str(tmp_path), self.PROPERTIES)
        assert (tmp_path / "meta.properties").read_text().splitlines() == [
            "cluster.id=MkU3OEVBNTcwNTJENDM2Qg",
            "directory.id=J_2i43lWSuyhc-YrR3YGdw",
            "node.id=1",
            "version=1",
        ]
        assert read_meta_properties(DISK, str(tmp_path)) == self.PROPERTIES

    def test_directory_without_the_file_is_not_formatted(self, tmp_path):
        assert read_meta_properties(DISK, str(tmp_path)) is None

    def test_file_written_by_kafka_is_read(self):
        content = b"#\n#Fri Nov 20 21:58:00 UTC 2026\nnode.id=7\nversion=1\ncluster.id = my\\:cluster\n"
        assert decode_meta_properties(content, "meta.properties") == MetaProperties("my:cluster", 7, None)

    @given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1), st.integers(0, 2**31 - 1))
    def test_arbitrary_cluster_id_is_kept(self, cluster_id, node_id):
        properties = MetaProperties(cluster_id, node_id, DIRECTORY_ID)
        assert decode_meta_properties(properties.encode(), "meta.properties") == properties

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"broker.id=1\nversion=0\n", "Unknown meta.properties version number 0"),
            (b"version=1\nnode.id=1\n", "cluster.id was not found"),
            (b"version=1\ncluster.id=a\n", "node.id was not found"),
            (b"version=1\ncluster.id=a\nnode.id=b\n", "Unable to read"),
            (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=short\n", "Unable to read"),
            (b"\xff", "Unable to read"),
        ],
    )
    def test_corrupt_file_is_reported(self, content, message):
        with pytest.raises(MetaPropertiesError, match=message):
            decode_meta_properties(content, "/data/meta.properties")

    def test_directory_of_another_cluster_is_refused(self):
        with pytest.raises(
            InconsistentClusterId, match=r"Invalid cluster\.id in: /a/meta\.properties\. Expected x, but read"
        ):
            verify_meta_properties({"/a": self.PROPERTIES}, cluster_id="x", node_id=1)

    def test_directory_of_another_node_is_refused(self):
        with pytest.raises(InconsistentNodeId, match="Stored node id 1 doesn't match previous node id 2"):
            verify_meta_properties({"/a": self.PROPERTIES}, cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=2)

    def test_copied_directory_is_refused_kip_858(self):
        with pytest.raises(MetaPropertiesError, match="Duplicate directory ID J_2i43lWSuyhc-YrR3YGdw"):
            verify_meta_properties(
                {"/a": self.PROPERTIES, "/b": self.PROPERTIES}, cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=1
            )


class TestPartitionMetadata:
    def test_file_has_kafkas_format(self, tmp_path):
        write_topic_id(DISK, str(tmp_path), DIRECTORY_ID)
        assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: J_2i43lWSuyhc-YrR3YGdw"
        assert read_topic_id(DISK, str(tmp_path)) == DIRECTORY_ID

    async def test_synced_topic_id_survives_a_power_cut(self):
        disk = VolatileDisk()
        write_topic_id(disk, "/data/orders-0", DIRECTORY_ID)
        await sync_topic_id(disk, "/data/orders-0")
        disk.power_cut(Random(1))
        assert read_topic_id(disk, "/data/orders-0") == DIRECTORY_ID

    def test_missing_file_has_no_topic_id(self, tmp_path):
        assert read_topic_id(DISK, str(tmp_path)) is None

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "version: 0\n",
            "version: 1\ntopic_id: J_2i43lWSuyhc-YrR3YGdw",
            "version: x\ntopic_id: J_2i43lWSuyhc-YrR3YGdw",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "version: 0\ntopic_id: short",
        ],
    )
    def test_corrupt_file_is_reported(self, tmp_path, content):
        (tmp_path / "partition.metadata").write_text(content)
        with pytest.raises(CorruptPartitionMetadata, match=r"partition\.metadata"):
            read_topic_id(DISK, str(tmp_path))


class TestPartitionDirectory:
    @pytest.mark.parametrize(
        ("name", "parsed"),
        [
            ("orders-0", PartitionDirectory("orders", 0, "")),
            ("a.b-c_d-12", PartitionDirectory("a.b-c_d", 12, "")),
            ("my-topic.v1-3", PartitionDirectory("my-topic.v1", 3, "")),
            ("orders-0.0123456789abcdef0123456789abcdef-delete", PartitionDirectory("orders", 0, "delete")),
            ("orders-0.0123456789abcdef0123456789abcdef-future", PartitionDirectory("orders", 0, "future")),
            ("orders-0.0123456789abcdef0123456789abcdef-stray", PartitionDirectory("orders", 0, "stray")),
        ],
    )
    def test_directory_names_are_parsed(self, name, parsed):
        assert parse_partition_directory(name) == parsed

    @pytest.mark.parametrize(
        "name", ["meta.properties", "recovery-point-offset-checkpoint", ".lock", "lost+found", "-1", "x-"]
    )
    def test_other_names_are_not_partitions(self, name):
        assert parse_partition_directory(name) is None

    @given(
        st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
        st.integers(0, 2**31 - 1),
        st.binary(min_size=16, max_size=16),
    )
    def test_formatted_names_are_parsed_and_fit(self, topic, partition, unique_id):
        assert parse_partition_directory(partition_directory_name(topic, partition)) == PartitionDirectory(
            topic, partition, ""
        )
        deleted = deleted_directory_name(topic, partition, unique_id)
        assert len(deleted) <= 255
        parsed = parse_partition_directory(deleted)
        assert parsed is not None
        assert (parsed.partition, parsed.suffix) == (partition, "delete")
        assert topic.startswith(parsed.topic)
