"""The APIs of the share coordinator (KIP-932): InitializeShareGroupState (83), ReadShareGroupState (84),
WriteShareGroupState (85), DeleteShareGroupState (86), ReadShareGroupStateSummary (87).

Leaders of share-partitions and group coordinators send these requests. As in Kafka, a request without a group id, or
with a topic without partitions, gets an empty response. Share-partitions are carried out one by one, in the order of
the request; each has an error of its own.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.share.coordinator import ShareCoordinator
from broker.coordinator.share.record_formats import state_batches
from broker.coordinator.share.requests import Write, prepared
from broker.coordinator.share.share_state import PartitionState, PartitionSummary, SharePartitionKey
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS, Steps, consumed
from broker.wire.api import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation

# The classes of messages have no base class, and those of the five APIs have the same form.
_Message: TypeAlias = Any
_Partition: TypeAlias = Any
# Carries a request out for one of its share-partitions. Long work before that is done in steps.
_CarryOut: TypeAlias = Callable[[ShareCoordinator, SharePartitionKey, _Partition], Steps[Completion[Any]]]

# The batches of a write that takes several steps by itself. Others take 0.15 ms; but 500 updates may have to be merged
# first, after the coordinator was loaded, which takes 3 ms. So each share-partition is a step.
_LARGE_BATCHES: Final = 1000


def _respond(response: type[Any], topic_result: type[Any], partition_result: type[Any], carry_out: _CarryOut) -> Any:
    """Makes the function that handles the requests of one API, from the classes of its response."""

    def handle(context: BrokerContext, request: _Message) -> Work[_Message]:
        if not request.group_id or not all(topic.partitions for topic in request.topics):
            return response()
        coordinator = context.services.shares.coordinator
        begun: list[tuple[bytes, int, Completion[Any]]] = []
        for topic in request.topics:
            for asked in topic.partitions:
                if begun:
                    yield None
                key = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
                completion = yield from carry_out(coordinator, key, asked)
                begun.append((topic.topic_id, asked.partition, completion))
        results: dict[bytes, Any] = {}
        for number, (topic_id, index, completion) in enumerate(consumed(begun), 1):
            outcome = yield from completion
            result = results.get(topic_id)
            if result is None:
                result = results[topic_id] = topic_result(topic_id=topic_id)
            result.partitions.append(_result(partition_result, index, outcome))
            if not number % STEP_ITEMS:
                yield None
        return response(results=[*results.values()])

    return handle


def _result(partition_result: type[Any], index: int, outcome: Any) -> Any:
    match outcome:
        case KafkaError():
            return partition_result(partition=index, error_code=outcome.code, error_message=message_of(outcome))
        case PartitionState():
            return partition_result(
                partition=index,
                state_epoch=outcome.state_epoch,
                start_offset=outcome.start_offset,
                state_batches=outcome.batches,
            )
        case PartitionSummary():
            return partition_result(
                partition=index,
                state_epoch=outcome.state_epoch,
                leader_epoch=outcome.leader_epoch,
                start_offset=outcome.start_offset,
                delivery_complete_count=outcome.delivery_complete_count,
            )
    return partition_result(partition=index)


def _refused(
    response: type[Any],
    topic_result: type[Any],
    partition_result: type[Any],
    context: BrokerContext,
    request: _Message,
    error: KafkaError,
) -> Steps[_Message]:
    """The response with the same error for all share-partitions."""
    results = []
    for topic in request.topics:
        refused = []
        for asked in topic.partitions:
            refused.append(_result(partition_result, asked.partition, error))
            if not len(refused) % STEP_ITEMS:
                yield
        results.append(topic_result(topic_id=topic.topic_id, partitions=refused))
        if not len(results) % STEP_ITEMS:
            yield
    return response(results=results)


def _at_once(carry_out: Callable[[ShareCoordinator, SharePartitionKey, _Partition], Completion[Any]]) -> _CarryOut:
    """A request that is carried out in one step."""

    def steps(coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition) -> Steps[Completion[Any]]:
        yield from ()
        return carry_out(coordinator, key, asked)

    return steps


def _initialize(coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition) -> Completion[None]:
    return coordinator.initialize(key, asked.state_epoch, asked.start_offset)


def _read(coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition) -> Completion[PartitionState]:
    return coordinator.read(key, asked.leader_epoch)


def _write(coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition) -> Steps[Completion[None]]:
    is_large = len(asked.state_batches) > _LARGE_BATCHES
    if is_large:
        yield
    asked_for = Write(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        state_batches(asked.state_batches),
    )
    if is_large:
        yield
    written = yield from prepared(asked_for)
    if is_large:
        yield
    return coordinator.write(key, written)


def _delete(coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition) -> Completion[None]:
    return coordinator.delete(key)


def _summarize(
    coordinator: ShareCoordinator, key: SharePartitionKey, asked: _Partition
) -> Completion[PartitionSummary]:
    return coordinator.read_summary(key)


def _handler(request: type[Any], classes: tuple[type[Any], type[Any], type[Any]], carry_out: _CarryOut) -> Handler:
    """The handler of one API. A write of 40 share-partitions with 1,000 batches each takes 900 KiB."""
    return Handler(
        request,
        _respond(*classes, carry_out),
        request_bytes_max=REQUEST_BYTES_MAX,
        concurrent=True,
        operation=AclOperation.CLUSTER_ACTION,
        refused=partial(_refused, *classes),
    )


INITIALIZE_HANDLER = _handler(
    initialize_share_group_state.InitializeShareGroupStateRequest,
    (
        initialize_share_group_state.InitializeShareGroupStateResponse,
        initialize_share_group_state.InitializeStateResult,
        initialize_share_group_state.PartitionResult,
    ),
    _at_once(_initialize),
)
READ_HANDLER = _handler(
    read_share_group_state.ReadShareGroupStateRequest,
    (
        read_share_group_state.ReadShareGroupStateResponse,
        read_share_group_state.ReadStateResult,
        read_share_group_state.PartitionResult,
    ),
    _at_once(_read),
)
WRITE_HANDLER = _handler(
    write_share_group_state.WriteShareGroupStateRequest,
    (
        write_share_group_state.WriteShareGroupStateResponse,
        write_share_group_state.WriteStateResult,
        write_share_group_state.PartitionResult,
    ),
    _write,
)
DELETE_HANDLER = _handler(
    delete_share_group_state.DeleteShareGroupStateRequest,
    (
        delete_share_group_state.DeleteShareGroupStateResponse,
        delete_share_group_state.DeleteStateResult,
        delete_share_group_state.PartitionResult,
    ),
    _at_once(_delete),
)
SUMMARY_HANDLER = _handler(
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    (
        read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary.ReadStateSummaryResult,
        read_share_group_state_summary.PartitionResult,
    ),
    _at_once(_summarize),
)
