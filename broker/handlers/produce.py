"""Produce (key 0): append batches to the partitions this broker leads.

Versions 0 to 2 carry message formats no longer written; they are listed, because librdkafka deduces broker features
from the lowest version (KAFKA-18659), and refused. Version 13 names topics by id.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

import attrs

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.handler import RequestContext
from broker.handlers.parked_produce import ParkedProduce
from broker.handlers.refused_batches import check_order, remember
from broker.handlers.topic_names import is_internal
from broker.net.connection import ProtocolError
from broker.net.reply import Part, Pending
from broker.replication.acknowledgements import Acknowledgements
from broker.replication.partition import Partition
from broker.storage.append_info import AppendInfo
from broker.storage.validation import RecordsRejected
from broker.wire.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD, Compression
from broker.wire.records.batch import COMPRESSION_MASK, MAGIC, TRANSACTIONAL_FLAG

_LENGTH_MAGIC_ATTRIBUTES: Final = Struct(">8xi4xb4xh")
# No format of a batch, not even the oldest, is shorter behind its length.
_LENGTH_MIN: Final = 14
ZSTD_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 13
_CURRENT_LEADER_FROM: Final = 10
# Kafka's own AdminClient names itself so when it writes for the cluster; nobody else writes to internal topics.
_ADMIN_CLIENT_ID: Final = "__admin_client"
# The refusals that Kafka answers without saying where the log starts.
_WITHOUT_LOG_START: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | Pending | None:
    services = context.services
    if request.transactional_id is not None:
        return _refused(request, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "transactions are not supported yet")
    if request.acks not in (-1, 0, 1):
        return _refused(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {request.acks}")
    now_ms = services.now_ms()
    awaited: list[_Awaited] = []
    failed = False
    responses = []
    for topic_data in request.topic_data:
        key = topic_data.topic_id if context.api_version >= _TOPIC_IDS_FROM else topic_data.name
        topic = services.partitions.topic(key)
        partition_responses = []
        for data in topic_data.partition_data:
            partition = None if topic is None else topic.partitions.get(data.index)
            try:
                if partition is None:
                    raise services.partitions.absent(key, data.index)
                answer = _append(context, key, partition, data, request.acks, now_ms, awaited)
            except KafkaError as error:
                failed = True
                answer = _failure(context, partition, key, data, error, now_ms)
            partition_responses.append(answer)
        responses.append(
            TopicProduceResponse(
                name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=partition_responses
            )
        )
    if request.acks == 0:
        if failed:
            # Kafka's way of telling a client that asked for no answer: it reconnects and refreshes its metadata.
            raise ProtocolError("a produce request with acks=0 failed")
        return None
    response = ProduceResponse(responses=responses)
    if awaited:
        return _parked(context, request.timeout_ms, awaited, response)
    if failed:
        response.node_endpoints = _endpoints(context, responses)
    return response


@attrs.frozen
class _Awaited:
    """What was appended to a partition and may not be acknowledged yet, where to wait for it, and the answer then."""

    partition: Partition
    acknowledgements: Acknowledgements
    end_offset: int
    answer: PartitionProduceResponse


def _append(
    context: RequestContext,
    topic: str | bytes,
    partition: Partition,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    awaited: list[_Awaited],
) -> PartitionProduceResponse:
    records = data.records
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition comes without records")
    if is_internal(partition.topic) and context.client_id != _ADMIN_CLIENT_ID:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}")
    check_single_batch(records, context.api_version)
    check_order(context.own_connection, topic, partition, records, now_ms)
    info = partition.append(records, acks, now_ms)
    if not info.duplicate:
        context.services.partitions.stage(partition)
    answer = appended(data.index, info)
    end_offset = info.last_offset + 1
    if acks and (acknowledgements := partition.awaits(acks, end_offset)) is not None:
        awaited.append(_Awaited(partition, acknowledgements, end_offset, answer))
    return answer


def _parked(
    context: RequestContext, timeout_ms: int, awaited: list[_Awaited], response: ProduceResponse
) -> ParkedProduce:
    def answer(errors: dict[int, ErrorCode]) -> bytes | list[Part]:
        late = [(awaited[at], code) for at, code in errors.items()]
        refuse(context, response, [(one.partition.topic_id, one.answer, code) for one, code in late])
        return context.encode(response)

    parked = ParkedProduce(context.own_connection, answer)
    waits = [(one.acknowledgements, one.end_offset) for one in awaited]
    parked.wait(context.services.deadlines, timeout_ms, waits)
    return parked


def appended(index: int, info: AppendInfo) -> PartitionProduceResponse:
    """The answer for a partition whose records may be acknowledged."""
    return PartitionProduceResponse(
        index=index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def refuse(
    context: RequestContext,
    response: ProduceResponse,
    late: Iterable[tuple[str | bytes, PartitionProduceResponse, ErrorCode]],
) -> None:
    """Turn answers for what was appended, each with its topic's name or id, to what they came to in the end."""
    for topic, answer, code in late:
        answer.error_code = code
        _name_leader(context, answer, topic)
    response.node_endpoints = _endpoints(context, response.responses)


