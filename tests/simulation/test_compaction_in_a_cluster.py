"""A compacted topic in a cluster whose machines fail repeatedly: each key keeps its last acknowledged value."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import attrs
import pytest
import trio

from broker.client import ConnectionLost
from broker.storage.cleaner.record_retention import RecordRetention
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.records import Record, encode_batch, iter_headers, iter_records
from jepsen.simulation import Host, Simulation
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, NodePlan
from jepsen.workloads.connection import Connection
from tests.support.compacted_logs import latest

TOPIC = "topic"
KEYS = 6
STRIKES = 6
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "3600000",
    "min.insync.replicas": "2",
}
BROKER_TYPE, SET = 4, 0


@attrs.define
class CompactionWorkload:
    """`attempts` has the values that were sent for each key, in order, and whether each was acknowledged."""

    cluster: Cluster
    client: Host
    rng: Random
    attempts: dict[bytes, list[tuple[bytes | None, bool]]] = attrs.field(factory=dict)
    is_over: bool = False
    favourite: str = "n1"

    async def ask(self, name: str, request: Any, version: int) -> Any:
        """Send a request to a broker and return its response. Raises ConnectionLost."""
        return await self.cluster.simulation.on(self.client, self._ask, name, request, version)

    async def _ask(self, name: str, request: Any, version: int) -> Any:
        connection = await Connection.open((name, KAFKA_PORT), 0)
        try:
            return await connection.call(request, version)
        finally:
            await connection.aclose()

    async def until_answered(self, request: Any, version: int, is_right: Callable[[Any], bool]) -> Any:
        """Ask one broker after the other until one answers without an error."""
        while True:
            for name in self.cluster.nodes:
                try:
                    answer = await self.ask(name, request, version)
                except ConnectionLost:
                    continue
                if is_right(answer):
                    return answer
            await trio.sleep(0.2)

    async def lay_out(self) -> None:
        quickly = [AlterableConfig(name="log.cleaner.backoff.ms", config_operation=SET, value="300")]
        resource = AlterConfigsResource(resource_type=BROKER_TYPE, resource_name="", configs=quickly)
        change = IncrementalAlterConfigsRequest(resources=[resource])
        await self.until_answered(change, 1, lambda answer: answer.responses[0].error_code == 0)
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()],
        )
        created = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        await self.until_answered(created, 7, lambda answer: answer.topics[0].error_code in (0, 36))

    async def all_in_sync(self) -> None:
        await self.cluster.wait_serving()

        def is_right(answer: Any) -> bool:
            partitions = answer.topics[0].partitions
            return bool(partitions) and len(partitions[0].isr_nodes) == 3

        await self.until_answered(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)]), 0, is_right)

    async def write(self) -> None:
        number = 0
        while not self.is_over:
            key = b"%d" % self.rng.randrange(KEYS)
            value = None if self.rng.random() < 0.15 else b"%d" % number
            records = encode_batch([Record(timestamp=int(self.client.wall() * 1000), key=key, value=value)])
            is_told = await self._write_once(records)
            self.attempts.setdefault(key, []).append((value, is_told))
            number += 1
            if is_told:
                await trio.sleep(0.02)
            else:
                self.favourite = self.rng.choice(list(self.cluster.nodes))
                await trio.sleep(0.1)

    async def _write_once(self, records: bytes) -> bool:
        data = PartitionProduceData(index=0, records=memoryview(records))
        request = ProduceRequest(
            acks=-1, timeout_ms=1_500, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        try:
            answer = await self.ask(self.favourite, request, 12)
        except ConnectionLost:
            return False
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    async def inject(self) -> None:
        for _ in range(STRIKES):
            await trio.sleep(self.rng.uniform(2, 5))
            await self.all_in_sync()
            await trio.sleep(self.rng.uniform(0, 1))
            host = self.cluster.nodes[self.rng.choice(list(self.cluster.nodes))]
            self.cluster.crash(host, power=self.rng.random() < 0.6, down_seconds=self.rng.uniform(0.5, 3))
            await trio.sleep(0.1)
        await self.all_in_sync()
        self.is_over = True

    async def read(self, by: str) -> list[Record] | None:
        """All records; None if this broker does not lead."""
        records: list[Record] = []
        offset = 0
        while True:
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
            )
            answer = (await self.ask(by, request, 12)).responses[0].partitions[0]
            if answer.error_code:
                return None
            batches = list(iter_headers(answer.records or b""))
            if not batches:
                return records
            records += [record for at, header in batches for record in iter_records(answer.records, at, header)]
            offset = batches[-1][1].next_offset

    def judge(self, records: list[Record]) -> list[str]:
        wrong = []
        found = latest(records)
        for key, attempts in self.attempts.items():
            told = max((at for at, (_, is_told) in enumerate(attempts) if is_told), default=0)
            possible = {value for at, (value, is_told) in enumerate(attempts) if at >= told or not is_told}
            if found.get(key) not in possible:
                wrong.append(f"{key!r} is {found.get(key)!r} and not one of {possible!r}")
        offsets = [record.offset for record in records]
        if offsets != sorted(set(offsets)):
            wrong.append("offsets do not ascend")
        return wrong


async def play(workload: CompactionWorkload, seen: dict[str, Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workload.cluster.run)
        await workload.cluster.wait_serving()
        await workload.lay_out()
        await workload.all_in_sync()
        async with trio.open_nursery() as scenes:
            scenes.start_soon(workload.write)
            scenes.start_soon(workload.inject)
        await trio.sleep(2)
        for name in workload.cluster.nodes:
            records = await workload.read(name)
            if records is not None:
                seen["wrong"] = workload.judge(records)
                seen["records"] = len(records)
        nursery.cancel_scope.cancel()


def run(seed: int) -> dict[str, Any]:
    simulation = Simulation(f"compaction-{seed}")
    plan = NodePlan(3, 0, 0, simulation.rng("subject"))
    cluster = Cluster(simulation, {each.name: plan.factory(each, {each.name: 0}) for each in plan.nodes})
    workload = CompactionWorkload(cluster, cluster.add_client("client"), Random(seed))
    seen: dict[str, Any] = {"cleaned": 0, "swaps": 0}

    def listen(event: Any) -> None:
        seen["cleaned"] += event.kind == "storage_log_cleaned"
        seen["swaps"] += event.kind == "storage_swap_finished"

    simulation.trace.listeners.append(listen)
    simulation.run(partial(play, workload, seen))
    seen["written"] = sum(len(attempts) for attempts in workload.attempts.values())
    return seen


@pytest.mark.seeds(2, first=1)
def test_each_key_keeps_its_last_value(seed: int) -> None:
    seen = run(seed)
    assert seen["wrong"] == []
    assert seen["cleaned"] > 5
    assert seen["records"] < seen["written"] / 2


def test_a_cleaner_that_takes_the_last_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    retained_records = RecordRetention.retained_records
    monkeypatch.setattr(
        RecordRetention, "retained_records", lambda rules, header, records: retained_records(rules, header, records)[1:]
    )
    assert any(run(seed)["wrong"] for seed in range(1, 10))
