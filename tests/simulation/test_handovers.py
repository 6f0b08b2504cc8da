"""Producers' latencies while brokers stop or crash, in virtual time, so that the speed of the machine does not matter.

The timeouts are Kafka's defaults; no request may wait for one of them. A pause of replica.fetch.wait.max.ms (500 ms) is
detected: it means that a fetch was not answered although it should have been.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise

import pytest
import trio

from broker.client import ConnectionLost
from broker.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.records import Record, encode_batch
from jepsen.simulation.subjects.node_plan import KAFKA_PORT
from jepsen.workloads.connection import Connection
from tests.simulation.scripted_clients import TOPIC
from tests.simulation.scripted_replicas import ScriptedReplicas, play

BETWEEN_RECORDS_SECONDS = 0.01
PAUSE_SECONDS_MAX = 0.1


async def _stop(stage: ScriptedReplicas, name: str) -> None:
    await stage.cluster.stop(stage.host(name), timeout_seconds=20, down_seconds=float("inf"))


async def _kill(stage: ScriptedReplicas, name: str) -> None:
    stage.kill(name)


async def _pauses(stage: ScriptedReplicas, ends: Callable[[ScriptedReplicas, str], Awaitable[None]]) -> list[float]:
    """End and restart each broker. Returns, for each, the longest time between two acknowledgements."""
    a, b, c = stage.brokers
    await stage.lay_out(a, b, c, min_insync_replicas=2)
    # Without records, so that some fetches wait.
    idle = CreatableTopic(name="idle", num_partitions=6, replication_factor=3)
    assert not (await stage.ask(a, CreateTopicsRequest(topics=[idle]), 7)).topics[0].error_code
    pauses = []
    for name in (a, b, c):
        acknowledged = [trio.current_time()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.simulation.on, stage.client, _go_on_producing, stage, acknowledged)
            await trio.sleep(0.5)
            await ends(stage, name)
            await trio.sleep(2)
            nursery.cancel_scope.cancel()
        acknowledged.append(trio.current_time())
        pauses.append(max(later - before for before, later in pairwise(acknowledged)))
        await stage.start(name)
        await stage.in_sync(a, b, c, by=name)
    return pauses


async def _go_on_producing(stage: ScriptedReplicas, acknowledged: list[float]) -> None:
    """Send one record after another to the leader, over one connection while it lasts."""
    while True:
        leader = _leader(stage)
        if stage.host(leader).is_serving:
            with suppress(ConnectionLost):
                await _produce_to(stage, leader, acknowledged)
        await trio.sleep(BETWEEN_RECORDS_SECONDS)


def _leader(stage: ScriptedReplicas) -> str:
    """The latest leader of the topic that was created first."""
    first, *_ = led = stage.traced("partition_led")
    same = [event for event in led if event.fields["topic_id"] == first.fields["topic_id"]]
    return max(same, key=lambda event: int(str(event.fields["leader_epoch"]))).host


async def _produce_to(stage: ScriptedReplicas, leader: str, acknowledged: list[float]) -> None:
    """Send records until one is refused. Raises ConnectionLost."""
    connection = await Connection.open((leader, KAFKA_PORT), 0)
    try:
        while True:
            record = Record(
                timestamp=int(stage.client.wall() * 1000), key=None, value=f"{trio.current_time()}".encode()
            )
            data = PartitionProduceData(index=0, records=memoryview(encode_batch([record])))
            topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
            response = await connection.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), 12)
            if response.responses[0].partition_responses[0].error_code:
                return
            acknowledged.append(trio.current_time())
            await trio.sleep(BETWEEN_RECORDS_SECONDS)
    finally:
        await connection.aclose()


@pytest.mark.seeds(2, first=1)
@pytest.mark.parametrize("ends", [_stop, _kill], ids=["stop", "kill"])
def test_producers_hardly_notice(ends: Callable[[ScriptedReplicas, str], Awaitable[None]], seed: int) -> None:
    pauses: list[float] = []

    async def script(stage: ScriptedReplicas) -> None:
        pauses.extend(await _pauses(stage, ends))

    assert play(script, seed=seed).violation is None
    assert len(pauses) == 3
    assert max(pauses) < PAUSE_SECONDS_MAX
