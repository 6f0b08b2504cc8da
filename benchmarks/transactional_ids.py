"""Many transactional ids with open transactions, made by one client with pipelined requests.

All partitions of `__transaction_state` are led by the same node, so that it coordinates all ids; after its death, the
second replica does.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from benchmarks.clusters import Cluster
from benchmarks.protocol import Connection
from broker.client.payloads import decode_response, encode_request
from broker.coordinator.internal_topics import TRANSACTION_STATE
from broker.coordinator.runtime.java_hash import java_hash
from broker.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from broker.wire.api.describe_transactions import DescribeTransactionsRequest, TransactionState
from broker.wire.api.end_txn import EndTxnRequest
from broker.wire.api.init_producer_id import InitProducerIdRequest
from broker.wire.api.list_transactions import ListTransactionsRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode

TOPIC: Final = "transactional"
PARTITIONS: Final = 50
_IN_FLIGHT: Final = 100
# Ids that are initialized and then opened, before the next ones.
_OPENED_AT_ONCE: Final = 500
_WAIT_TIMEOUT_S: Final = 120.0
_LOOK_S: Final = 0.02
_GONE: Final = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
_INIT_VERSION, _ADD_VERSION, _END_VERSION = 4, 3, 3


@attrs.define
class OpenTransaction:
    """A transactional id with its producer; `partition` is that of `__transaction_state`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def partition(self) -> int:
        return java_hash(self.transactional_id) % PARTITIONS