def check_single_batch(records: memoryview, api_version: int) -> None:
    """What the request, rather than the log, demands of its batch. Raises KafkaError, with the codes Kafka has."""
    if len(records) < HEADER_SIZE:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition comes without a whole record batch")
    length, magic, attributes = _LENGTH_MAGIC_ATTRIBUTES.unpack_from(records)
    if length < _LENGTH_MIN or not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no record batch has length {length} and magic {magic}")
    if magic != MAGIC or length + LOG_OVERHEAD != len(records):
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {api_version} must have exactly one record batch of magic {MAGIC} "
            "per partition",
        )
    if attributes & COMPRESSION_MASK == Compression.ZSTD and api_version < ZSTD_FROM:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {ZSTD_FROM}, not {api_version}"
        )
    if attributes & TRANSACTIONAL_FLAG:
        # The request has no transactional id, or it would not have come this far.
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without a transactional id"
        )


def _failure(
    context: RequestContext,
    partition: Partition | None,
    topic: str | bytes,
    data: PartitionProduceData,
    error: KafkaError,
    now_ms: int,
) -> PartitionProduceResponse:
    remember(context.own_connection, topic, data.index, data.records, error, now_ms)
    response = PartitionProduceResponse(
        index=data.index, error_code=error.code, base_offset=-1, log_append_time_ms=-1, error_message=error.message
    )
    if isinstance(error, RecordsRejected):
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        ]
    _name_leader(context, response, topic)
    if partition is None:
        return response
    if partition.log is not None and partition.log.failure is not None:
        context.services.partitions.log_failed(partition, partition.log.failure)
    if partition.log is not None and error.code not in _WITHOUT_LOG_START:
        response.log_start_offset = partition.log.log_start_offset
    return response


def _name_leader(context: RequestContext, response: PartitionProduceResponse, topic: str | bytes) -> None:
    """Where another broker leads, say which (KIP-951)."""
    if response.error_code in LEADER_CHANGED and context.api_version >= _CURRENT_LEADER_FROM:
        leader = current_leader(context, topic, response.index)
        if leader is not None:
            response.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)


def _endpoints(context: RequestContext, responses: list[TopicProduceResponse]) -> list[NodeEndpoint]:
    """Of the leaders that the response names."""
    leader_ids = [
        partition.current_leader.leader_id
        for topic in responses
        for partition in topic.partition_responses
        if partition.current_leader is not None
    ]
    return [
        NodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port, rack=leader.rack)
        for leader in leader_endpoints(context, leader_ids)
    ]


def _refused(request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse | None:
    """The same answer for every partition."""
    if request.acks == 0:
        raise ProtocolError(message)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=-1, log_append_time_ms=-1, error_message=message
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
