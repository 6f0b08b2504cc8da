"""Throttled replication (KIP-73): the arithmetic of rates, and the speed at which replicas are copied."""

from collections.abc import Mapping
from math import inf
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from broker.config.effective import ThrottledReplicas
from broker.replication.throttles import UNLIMITED, Throttle, WindowedRate
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.replicated_topics import content, create_replicated, send, until_described, until_replicated
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected, only

TOPIC, BROKER = 2, 4


# Rates


def test_first_bytes_are_measured_over_a_whole_window() -> None:
    rate = WindowedRate(11, 1000)
    assert rate.rate(0) == 0
    rate.record(500, 0)
    assert (rate.rate(0), rate.rate(1000), rate.rate(2000)) == (500, 500, 250)


def test_old_windows_are_forgotten() -> None:
    rate = WindowedRate(3, 1000)
    rate.record(600, 0)
    rate.record(300, 1000)
    assert rate.rate(2000) == 450
    assert rate.rate(2999) == pytest.approx(900 / 2.999)
    assert rate.rate(3000) == 150  # of the second window alone
    assert rate.rate(4000) == 0


def test_rate_returns_its_allowance_and_when_it_grows() -> None:
    rate = WindowedRate(11, 1000)
    assert rate.allowance(100, 0) == 100
    assert rate.time_within(100, 0) == 0
    rate.record(300, 0)
    assert rate.allowance(100, 0) == -200
    assert rate.time_within(100, 0) == 3000
    assert rate.allowance(100, 3000) == 0
    assert rate.allowance(100, 4000) == 100
    rate.record(1_000_000, 4000)
    assert rate.time_within(100, 4000) == 11_000  # the first window no longer counts
    assert rate.time_within(0, 4000) == 11_000


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 10_000)), max_size=60), st.floats(1, 10_000))
def test_recording_only_the_allowance_keeps_the_quota(records: list[tuple[float, int]], quota: float) -> None:
    """The quota holds over the whole time, apart from the first window."""
    rate = WindowedRate(11, 1000)
    now_ms = total = 0.0
    for pause_ms, size in records:
        now_ms += pause_ms
        allowed = int(min(size, max(rate.allowance(quota, now_ms), 0)))
        rate.record(allowed, now_ms)
        total += allowed
        assert total <= quota * (now_ms + 1000) / 1000


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 10_000)), min_size=1, max_size=30), st.floats(1, 1000))
def test_rate_exceeds_the_quota_until_the_returned_time(records: list[tuple[float, int]], quota: float) -> None:
    rate = WindowedRate(11, 1000)
    now_ms = 0.0
    for pause_ms, size in records:
        now_ms += pause_ms
        rate.record(size, now_ms)
    due_ms = rate.time_within(quota, now_ms)
    if due_ms > now_ms + 1:
        assert rate.rate((now_ms + due_ms) / 2) > quota * (1 - 1e-9)


def test_throttle_without_a_quota_allows_everything() -> None:
    quota = UNLIMITED
    throttle = Throttle(11, 1000, quota=lambda: quota, now_ms=lambda: 0)
    throttle.record(1 << 40)
    assert (throttle.allowance, throttle.wait_ms, throttle.has_room) == (inf, 0, True)
    quota = 1 << 20  # it takes effect at once, and earlier bytes count
    assert throttle.allowance < 0
    assert throttle.wait_ms > 0
    assert not throttle.has_room


@pytest.mark.parametrize(
    ("entries", "throttled"),
    [([], []), (["*"], range(4)), (["0:1", "2:1", "3:2"], [0, 2]), ([" 1:1", "", "1:2"], [1])],
)
def test_topic_config_lists_the_throttled_replicas(entries: list[str], throttled: list[int]) -> None:
    replicas = ThrottledReplicas.parse(entries, broker_id=1)
    assert [index for index in range(4) if index in replicas] == list(throttled)


# Replicas

RATE = 200_000
BATCH = 20_000
BATCHES = 60  # for six seconds
CHUNK = 40_000  # the most bytes of a partition in one fetch
LOOK_S = 0.02  # between two looks at what is copied, in which a tenth of a chunk may be


async def alter_configs(cluster: RunningCluster, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs.items()],
    )
    async with connected(cluster.port(1)) as client:
        response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == 0, response


async def add_replica(cluster: RunningCluster, index: int, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=index, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="topic", partitions=[partition])])
    async with connected(cluster.port(1)) as client:
        response = await client.call(request, 1)
    assert only(only(response.responses).partitions).error_code == 0


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_new_replica_is_copied_at_the_quota_while_others_continue(tmp_path: Path, side: str) -> None:
    overrides = {"replica.fetch.max.bytes": str(CHUNK)}
    async with running_cluster(tmp_path, overrides=overrides) as cluster:
        await create_replicated(cluster, [[1, 2], [1, 3]])
        for _ in range(BATCHES):
            assert await send(cluster, 1, bytes(BATCH)) == 0
        broker = {"leader": 1, "follower": 3}[side]
        await alter_configs(cluster, TOPIC, "topic", {f"{side}.replication.throttled.replicas": f"0:{broker}"})
        await alter_configs(cluster, BROKER, str(broker), {f"{side}.replication.throttled.rate": str(RATE)})
        began = trio.current_time()
        await add_replica(cluster, 0, 1, 2, 3)
        copied = 0
        while copied < 2 * RATE:
            assert await send(cluster, 1, b"in sync", index=1) == 0
            assert await send(cluster, 1, b"in sync") == 0
            copied = len(content(tmp_path, 3)) if (tmp_path / "node-3" / "topic-0").exists() else 0
            # At first, a whole window may be used up, and a batch is always sent whole.
            assert copied <= RATE * (trio.current_time() - began + 1) + CHUNK + BATCH
            await trio.sleep(LOOK_S)
        await alter_configs(cluster, BROKER, str(broker), {f"{side}.replication.throttled.rate": str(1 << 40)})
        await until_described(cluster, 1, leader=1, isr=[1, 2, 3])
        await until_replicated(cluster, tmp_path, [1, 2, 3])


async def test_in_sync_replica_is_never_throttled(tmp_path: Path) -> None:
    """A replica that returns out of sync is throttled until the throttle is removed, without a restart."""
    async with running_cluster(tmp_path) as cluster:
        throttled = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
        await create_replicated(cluster, [[1, 2, 3]], throttled)
        rates = {f"{side}.replication.throttled.rate": "1" for side in ("leader", "follower")}
        await alter_configs(cluster, BROKER, "", rates)
        for number in range(20):
            assert await send(cluster, 1, b"%d" % number) == 0
        await until_described(cluster, 1, leader=1, isr=[1, 2, 3])
        await cluster.nodes[3].stop()
        assert await send(cluster, 1, bytes(BATCH)) == 0
        await cluster.start(3)
        for number in range(20):
            assert await send(cluster, 1, b"%d" % number) == 0
        assert len(content(tmp_path, 3)) < len(content(tmp_path, 1))
        await alter_configs(cluster, BROKER, "", {name: str(1 << 40) for name in rates})
        await until_described(cluster, 1, leader=1, isr=[1, 2, 3])
        await until_replicated(cluster, tmp_path, [1, 2, 3])
