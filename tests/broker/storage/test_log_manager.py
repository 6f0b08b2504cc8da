"""The log manager: claiming and loading log directories, creating, deleting and closing logs."""

import json
import shutil
from pathlib import Path

import attrs
import pytest
import trio

from broker.storage.duplicate_log_dirs import DuplicateLogDir
from broker.storage.log_dir import LogDirInUse
from broker.storage.log_manager import LogManager
from broker.storage.meta_properties import InconsistentClusterId, InconsistentNodeId
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.storage_node import CLUSTER_ID, CONFIG, ORDERS, PAYMENTS, Node, produce


@pytest.fixture
def node(tmp_path) -> Node:
    return Node(tmp_path)


class TestClaiming:
    async def test_new_directories_are_created_and_formatted(self, node):
        log_manager = await node.start()
        for directory in (node.a, node.b):
            lines = (directory / "meta.properties").read_text().splitlines()
            assert f"cluster.id={CLUSTER_ID}" in lines
            assert "node.id=1" in lines
        assert len(set(log_manager.directory_ids)) == 2

    async def test_new_directory_survives_a_power_cut(self, node, tmp_path):
        node.config = attrs.evolve(node.config, directories=(f"{tmp_path}/new/deep/a",))
        await node.start()
        assert {str(tmp_path), f"{tmp_path}/new", f"{tmp_path}/new/deep"} <= set(node.disk.synced)

    async def test_directory_ids_are_kept(self, node):
        before = (await node.start()).directory_ids
        await node.stop()
        assert (await node.start()).directory_ids == before

    async def test_directory_without_an_id_gets_one_kip_858(self, node):
        node.a.mkdir()
        (node.a / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=1\n")
        await node.start()
        assert "directory.id=" in (node.a / "meta.properties").read_text()

    async def test_directory_in_use_is_refused_and_the_others_are_released(self, node):
        await node.start()
        second = Node(node.a.parent)
        second.config = attrs.evolve(second.config, directories=(str(node.a.parent / "c"), str(node.a)))
        with pytest.raises(LogDirInUse, match=f"Failed to acquire lock on file .lock in {node.a}"):
            await second.start()
        await node.stop()
        await second.start()

    async def test_directory_of_another_cluster_is_refused(self, node):
        await node.start()
        await node.stop()
        with pytest.raises(InconsistentClusterId, match="Expected other, but read MkU3OEVBNTcwNTJENDM2Qg"):
            await node.start(cluster_id="other")

    async def test_directory_of_another_node_is_refused(self, node):
        await node.start()
        await node.stop()
        node.config = attrs.evolve(node.config, node_id=2)
        with pytest.raises(InconsistentNodeId, match="Stored node id 1 doesn't match"):
            await node.start()

    async def test_directory_configured_twice_is_refused(self, node):
        node.config = attrs.evolve(node.config, directories=(str(node.a), str(node.a)))
        with pytest.raises(DuplicateLogDir, match="Duplicate log directory found"):
            await node.start()

    async def test_separate_metadata_directory_is_claimed_and_gets_no_partitions(self, node):
        metadata = node.a.parent / "metadata"
        node.config = attrs.evolve(node.config, metadata_directory=str(metadata))
        log_manager = await node.start()
        for partition in range(4):
            log_manager.create("orders", ORDERS, partition, CONFIG)
        assert (metadata / "meta.properties").exists()
        assert not [entry for entry in metadata.iterdir() if entry.is_dir()]


class TestPartitions:
    async def test_partition_is_created_in_the_directory_with_the_fewest(self, node):
        log_manager = await node.start()
        for partition in range(4):
            log_manager.create("orders", ORDERS, partition, CONFIG)
        assert node.partitions() == ["a/orders-0", "a/orders-2", "b/orders-1", "b/orders-3"]

    async def test_cordoned_directory_gets_partitions_only_if_there_is_no_other_kip_1066(self, node):
        log_manager = await node.start()
        log_manager.directories[str(node.a)].is_cordoned = True
        for partition in range(2):
            log_manager.create("orders", ORDERS, partition, CONFIG)
        log_manager.create("orders", ORDERS, 2, CONFIG, destination=str(node.a))
        log_manager.directories[str(node.b)].is_cordoned = True
        log_manager.create("orders", ORDERS, 3, CONFIG)
        assert node.partitions() == ["a/orders-3", "b/orders-0", "b/orders-1", "b/orders-2"]

    async def test_creating_an_existing_partition_returns_its_log(self, node):
        log_manager = await node.start()
        assert log_manager.create("orders", ORDERS, 0, CONFIG) is log_manager.create("orders", ORDERS, 0, CONFIG)

    async def test_other_topic_id_is_refused_kip_516(self, node):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, CONFIG)
        with pytest.raises(KafkaError) as caught:
            log_manager.create("orders", PAYMENTS, 0, CONFIG)
        assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID

    async def test_partitions_and_topic_ids_are_loaded(self, node):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, CONFIG)
        log_manager.create("my-payments.v1", PAYMENTS, 7, CONFIG)
        await node.stop()
        again = await node.start()
        assert again.topic_ids == {("orders", 0): ORDERS, ("my-payments.v1", 7): PAYMENTS}
        assert set(again.logs) == set(again.topic_ids)

    async def test_partition_with_a_lost_topic_id_gets_one_when_it_is_created(self, node):
        (await node.start()).create("orders", ORDERS, 0, CONFIG)
        node.crash()
        (node.a / "orders-0" / "partition.metadata").write_bytes(b"")
        again = await node.start()
        assert again.topic_ids == {("orders", 0): None}
        again.create("orders", ORDERS, 0, CONFIG)
        node.crash()
        assert (await node.start()).topic_ids == {("orders", 0): ORDERS}

    async def test_other_directories_and_files_are_ignored(self, node):
        for name in ("lost+found", "__cluster_metadata-0", "orders-0.0123456789abcdef-stray"):
            (node.a / name).mkdir(parents=True)
        (node.a / "notes-1").write_text("a file")
        assert (await node.start()).logs == {}
        skipped = {Path(str(event["path"])).name for event in node.traced("storage_directory_skipped")}
        assert skipped == {"orders-0.0123456789abcdef-stray"}
        assert [event["path"] for event in node.traced("storage_file_ignored")] == [str(node.a / "notes-1")]

    async def test_partition_in_two_directories_is_refused(self, node):
        for directory in (node.a, node.b):
            (directory / "orders-0").mkdir(parents=True)
        with pytest.raises(DuplicateLogDir, match=r"Duplicate log directories found: .*/b/orders-0"):
            await node.start()

    @pytest.mark.parametrize("name", ["a", "b"])
    async def test_stray_copy_of_a_partition_in_two_directories_is_renamed(self, node, name):
        for directory in (node.a, node.b):
            (directory / "orders-0").mkdir(parents=True)
        good = node.a if name == "a" else node.b

        def belongs(key, topic_id, directory_id):
            return directory_id == log_manager.directories[str(good)].properties.directory_id

        log_manager = await LogManager.open(node.env, node.config, cluster_id="cluster")
        await log_manager.load(lambda topic: CONFIG, belongs)
        assert log_manager.directory_of("orders", 0).path == str(good)
        assert (good / "orders-0").exists()
        other = node.b if name == "a" else node.a
        assert [path.name.rpartition("-")[2] for path in other.glob("orders-0*")] == ["stray"]
        log_manager.release()

    async def test_new_partitions_are_made_durable_in_the_background(self, node):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, CONFIG)
        log_manager.create("orders", ORDERS, 1, CONFIG)
        log_manager.delete("orders", 1)
        await node.housekeeping().finish_creations_and_deletions()
        assert log_manager.created == []