class Pipeline:
    """A connection with many requests in flight; a context manager."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port, timeout_s=60)

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__()

    def ask(self, request: Any, version: int) -> Any:
        return self.ask_all([request], version)[0]

    def ask_all(self, requests: Sequence[Any], version: int) -> list[Any]:
        """Send the requests, and return their responses in the same order."""
        responses: list[Any] = []
        frames = map(self._frame, requests, [version] * len(requests))
        for sent, frame in enumerate(frames):
            self._connection.send(frame)
            if sent >= _IN_FLIGHT:
                responses.append(self._receive(requests[len(responses)], version))
        while len(responses) < len(requests):
            responses.append(self._receive(requests[len(responses)], version))
        return responses

    @staticmethod
    def _frame(request: Any, version: int) -> bytes:
        payload = encode_request(request, version, "bench-transactions")
        return len(payload).to_bytes(4) + payload

    def _receive(self, request: Any, version: int) -> Any:
        return decode_response(request, version, self._connection.receive())


def create_topics(cluster: Cluster) -> None:
    """Create the topic of the transactions and `__transaction_state`, whose leader is the first node."""
    nodes = [each.place.node_id for each in cluster.members]
    spread = [nodes[at % len(nodes) :] + nodes[: at % len(nodes)] for at in range(PARTITIONS)]
    with Pipeline(cluster.members[0].port) as pipeline:
        for name, replicas in ((TRANSACTION_STATE, [nodes] * PARTITIONS), (TOPIC, spread)):
            assignments = [
                CreatableReplicaAssignment(partition_index=index, broker_ids=each)
                for index, each in enumerate(replicas)
            ]
            topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
            created = pipeline.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5).topics[0]
            assert created.error_code == 0, created
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        _wait(lambda: all(part.leader_id > 0 for part in pipeline.ask(metadata, 9).topics[0].partitions))


def open_transactions(
    port: int, count: int, timeout_ms: Callable[[], int], prefix: str = "transactional"
) -> list[OpenTransaction]:
    """Initialize so many transactional ids, each of which begins a transaction in one partition."""
    found: list[OpenTransaction] = []
    with Pipeline(port) as pipeline:
        for first in range(0, count, _OPENED_AT_ONCE):
            ids = [f"{prefix}-{at:06}" for at in range(first, min(first + _OPENED_AT_ONCE, count))]
            opened = _initialize(pipeline, ids, timeout_ms())
            _add_partitions(pipeline, opened)
            found += opened
    return found


def _initialize(pipeline: Pipeline, ids: Sequence[str], timeout_ms: int) -> list[OpenTransaction]:
    requests = [
        InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=timeout_ms, producer_id=-1) for each in ids
    ]
    responses = _until_done(pipeline, requests, _INIT_VERSION, lambda response: response.error_code)
    return [
        OpenTransaction(name, each.producer_id, each.producer_epoch) for name, each in zip(ids, responses, strict=True)
    ]


def _add_partitions(pipeline: Pipeline, opened: Sequence[OpenTransaction]) -> None:
    requests = [
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=each.transactional_id,
            v3_and_below_producer_id=each.producer_id,
            v3_and_below_producer_epoch=each.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[each.producer_id % PARTITIONS])],
        )
        for each in opened
    ]
    _until_done(
        pipeline,
        requests,
        _ADD_VERSION,
        lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
    )


_RETRIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def _until_done(pipeline: Pipeline, requests: Sequence[Any], version: int, code_of: Callable[[Any], int]) -> list[Any]:
    """Send the requests again until each has succeeded; the responses in their order."""
    responses: list[Any] = [None] * len(requests)
    left = list(range(len(requests)))
    deadline = time.monotonic() + _WAIT_TIMEOUT_S
    while True:
        for at, response in zip(left, pipeline.ask_all([requests[at] for at in left], version), strict=True):
            responses[at] = response
        left = [at for at in left if code_of(responses[at])]
        if not left:
            return responses
        codes = {code_of(responses[at]) for at in left}
        if not codes <= set(_RETRIED) or time.monotonic() > deadline:
            raise AssertionError(f"{len(left)} of {len(requests)} requests fail with {codes}")
        time.sleep(_LOOK_S)


def last_of_partitions(opened: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """The transaction of each partition of `__transaction_state` that was opened last."""
    return list({each.partition: each for each in opened}.values())


def seconds_until_ended(port: int, probes: Sequence[OpenTransaction], since: float) -> list[float]:
    """Abort each of these transactions, as soon as its coordinator serves it. Returns the seconds from `since`."""
    left, ended = list(probes), []
    with Pipeline(port) as pipeline:
        while left:
            requests = [
                EndTxnRequest(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    committed=False,
                )
                for each in left
            ]
            responses = pipeline.ask_all(requests, _END_VERSION)
            passed = time.perf_counter() - since
            ended += [passed for each in responses if not each.error_code]
            left = [each for each, response in zip(left, responses, strict=True) if response.error_code]
            assert all(each.error_code in (0, *_RETRIED) for each in responses), responses
            if passed > _WAIT_TIMEOUT_S:
                raise TimeoutError(f"{len(left)} partitions of {TRANSACTION_STATE} are not served")
            time.sleep(_LOOK_S if left else 0)
    return sorted(ended)


def without(opened: Sequence[OpenTransaction], others: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    left_out = {each.transactional_id for each in others}
    return [each for each in opened if each.transactional_id not in left_out]


def wait_until_begun(port: int, probes: Sequence[OpenTransaction]) -> None:
    """Wait until one of these transactional ids has no open transaction any more."""
    _wait_for_states(port, probes, lambda states: any(each.transaction_state != "Ongoing" for each in states))


def wait_until_aborted(port: int, probes: Sequence[OpenTransaction]) -> None:
    """Wait until the transactions of all these transactional ids are aborted."""
    _wait_for_states(port, probes, lambda states: all(each.transaction_state == "CompleteAbort" for each in states))


def wait_until_one_is_gone(port: int, probes: Sequence[OpenTransaction]) -> None:
    """Wait until one of these transactional ids is removed."""
    _wait_for_states(port, probes, lambda states: any(each.error_code == _GONE for each in states))


def wait_until_gone(port: int, probes: Sequence[OpenTransaction]) -> None:
    """Wait until all these transactional ids are removed."""
    _wait_for_states(port, probes, lambda states: all(each.error_code == _GONE for each in states))


def _wait_for_states(
    port: int, probes: Sequence[OpenTransaction], condition: Callable[[Sequence[TransactionState]], bool]
) -> None:
    request = DescribeTransactionsRequest(transactional_ids=[each.transactional_id for each in probes])
    with Pipeline(port) as pipeline:
        _wait(lambda: condition(pipeline.ask(request, 0).transaction_states))


def count_transactions(port: int, states: Sequence[str] = ()) -> int:
    """The number of transactional ids that a node coordinates, in these states."""
    with Pipeline(port) as pipeline:
        listed = pipeline.ask(ListTransactionsRequest(state_filters=list(states)), 0)
        assert listed.error_code == 0, listed
        return len(listed.transaction_states)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(_LOOK_S)
