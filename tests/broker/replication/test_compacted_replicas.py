"""Compaction in a cluster: replicas are compacted separately, and each leader serves the last value of each key."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from broker.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from broker.storage.clean_shutdown import CLEAN_SHUTDOWN_MARKER
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.records import Record, encode_batch, iter_headers, iter_records
from tests.support.compacted_logs import latest
from tests.support.replicated_topics import content, create_replicated, until_described, until_led_by_another
from tests.support.requests import produce
from tests.support.running_cluster import WITHIN_S, RunningCluster, running_cluster
from tests.support.wire_client import WireClient, connected, only

QUICKLY = {"log.cleaner.backoff.ms": "20", "log.initial.task.delay.ms": "0"}
CONFIGS = {"cleanup.policy": "compact", "internal.segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.1"}
KEYS = 5


async def put(client: WireClient, numbers: Sequence[int]) -> None:
    for number in numbers:
        records = [Record(key=b"%d" % ((number + at) % KEYS), value=b"%d-%d" % (number, at)) for at in range(3)]
        answer = await produce(client, encode_batch(records), acks=-1)
        assert answer.error_code == 0


def expected(numbers: Sequence[int]) -> dict[bytes, bytes]:
    return {b"%d" % ((number + at) % KEYS): b"%d-%d" % (number, at) for number in numbers for at in range(3)}


async def consume(client: WireClient) -> list[Record]:
    """Consume the log from its start; each fetch begins at the end of the last batch."""
    records: list[Record] = []
    offset = 0
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2_000)
        request = FetchRequest(topics=[FetchTopic(topic="topic", partitions=[partition])], session_epoch=-1)
        answer = only(only((await client.call(request, 12)).responses).partitions)
        assert answer.error_code == 0
        batches = list(iter_headers(answer.records or b""))
        if not batches:
            return records
        records += [record for at, header in batches for record in iter_records(answer.records, at, header)]
        offset = batches[-1][1].next_offset


async def until_consumed(client: WireClient, values: Mapping[bytes, bytes]) -> None:
    """A new leader learns the high watermark from its followers, and serves no later records."""
    with trio.fail_after(WITHIN_S):
        while latest(await consume(client)) != values:
            await trio.sleep(0.005)


def size(directory: Path, node_id: int) -> int:
    return sum(path.stat().st_size for path in (directory / f"node-{node_id}" / "topic-0").glob("*.log"))


async def until_small(cluster: RunningCluster, directory: Path, node_ids: Sequence[int]) -> None:
    await cluster.until(lambda: all(size(directory, node_id) < 3_000 for node_id in node_ids))


async def started(cluster: RunningCluster, configs: Mapping[str, str] = CONFIGS) -> None:
    await create_replicated(cluster, [(1, 2, 3)], configs)
    await until_described(cluster, 1, isr=[1, 2, 3])


async def test_next_leader_has_the_last_value_of_each_key_after_compaction(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 3, overrides=QUICKLY) as cluster:
        await started(cluster)
        async with connected(cluster.port(1)) as client:
            await put(client, range(150))
            await until_small(cluster, tmp_path, (1, 2, 3))
            records = await consume(client)
            assert latest(records) == expected(range(150))
            assert [record.offset for record in records] == sorted({record.offset for record in records})
        await cluster.nodes[1].crash()
        leader = (await until_led_by_another(cluster, 2, former=1)).leader_id
        async with connected(cluster.port(leader)) as client:
            await until_consumed(client, expected(range(150)))
            await put(client, range(150, 200))
            assert latest(await consume(client)) == expected(range(200))
        await cluster.start(1)
        await until_described(cluster, leader, isr=[1, 2, 3])
        await until_small(cluster, tmp_path, (1, 2, 3))


async def test_replica_that_starts_again_copies_the_remaining_records(tmp_path: Path) -> None:
    """Its log has gaps, even if the topic is not compacted any more, and recovery keeps them."""
    directory = tmp_path / "node-3"
    async with running_cluster(tmp_path, 3, overrides=QUICKLY) as cluster:
        await started(cluster)
        async with connected(cluster.port(1)) as client:
            await put(client, range(150))
            await until_small(cluster, tmp_path, (1, 2, 3))
            await change_policy(client, "delete")
            await cluster.nodes[3].stop()
            for path in (directory / "topic-0").iterdir():
                path.unlink()
            (directory / CLEANER_OFFSET_CHECKPOINT).unlink()
            await put(client, range(150, 160))
            await cluster.start(3)
            await until_described(cluster, 1, isr=[1, 2, 3])
            assert latest(on_disk(tmp_path, 3)) == expected(range(160))
            await cluster.nodes[3].stop()
            for name in (CLEAN_SHUTDOWN_MARKER, RECOVERY_POINT_CHECKPOINT):
                (directory / name).unlink()
            await cluster.start(3)
            await until_described(cluster, 1, isr=[1, 2, 3])
        assert not cluster.nodes[3].traced.of("storage_segment_cut")
        assert not cluster.nodes[3].traced.of("storage_segment_dropped")
        assert latest(on_disk(tmp_path, 3)) == expected(range(160))


def on_disk(directory: Path, node_id: int) -> list[Record]:
    data = content(directory, node_id)
    return [record for at, header in iter_headers(data) for record in iter_records(data, at, header)]


async def change_policy(client: WireClient, policy: str) -> None:
    change = AlterableConfig(name="cleanup.policy", config_operation=0, value=policy)
    resource = AlterConfigsResource(resource_type=2, resource_name="topic", configs=[change])
    answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(answer.responses).error_code == 0