class TestDeleting:
    async def test_deleted_partition_is_removed_after_file_delete_delay_ms(self, node, mock_clock):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, attrs.evolve(CONFIG, file_delete_delay_ms=60_000))
        log_manager.delete("orders", 0)
        assert log_manager.logs == {}
        (renamed,) = node.partitions()
        assert renamed.startswith("a/orders-0.")
        assert renamed.endswith("-delete")
        housekeeping = node.housekeeping()
        mock_clock.jump(59)
        await housekeeping.finish_creations_and_deletions()
        assert node.partitions() == [renamed]
        mock_clock.jump(2)
        await housekeeping.finish_creations_and_deletions()
        assert node.partitions() == []

    async def test_running_housekeeping_removes_deleted_files(self, node):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, attrs.evolve(CONFIG, file_delete_delay_ms=20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.housekeeping().run)
            log_manager.delete("orders", 0)
            with trio.fail_after(10):
                while node.partitions():
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    async def test_deleted_partition_can_be_created_again_at_once(self, node):
        log_manager = await node.start()
        produce(log_manager.create("orders", ORDERS, 0, CONFIG))
        log_manager.delete("orders", 0)
        log = log_manager.create("orders", PAYMENTS, 0, CONFIG)
        assert log.log_end_offset == 0
        assert log_manager.topic_ids == {("orders", 0): PAYMENTS}

    async def test_checkpoint_entry_is_dropped_with_its_partition(self, node):
        log_manager = await node.start()
        log = log_manager.create("orders", ORDERS, 0, CONFIG)
        produce(log, 3)
        await log.flush()
        housekeeping = node.housekeeping()
        await housekeeping.checkpoint_recovery_points()
        checkpoint = node.a / "recovery-point-offset-checkpoint"
        assert checkpoint.read_text() == "0\n1\norders 0 3\n"
        log_manager.delete("orders", 0)
        await housekeeping.finish_creations_and_deletions()
        assert checkpoint.read_text() == "0\n0\n"

    async def test_interrupted_removal_is_finished_at_the_next_start(self, node):
        (node.a / "orders-0.0123456789abcdef0123456789abcdef-delete").mkdir(parents=True)
        await node.start()
        await node.housekeeping().finish_creations_and_deletions()
        assert node.partitions() == []

    async def test_deleting_an_unknown_partition_does_nothing(self, node):
        (await node.start()).delete("orders", 0)


