"""Files of partitions are created and deleted at once if they are few, and otherwise in order, in portions."""

from pathlib import Path

import trio

from broker.replication.partition_file_queue import AT_ONCE, PER_TURN, PartitionFileQueue
from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.replicated_topics import create_replicated, described, send
from tests.support.running_cluster import WITHIN_S, running_cluster
from tests.support.wire_client import connected, only


async def test_first_items_are_done_at_once_and_the_rest_in_portions_in_order() -> None:
    done: list[int] = []
    counts: list[int] = []
    queue = PartitionFileQueue(lambda: counts.append(len(done)))
    count = AT_ONCE + 2 * PER_TURN + 1
    queue.begin()
    for number in range(count):
        queue.add(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == list(range(AT_ONCE))
    queue.begin()
    queue.add(lambda: done.append(count))
    assert len(done) == AT_ONCE, "nothing overtakes what waits"
    others = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        while len(done) <= count:
            await trio.lowlevel.checkpoint()
            others += 1
        assert others > 2, "others have their turns in between"
        queue.begin()
        queue.add(lambda: done.append(count + 1))
        assert len(done) == count + 2, "at once again"
        nursery.cancel_scope.cancel()
    assert done == list(range(count + 2))
    assert counts == [AT_ONCE + PER_TURN, AT_ONCE + 2 * PER_TURN, count + 1]


async def test_work_may_add_work() -> None:
    done: list[str] = []
    queue = PartitionFileQueue(lambda: None)
    for _ in range(AT_ONCE):
        queue.add(lambda: None)
    queue.add(lambda: queue.add(lambda: done.append("inner")))
    queue.add(lambda: done.append("outer"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        while len(done) < 2:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert done == ["outer", "inner"]


async def test_many_partitions_are_created_deleted_and_created_again_under_the_same_name(tmp_path: Path) -> None:
    count = 3 * AT_ONCE
    async with running_cluster(tmp_path) as cluster:
        for attempt in range(3):
            await create_replicated(cluster, [[1, 2, 3]], {"file.delete.delay.ms": "0"})
            async with connected(cluster.port(1)) as client:
                growth = CreatePartitionsTopic(name="topic", count=count, assignments=None)
                request = CreatePartitionsRequest(topics=[growth], timeout_ms=5_000)
                assert only((await client.call(request, 3)).results).error_code == 0
            await cluster.until_images_match()
            for index in (0, count - 1):
                leader = (await described(cluster, 1, index)).leader_id
                with trio.fail_after(WITHIN_S):
                    while await send(cluster, leader, b"%d" % attempt, index=index) != 0:
                        await trio.sleep(0.01)
            async with connected(cluster.port(1)) as client:
                deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="topic")], timeout_ms=5_000)
                assert only((await client.call(deletion, 6)).responses).error_code == 0
        for node_id in (1, 2, 3):
            await cluster.until(
                lambda node_id=node_id: not list((tmp_path / f"node-{node_id}").glob("topic-*"))  # type: ignore[misc]
            )
