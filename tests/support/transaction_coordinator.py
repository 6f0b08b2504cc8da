"""A node that leads two partitions, coordinates a transaction and a group, and records its requests.

It does not check the rules of transactions: tests choose the errors of responses, and check the order of requests.
"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from queue import Queue
from threading import Thread
from typing import Any, Final

import trio

from broker.wire.api import APIS
from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from broker.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from broker.wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from broker.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import read_header
from tests.support.scripted_node import ScriptedNode, scripted_node

PRODUCER_ID: Final = 77
_TOPIC_ID: Final = b"o" * 16
_TOPIC: Final = "orders"
_PARTITIONS: Final = 2


class ScriptedCoordinator:
    """`answers` maps the API's name to the errors of the next responses; NONE follows.

    None among the errors means no response. `version` is the finalized transaction.version. `seen` has the requests as
    text. `kept` is the producer id and epoch of the transaction that a former producer has prepared.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.answers: dict[str, deque[ErrorCode | None]] = defaultdict(deque)
        self.seen: list[str] = []
        self.epoch = 0
        self.kept: tuple[int, int] | None = None
        self.node: ScriptedNode

    @property
    def address(self) -> str:
        return self.node.address

    def fail_next(self, api: str, *codes: ErrorCode | None) -> None:
        """Answer the next requests of an API with these errors."""
        self.answers[api].extend(codes)

    def take(self) -> list[str]:
        """The requests since the last call, without those that look up nodes."""
        seen, self.seen = self.seen, []
        return [each for each in seen if not each.startswith("Find")]

    def script(self, request: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if isinstance(request, MetadataRequest):
            return self._described()
        if isinstance(request, DescribeClusterRequest):
            brokers = [DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=self.node.port)]
            return DescribeClusterResponse(cluster_id="scripted", controller_id=1, brokers=brokers)
        queue = self.answers[name]
        code = queue.popleft() if queue else ErrorCode.NONE
        self.seen.append(name + _ANSWERS[name][0](request))
        return None if code is None else _ANSWERS[name][1](self, request, code)

    def advertise(self, request: ApiVersionsRequest, version: int) -> tuple[ApiVersionsResponse, int]:
        response = ApiVersionsResponse(
            api_keys=[ApiVersion(api.key, api.min_version, api.max_version) for api in APIS.values()]
        )
        response.finalized_features_epoch = 1
        response.finalized_features = [FinalizedFeatureKey(name="transaction.version", max_version_level=self.version)]
        return response, version

    def _described(self) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.node.port)],
            topics=[
                MetadataResponseTopic(
                    name=_TOPIC,
                    topic_id=_TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(partition_index=number, leader_id=1) for number in range(_PARTITIONS)
                    ],
                )
            ],
        )

    def _found(self, request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        found = Coordinator(
            key=request.coordinator_keys[0], node_id=1, host="127.0.0.1", port=self.node.port, error_code=code
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _initialized(self, request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        if code == ErrorCode.NONE:
            self.epoch += 1
        response = InitProducerIdResponse(error_code=code, producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if request.keep_prepared_txn and self.kept is not None:
            response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = self.kept
        return response

    def _added(self, request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
        """Only the first partition has the error; the others are OPERATION_NOT_ATTEMPTED."""
        rest = ErrorCode.NONE if code == ErrorCode.NONE else ErrorCode.OPERATION_NOT_ATTEMPTED
        asked = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=code if each == len(asked) - 1 else rest
                        )
                    ],
                )
                for each, (name, index) in enumerate(asked)
            ]
        )

    def _ended(self, request: EndTxnRequest, code: ErrorCode) -> EndTxnResponse:
        if self.version < 2 or code != ErrorCode.NONE:
            return EndTxnResponse(error_code=code)
        self.epoch += 1
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _offsets_added(self, request: AddOffsetsToTxnRequest, code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code)

    def _offsets_committed(self, request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _produced(self, request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=each.index, error_code=code) for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )


def _describe_produce(request: ProduceRequest) -> str:
    batches = []
    for topic in request.topic_data:
        for each in topic.partition_data:
            header = read_header(bytes(each.records or b""), 0)
            assert header.is_transactional
            assert request.transactional_id == "payments"
            batches.append(f"{each.index}@{header.producer_epoch}.{header.base_sequence}+{header.count}")
    return f"({' '.join(batches)})"


def _describe_initialization(request: InitProducerIdRequest) -> str:
    two_phase = f" two-phase {request.transaction_timeout_ms}" if request.enable2_pc else ""
    return f"(@{request.producer_epoch}{two_phase}{' keep' if request.keep_prepared_txn else ''})"


def _describe_partitions(request: AddPartitionsToTxnRequest) -> str:
    partitions = sorted(index for topic in request.v3_and_below_topics for index in topic.partitions)
    return f"({' '.join(map(str, partitions))}@{request.v3_and_below_producer_epoch})"


def _describe_offsets(request: TxnOffsetCommitRequest) -> str:
    offsets = [
        f"{each.partition_index}:{each.committed_offset}" for topic in request.topics for each in topic.partitions
    ]
    member = f"{request.generation_id_or_member_epoch} {request.member_id}"
    return f"({request.group_id} {member} {' '.join(offsets)}@{request.producer_epoch})"


# For each API, the functions that record a request and answer it.
_ANSWERS: Final[dict[str, tuple[Callable[[Any], str], Callable[[ScriptedCoordinator, Any, ErrorCode], Any]]]] = {
    "FindCoordinator": (lambda request: f"({request.coordinator_keys[0]})", ScriptedCoordinator._found),
    "InitProducerId": (_describe_initialization, ScriptedCoordinator._initialized),
    "AddPartitionsToTxn": (_describe_partitions, ScriptedCoordinator._added),
    "AddOffsetsToTxn": (lambda request: f"({request.group_id})", ScriptedCoordinator._offsets_added),
    "TxnOffsetCommit": (_describe_offsets, ScriptedCoordinator._offsets_committed),
    "EndTxn": (
        lambda request: f"({'commit' if request.committed else 'abort'}@{request.producer_epoch})",
        ScriptedCoordinator._ended,
    ),
    "Produce": (_describe_produce, ScriptedCoordinator._produced),
}


@asynccontextmanager
async def scripted_coordinator(version: int, *, within_s: float = 10) -> AsyncIterator[ScriptedCoordinator]:
    """Run a coordinator within the block, which fails after `within_s` seconds."""
    coordinator = ScriptedCoordinator(version)
    async with scripted_node(coordinator.script) as node:
        coordinator.node = node
        node.answer_api_versions = coordinator.advertise
        with trio.fail_after(within_s):
            yield coordinator


@contextmanager
def coordinator_thread(version: int) -> Iterator[ScriptedCoordinator]:
    """Run a coordinator in another thread within the block, for blocking clients."""
    opened: Queue[tuple[ScriptedCoordinator, trio.lowlevel.TrioToken, trio.CancelScope]] = Queue()

    async def serve() -> None:
        with trio.CancelScope() as scope:
            async with scripted_coordinator(version, within_s=60) as coordinator:
                opened.put((coordinator, trio.lowlevel.current_trio_token(), scope))
                await trio.sleep_forever()

    thread = Thread(target=trio.run, args=(serve,))
    thread.start()
    coordinator, token, scope = opened.get(timeout=10)
    try:
        yield coordinator
    finally:
        token.run_sync_soon(scope.cancel)
        thread.join()
