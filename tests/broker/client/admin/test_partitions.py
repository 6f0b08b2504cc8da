"""Offsets, log directories, reassignments, elections and producers through an Admin."""

from pathlib import Path

import pytest
import trio

from broker.client import (
    Admin,
    ElectionType,
    KafkaError,
    NewTopic,
    OffsetAndTimestamp,
    OffsetSpec,
    Producer,
    TopicPartition,
    TopicPartitionReplica,
)
from broker.wire.errors import ErrorCode
from tests.support.running_admin import admin_of_a_node, bootstrap_servers
from tests.support.running_cluster import WITHIN_S, running_cluster
from tests.support.running_node import running_node

P0, P1, NOWHERE = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("nowhere", 0)


async def test_offsets_are_listed_by_place_and_by_time(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, Admin(f"127.0.0.1:{node.port}") as admin:
        (await admin.create_topics([NewTopic("orders", 2)])).raise_first()
        async with Producer(f"127.0.0.1:{node.port}") as producer:
            for timestamp_ms in (1_000, 3_000, 2_000):
                await producer.send("orders", b"value", partition=0, timestamp_ms=timestamp_ms)

        async def listed(spec: OffsetSpec | int) -> OffsetAndTimestamp | None:
            return (await admin.list_offsets({P0: spec})).value(P0)

        assert await listed(OffsetSpec.EARLIEST) == (0, -1, 0)
        assert await listed(OffsetSpec.EARLIEST_LOCAL) == (0, -1, 0)
        assert await listed(OffsetSpec.LATEST) == (3, -1, 0)
        assert await listed(OffsetSpec.MAX_TIMESTAMP) == (1, 3_000, 0)
        assert await listed(1_500) == (1, 3_000, 0)
        assert await listed(3_001) is None
        both = await admin.list_offsets(
            {P1: OffsetSpec.LATEST, P0: OffsetSpec.LATEST}, isolation_level="read_committed"
        )
        assert {partition: found and found.offset for partition, found in both.raise_first().items()} == {P1: 0, P0: 3}
        assert (await admin.delete_records({P0: 2})).raise_first() == {P0: 2}
        assert await listed(OffsetSpec.EARLIEST) == (2, -1, 0)
        producers = (await admin.describe_producers([P0, P1])).raise_first()
        assert [each.last_sequence for each in producers[P0]] == [2]
        assert producers[P1] == []
        of_broker = await admin.describe_producers([P0, NOWHERE], broker_id=1)
        assert of_broker.value(P0) == producers[P0]
        assert _code(of_broker[NOWHERE]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_partitions_that_do_not_exist_are_retried_before_they_are_errors(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        wanted = {P0: OffsetSpec.LATEST, P1: OffsetSpec.LATEST, NOWHERE: OffsetSpec.LATEST}
        results = await admin.list_offsets(wanted)
        assert list(results) == list(wanted)
        assert list(results.succeeded) == [P0]
        assert _code(results[P1]) == _code(results[NOWHERE]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "create it" in str(results[NOWHERE])


async def test_a_topic_that_is_created_while_its_offsets_are_asked_for_is_waited_for(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin, trio.open_nursery() as nursery:

        async def create() -> None:
            (await admin.create_topics([NewTopic("orders", 1)])).raise_first()

        nursery.start_soon(create)
        assert (await admin.list_offsets({P0: OffsetSpec.LATEST})).value(P0) == (0, -1, 0)


async def test_a_number_that_is_no_spec_is_refused(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        with pytest.raises(ValueError, match="neither an OffsetSpec nor a time"):
            await admin.list_offsets({P0: -7})


async def test_log_dirs_are_described_with_all_replicas_or_some(tmp_path: Path) -> None:
    async with admin_of_a_node(tmp_path) as admin:
        (await admin.create_topics([NewTopic("orders", 2)])).raise_first()
        ((path, log_dir),) = (await admin.describe_log_dirs()).value(1).items()
        assert path == str(tmp_path / "data")
        assert (log_dir.error, log_dir.is_cordoned, set(log_dir.replicas)) == (None, False, {P0, P1})
        assert log_dir.total_bytes is not None
        assert log_dir.usable_bytes is not None
        assert log_dir.total_bytes >= log_dir.usable_bytes > 0
        ((_, log_dir),) = (await admin.describe_log_dirs([1], partitions=[P1])).value(1).items()
        assert {partition: replica.is_future for partition, replica in log_dir.replicas.items()} == {P1: False}


async def test_replicas_move_between_log_dirs_kip_113(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    async with admin_of_a_node(tmp_path, log_dirs=f"{one},{two}") as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
        there, absent, elsewhere = (TopicPartitionReplica("orders", *ids) for ids in ((0, 1), (1, 1), (0, 9)))
        moved = await admin.alter_replica_log_dirs({there: two, absent: two})
        assert list(moved.succeeded) == [there]
        assert _code(moved[absent]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with trio.fail_after(WITHIN_S):
            while P0 not in (await admin.describe_log_dirs()).value(1)[two].replicas:
                await trio.sleep(0.02)
        refused = await admin.alter_replica_log_dirs({there: f"{two}/"})
        assert _code(refused[there]) == ErrorCode.LOG_DIR_NOT_FOUND
        assert (await admin.alter_replica_log_dirs({elsewhere: one}, timeout_ms=5_000)).failed


async def test_replicas_are_moved_listed_and_led_by_the_preferred_one_kip_455_460(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, Admin(bootstrap_servers(cluster)) as admin:
        (await admin.create_topics([NewTopic("orders", assignments={0: [1, 2], 1: [1, 2]})])).raise_first()
        moved = await admin.alter_partition_reassignments({P0: [3, 1], P1: [1, 9], NOWHERE: [1]})
        assert list(moved.succeeded) == [P0]
        assert _code(moved[P1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert _code(moved[NOWHERE]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with trio.fail_after(WITHIN_S):
            while under_way := await admin.list_partition_reassignments([P0]):
                assert under_way[P0].adding_replicas == (3,)
                await trio.sleep(0.02)
        await cluster.until_images_match()
        partition = (await admin.describe_topics(["orders"])).value("orders").partitions[0]
        assert (partition.replicas, set(partition.isr), partition.leader) == ((3, 1), {1, 3}, 1)
        elected = await admin.elect_leaders([P0, P1, NOWHERE])
        assert list(elected.succeeded) == [P0]
        assert _code(elected[P1]) == ErrorCode.ELECTION_NOT_NEEDED
        assert _code(elected[NOWHERE]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.until_images_match()
        assert (await admin.describe_topics(["orders"])).value("orders").partitions[0].leader == 3
        unclean = await admin.elect_leaders([P0], election_type=ElectionType.UNCLEAN)
        assert _code(unclean[P0]) == ErrorCode.ELECTION_NOT_NEEDED
        assert len(await admin.elect_leaders()) == 0
        kept = await admin.alter_partition_reassignments({P1: [1, 2, 3]}, allow_replication_factor_change=False)
        assert _code(kept[P1]) == ErrorCode.INVALID_REPLICATION_FACTOR
        cancelled = await admin.alter_partition_reassignments({P1: None})
        assert _code(cancelled[P1]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def _code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code
