"""The active controller on a log: responses after commits, publication, and restarts."""

from random import Random
from time import thread_time

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kraft.replicated_log import Leadership
from metadata.controller import DEFAULT_FEATURES, CreatedTopic, NewTopic, TopicToDelete
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import KafkaError
from metadata.records import PartitionChangeRecord
from tests.support.metadata import metadata_node
from tests.support.volatile_disk import VolatileDisk


async def test_response_waits_until_its_records_are_durable_and_published() -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        gate = trio.Event()
        disk.during_sync = gate.wait
        answers: list[CreatedTopic] = []

        async def create(name: str) -> None:
            answers.extend(await node.controller.create_topics([NewTopic(name)]))
            assert name in node.loader.image.topics.by_name

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, "a")
            await wait_all_tasks_blocked()
            assert answers == []
            assert "a" not in node.loader.image.topics.by_name
            gate.set()
        assert [answer.error for answer in answers] == [None]


async def test_error_based_on_uncommitted_records_waits_for_their_commit() -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        gate = trio.Event()
        disk.during_sync = gate.wait
        order: list[str] = []

        async def create(who: str) -> None:
            (answer,) = await node.controller.create_topics([NewTopic("same")])
            order.append(f"{who} {answer.error.code.name if answer.error else 'created'}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, "first")
            await wait_all_tasks_blocked()
            nursery.start_soon(create, "second")
            await wait_all_tasks_blocked()
            assert order == []
            gate.set()
        assert sorted(order) == ["first created", "second TOPIC_ALREADY_EXISTS"]


async def test_a_restart_replays_everything_with_one_publication() -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        await node.controller.create_topics([NewTopic("a", 3), NewTopic("b")])
        await node.controller.delete_topics([TopicToDelete("b")])
        block = await node.controller.allocate_producer_ids(1, node.loader.image.cluster.brokers[1].broker_epoch)
        before = node.loader.image
    disk.power_cut(Random(1))
    async with metadata_node(disk) as node:
        assert node.loader.image == before
        assert node.controller.image == before
        await node.join()
        again = await node.controller.allocate_producer_ids(1, node.loader.image.cluster.brokers[1].broker_epoch)
        assert again.first_producer_id == block.first_producer_id + block.size


async def test_controller_and_brokers_share_one_image() -> None:
    async with metadata_node(VolatileDisk()) as node:
        await node.join()
        await node.controller.create_topics([NewTopic("a")])
        assert node.loader.image is node.controller.image


async def test_validate_only_changes_nothing() -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        end = node.log.end_offset
        (answer,) = await node.controller.create_topics([NewTopic("a", 2)], validate_only=True)
        assert (answer.error, answer.num_partitions) == (None, 2)
        (refused,) = await node.controller.create_topics([NewTopic("a b")], validate_only=True)
        assert refused.error is not None
        assert node.log.end_offset == end


async def test_many_requests_share_few_syncs() -> None:
    disk = VolatileDisk()
    disk.during_sync = trio.lowlevel.checkpoint
    async with metadata_node(disk) as node:
        await node.join()
        before = disk.syncs
        async with trio.open_nursery() as nursery:
            for i in range(200):
                nursery.start_soon(node.controller.create_topics, [NewTopic(f"topic-{i}")])
        assert len(node.loader.image.topics.by_id) == 200
        assert disk.syncs - before < 20


async def test_controller_without_leadership_decides_nothing_and_drops_pending_requests() -> None:
    async with metadata_node(VolatileDisk()) as node:
        await node.join()
        node.controller.handle_leader_change(Leadership(2, 9))
        assert not node.controller.is_active
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await node.controller.create_topics([NewTopic("a")])
        node.controller.handle_leader_change(Leadership(1, node.log.leadership.epoch))
        assert node.controller.image is node.loader.image


async def test_a_new_log_begins_with_the_feature_levels_once() -> None:
    disk = VolatileDisk()
    offsets = []
    for _ in range(2):
        async with metadata_node(disk) as node:
            await node.controller.create_topics([], validate_only=True)
            offsets.append(node.loader.image.offset)
            assert node.loader.image.features == DEFAULT_FEATURES
    assert offsets[0] == offsets[1]


async def test_the_cost_of_one_change_does_not_grow_with_the_partitions() -> None:
    async with metadata_node(VolatileDisk()) as node:
        await node.join()
        await node.controller.create_topics([NewTopic("one", 100)])
        small = _cost_of_a_change(node.loader.image)
        await node.controller.create_topics([NewTopic(f"topic-{i}", 10) for i in range(1000)])
        large = _cost_of_a_change(node.loader.image)
        # Copying 10,000 entries would take some 20 times as long as the whole change of 16 us.
        assert large < 4 * small


def _cost_of_a_change(image: MetadataImage) -> float:
    change = PartitionChangeRecord(topic_id=image.topics.by_name["one"].topic_id, partition_id=7, leader=1)
    fastest = float("inf")
    for _ in range(300):
        start = thread_time()
        delta = MetadataDelta(image)
        delta.replay([change])
        delta.apply(image.offset + 1)
        fastest = min(fastest, thread_time() - start)
    return fastest


async def test_ten_thousand_partitions_are_replayed_quickly() -> None:
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        created = await node.controller.create_topics([NewTopic(f"topic-{i}", 10) for i in range(1000)])
        assert all(topic.error is None for topic in created)
    start = thread_time()
    async with metadata_node(disk) as node:
        took = thread_time() - start
        assert len(node.loader.image.topics.by_id) == 1000
    assert took < 2  # about 0.1 s on an idle machine
