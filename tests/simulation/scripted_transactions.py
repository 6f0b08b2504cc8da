"""A stage for transactions: one node, and a producer whose requests a script sends one by one.

The script may delay a request. The transactions are recorded, and finally checked for the promises to transactional
clients.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from broker.coordinator.internal_topics import TRANSACTION_STATE
from broker.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.end_txn import EndTxnRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.errors import ErrorCode
from broker.wire.records import Record, encode_batch
from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import process_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, NodePlan
from jepsen.values import Decision, Sending, Transaction, WantedTopic
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import read_all_committed
from jepsen.workloads.connection import Connection
from jepsen.workloads.topics import create_topic
from tests.simulation.scripted_run import ScriptedRun

TOPIC: Final = "topic"
PARTITIONS: Final = 2
TRANSACTIONAL_ID: Final = "id"
_TIMEOUT_MS: Final = 60_000
_INIT_VERSION: Final = 5
_ADD_VERSION: Final = 3
_RETRY_SECONDS: Final = 0.05


@attrs.frozen
class RequestVersions:
    """The requests of a producer under a level of the feature `transaction.version`."""

    produce: int
    end: int
    adds_partitions: bool


# The requests of a producer by the cluster's level of the feature: the producer has it from ApiVersions.
_REQUESTS_OF_LEVEL: Final[Mapping[int, RequestVersions]] = {
    0: RequestVersions(produce=11, end=3, adds_partitions=True),
    2: RequestVersions(produce=12, end=5, adds_partitions=False),
}
_FEATURE: Final = "transaction.version"
_UNSAFE_DOWNGRADE: Final = 3
_FEATURES_VERSION: Final = 2
_API_VERSIONS_VERSION: Final = 4


@attrs.define(kw_only=True)
class ScriptedTransactions(ScriptedRun):
    """`producer` is the machine of the producer, and `consumer` that of the final consumer."""

    node: str
    producer: Host
    consumer: Host
    history: History
    level: int
    versions: RequestVersions = attrs.field(init=False)
    producer_id: int = -1
    epoch: int = -1
    _sequences: list[int] = attrs.field(factory=lambda: [0] * PARTITIONS)
    _connection: Connection | None = None

    async def lay_out(self) -> None:
        """Set the level of the feature `transaction.version`, create the topics, and get a producer id."""
        client = self._client("setup")
        await self._set_level()
        for name, partitions in ((TRANSACTION_STATE, 1), (TOPIC, PARTITIONS)):
            while not await self._on(self.producer, create_topic, client, WantedTopic(name, partitions)):
                await client.back_off()
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=_TIMEOUT_MS)
        response = await self.call(request, _INIT_VERSION)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    async def _set_level(self) -> None:
        """Lower the cluster's level of the feature if necessary, and use it from when the node reports it."""
        if await self._reported_level() != self.level:
            update = FeatureUpdateKey(feature=_FEATURE, max_version_level=self.level, upgrade_type=_UNSAFE_DOWNGRADE)
            response = await self.call(UpdateFeaturesRequest(feature_updates=[update]), _FEATURES_VERSION)
            assert response.error_code == 0, response.error_message
        while await self._reported_level() != self.level:
            await trio.sleep(_RETRY_SECONDS)
        self.versions = _REQUESTS_OF_LEVEL[self.level]

    async def _reported_level(self) -> int:
        request = ApiVersionsRequest(client_software_name="stage", client_software_version="1")
        response = await self.call(request, _API_VERSIONS_VERSION)
        return {each.name: int(each.max_version_level) for each in response.finalized_features}.get(_FEATURE, 0)

    # Requests of the producer

    async def connect(self) -> Connection:
        """A connection besides the one that other requests use."""
        connection: Connection = await self._on(self.producer, Connection.open, (self.node, KAFKA_PORT), 0)
        return connection

    async def send_late(self, connection: Connection, request: Any, version: int, seconds: float) -> None:
        """Send a request that takes so long to arrive, and do not wait for the response."""
        link = self.simulation.network.links.link(self.producer.name, self.node)
        latency, link.latency = link.latency, seconds
        await self._on(self.producer, connection.send, [request], version)
        link.latency = latency

    async def call(self, request: Any, version: int) -> Any:
        """The response to a request, which is repeated while the node is not ready or ends a transaction."""
        if self._connection is None:
            self._connection = await self.connect()
        while True:
            response = await self._on(self.producer, self._connection.call, request, version)
            if response.error_code not in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            ):
                return response
            await trio.sleep(_RETRY_SECONDS)

    def end_request(self, *, is_commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )

    # Transactions

    def begin(self, name: str) -> None:
        """Begin a transaction that is to write "<name>/<index>" to each partition."""
        records = tuple((TOPIC, index, (f"{name}/{index}",)) for index in range(PARTITIONS))
        self.history.ok(self.history.invoke("p", "transact", Transaction(TRANSACTIONAL_ID, name, records)), None)

    async def write(self, name: str, index: int) -> None:
        """Write the record of a transaction to a partition."""
        value = f"{name}/{index}"
        self.history.invoke("p", "send", Sending(TOPIC, index, "", 0, (value,)))
        if self.versions.adds_partitions:
            await self._add_partition(index)
        batch = encode_batch(
            [Record(timestamp=int(self.producer.wall() * 1000), key=None, value=value.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[index],
            transactional=True,
        )
        self._sequences[index] += 1
        data = PartitionProduceData(index=index, records=memoryview(batch))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        request = ProduceRequest(transactional_id=TRANSACTIONAL_ID, acks=-1, timeout_ms=2_000, topic_data=topics)
        assert self._connection is not None, "the producer has its id"
        while True:
            response = await self._on(self.producer, self._connection.call, request, self.versions.produce)
            code = response.responses[0].partition_responses[0].error_code
            if code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS):
                assert code == 0, ErrorCode(code).name
                return
            await trio.sleep(_RETRY_SECONDS)

    async def end(self, name: str, *, is_commit: bool) -> None:
        """Commit or abort a transaction; under version 2, take the next epoch."""
        decision = self.history.invoke("p", "end-transaction", Decision(name, is_commit))
        response = await self.call(self.end_request(is_commit=is_commit), self.versions.end)
        if response.error_code:
            self.history.info(decision, ErrorCode(response.error_code).name)
            return
        self.history.ok(decision, None)
        if response.producer_epoch >= 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences = [0] * PARTITIONS

    async def _add_partition(self, index: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
        )
        assert self._connection is not None, "the producer has its id"
        while True:
            response = await self._on(self.producer, self._connection.call, request, _ADD_VERSION)
            code = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                assert code == 0, ErrorCode(code).name
                return
            await trio.sleep(_RETRY_SECONDS)

    # The end

    async def judge(self) -> None:
        """Read all committed records, and check the history."""
        client = self._client("final")
        for index in range(PARTITIONS):
            await self._on(self.consumer, read_all_committed, client, TOPIC, index)
        for checker in TRANSACTION_CHECKERS:
            for anomaly in checker.check(self.history):
                self.fail(str(anomaly))

    def _client(self, name: str) -> Client:
        servers = [(self.node, KAFKA_PORT)]
        return Client(
            name, servers, self.history, self.simulation.rng(name), self.consumer.wall, lambda host: 0, lambda *at: 0
        )

    async def _on(self, host: Host, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await self.simulation.on(host, function, *args)


def play(script: Callable[[ScriptedTransactions], Awaitable[None]], level: int) -> ScriptedTransactions:
    """Start the node with a level of the feature `transaction.version`, run the script, and judge its history."""
    simulation = Simulation("1")
    plan = NodePlan(1, 0, 0, simulation.rng("subject"))
    (node,) = plan.nodes
    cluster = Cluster(simulation, {node.name: plan.factory(node, {node.name: 0})})
    stage = ScriptedTransactions(
        simulation=simulation,
        cluster=cluster,
        node=node.name,
        producer=cluster.add_client("producer"),
        consumer=cluster.add_client("consumer"),
        history=History(simulation.clock.current_time, simulation.trace.operation),
        level=level,
    )

    async def whole() -> None:
        await cluster.wait_serving()
        await stage.lay_out()
        await script(stage)
        await stage.judge()

    stage.perform(process_invariants(simulation.hosts), whole)
    return stage