class TestShutdown:
    async def test_clean_shutdown_marker_is_valid_once(self, node):
        produce((await node.start()).create("orders", ORDERS, 0, CONFIG), 3)
        await node.stop()
        assert json.loads((node.a / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 5}
        assert (node.a / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"

        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 3
        assert [event["clean"] for event in node.traced("storage_log_dir_loaded")] == [True, True]
        assert not (node.a / ".kafka_cleanshutdown").exists()

    async def test_logs_are_recovered_after_a_crash(self, node):
        produce((await node.start()).create("orders", ORDERS, 0, CONFIG), 3)
        node.crash()
        again = await node.start()
        assert [event["clean"] for event in node.traced("storage_log_dir_loaded")] == [False, False]
        assert again.logs["orders", 0].log_end_offset == 3

    async def test_log_that_recovery_has_cut_is_settled_and_takes_appends(self, node):
        """The cut and the lower recovery point are durable before records follow at the same offsets."""
        log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
        produce(log, 3)
        await log.flush()
        await node.housekeeping().checkpoint_recovery_points()
        node.crash()
        log.segments.active.file.truncate(log.segments.active.written - 1)
        again = (await node.start()).logs["orders", 0]
        assert (again.log_end_offset, again.durability.is_unsettled) == (0, False)
        assert (node.a / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 0\n"
        produce(again)
        assert again.readable_end_offset == 1

    async def test_missing_log_with_a_recovery_point_is_reported(self, node):
        log_manager = await node.start()
        for partition, records in ((0, 3), (2, 3), (4, 0)):
            log = log_manager.create("orders", ORDERS, partition, CONFIG, destination=str(node.a))
            if records:
                produce(log, records)
        await node.stop()
        for partition in (2, 4):
            shutil.rmtree(node.a / f"orders-{partition}")
        await node.start()
        missing = [(event["path"], event["end_offset"]) for event in node.traced("storage_log_missing")]
        assert missing == [(f"{node.a}/orders-2", 3)], "the one without records has lost none"

    async def test_leader_epochs_that_contradict_the_log_are_dropped_by_recovery(self, node):
        # The file is older than the log, as after a truncation and a power cut.
        log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
        produce(log, 3, leader_epoch=4)
        node.crash()
        (node.a / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 1\n")
        assert (await node.start()).logs["orders", 0].epochs.entries == [(4, 0)]

    async def test_corrupt_checkpoint_only_makes_recovery_longer(self, node):
        produce((await node.start()).create("orders", ORDERS, 0, CONFIG), 3)
        await node.stop()
        (node.a / "recovery-point-offset-checkpoint").write_text("junk")
        again = await node.start()
        assert again.logs["orders", 0].log_end_offset == 3
        assert len(node.traced("storage_checkpoint_corrupt")) == 1

    @pytest.mark.parametrize("records", [0, 3])
    async def test_directory_that_fails_while_closing_gets_no_marker(self, node, records):
        log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
        if records:
            produce(log, records)
        node.disk.broken.add(str(node.a))
        await node.stop()
        assert not (node.a / ".kafka_cleanshutdown").exists()
        assert (node.b / ".kafka_cleanshutdown").exists()
