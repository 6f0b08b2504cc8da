"""Produce (key 0): append batches to the partitions this broker leads.

Versions 0 to 2 carry old message formats, and are refused. ApiVersions lists them nevertheless, because librdkafka
derives broker features from the lowest version (KAFKA-18659). Version 13 names topics by id.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from broker.handlers.current_leader import LEADER_CHANGED, current_leader, leader_endpoints
from broker.handlers.produce.acknowledgement_wait import AcknowledgementWait
from broker.handlers.produce.verification import TransactionalProduce, VerificationFailed
from broker.handlers.topic_names import is_internal, topic_name
from broker.net.connection import ProtocolError
from broker.replication.partition import Partition
from broker.replication.refused_batches import RETRIED, RefusedBatches
from broker.server.context import BrokerContext
from broker.server.scheduler import Work, in_task
from broker.server.session import Session
from broker.server.slices import STEP_ITEMS, Steps
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
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import HEADER_SIZE, LOG_OVERHEAD, Compression, read_header
from broker.wire.records.batch import COMPRESSION_MASK, MAGIC, TRANSACTIONAL_FLAG
from metadata.protocol import AclOperation, ResourceType

_LENGTH_MAGIC_ATTRIBUTES: Final = Struct(">8xi4xb4xh")
# Partitions that one step appends to. A batch counts once more for every `_BYTES_PER_PARTITION` bytes.
_STEP_MAX: Final = 16
_BYTES_PER_PARTITION: Final = 64 * 1024
# The oldest format of a batch is the shortest, with this many bytes after its length.
_LENGTH_MIN: Final = 14
ZSTD_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 13
_CURRENT_LEADER_FROM: Final = 10
# The client id of Kafka's own AdminClient when it writes for the cluster. Others may not write to internal topics.
_ADMIN_CLIENT_ID: Final = "__admin_client"
# Errors for which Kafka's response has no log start offset.
_WITHOUT_LOG_START: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def produce(context: BrokerContext, request: ProduceRequest) -> Work[ProduceResponse | None]:
    """Append to each partition, with a step after some partitions or bytes, and wait for acknowledgements.

    A turn commits what was appended in it, so waits for acknowledgements begin in the turn of their append. The request
    is charged before the wait, because the client's next request may arrive before the acknowledgements.
    """
    if request.acks not in (-1, 0, 1):
        return _refused(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {request.acks}")
    transaction = None
    if request.transactional_id is not None:
        if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the client may not use the id")
        transaction = TransactionalProduce(context, request)
        if transaction.must_wait:
            yield from in_task(transaction.verify())
    produced = _Produced(transaction)
    acks, timeout_ms = request.acks, request.timeout_ms
    try:
        yield from _append_all(context, request, produced)
        del request  # its views would keep the receive buffer
        context.charge()
        if acks == 0:
            if produced.has_failed:
                # As in Kafka: the client gets no response, and learns of the failure when its connection closes.
                raise ProtocolError("a produce request with acks=0 failed")
            return None
        if produced.waiting:
            produced.wait.begin(context.services.deadlines, timeout_ms)
            errors = yield from produced.wait
            yield from _fail_unacknowledged(context, produced, errors)
        elif produced.has_failed:
            answers = [answer for topic in produced.response.responses for answer in topic.partition_responses]
            produced.response.node_endpoints = _endpoints(context, answers)
        return produced.response
    except BaseException:  # the connection was closed, or the handler has a bug
        produced.wait.abandon()
        raise


class _Produced:
    """The outcome of one request so far: its response, and the partitions whose acknowledgement it waits for.

    `transaction` holds the verifications of a transactional request.
    """

    __slots__ = ("has_failed", "response", "transaction", "wait", "waiting")

    def __init__(self, transaction: TransactionalProduce | None) -> None:
        self.transaction = transaction
        self.response = ProduceResponse()
        self.has_failed = False
        self.waiting: list[tuple[str | bytes, PartitionProduceResponse]] = []
        self.wait = AcknowledgementWait()


def _append_all(context: BrokerContext, request: ProduceRequest, produced: _Produced) -> Steps[None]:
    partitions = context.services.partitions
    now_ms = context.services.now_ms()
    step = 0
    for topic_data in request.topic_data:
        key = topic_data.topic_id if context.api_version >= _TOPIC_IDS_FROM else topic_data.name
        topic = partitions.topic(key) if _may_write(context, key) else None
        answers: list[PartitionProduceResponse] = []
        produced.response.responses.append(
            TopicProduceResponse(name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=answers)
        )
        for data in topic_data.partition_data:
            if step >= _STEP_MAX:
                step = 0
                yield
                # The topic may have been deleted, or the client's rights may have changed.
                topic = partitions.topic(key) if _may_write(context, key) else None
            partition = None if topic is None else topic.partitions.get(data.index)
            try:
                if partition is None:
                    raise _absent_partition(context, key, data.index)
                answer = _append(context, key, partition, data, request.acks, now_ms, produced)
            except KafkaError as error:
                produced.has_failed = True
                answer = _failure(context, partition, key, data, error, now_ms)
            answers.append(answer)
            step += 1 + len(data.records or ()) // _BYTES_PER_PARTITION


def _fail_unacknowledged(context: BrokerContext, produced: _Produced, errors: Mapping[int, ErrorCode]) -> Steps[None]:
    """Set the errors of partitions whose acknowledgement failed, by their number among those that waited."""
    failed = [(*produced.waiting[number], code) for number, code in errors.items()]
    for first in range(0, len(failed), STEP_ITEMS):
        if first:
            yield
        set_acknowledgement_errors(context, produced.response, failed[first : first + STEP_ITEMS])


def _may_write(context: BrokerContext, topic: str | bytes) -> bool:
    """False if the topic exists, or is asked for by name, and the client may not write to it."""
    if context.server.authorizer is None:
        return True
    name = topic_name(context, topic)
    return name is None or context.allows(AclOperation.WRITE, ResourceType.TOPIC, name)


def _absent_partition(context: BrokerContext, topic: str | bytes, index: int) -> KafkaError:
    """The error for a partition that does not exist here, or to which the client may not write."""
    if not _may_write(context, topic):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return context.services.partitions.absent(topic, index)


def _append(
    context: BrokerContext,
    topic: str | bytes,
    partition: Partition,
    data: PartitionProduceData,
    acks: int,
    now_ms: int,
    produced: _Produced,
) -> PartitionProduceResponse:
    records = data.records
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the request has no records for the partition")
    if is_internal(partition.topic) and context.client_id != _ADMIN_CLIENT_ID:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}")
    check_single_batch(records, context.api_version, is_transactional=produced.transaction is not None)
    _check_retry_order(context.session, topic, partition, records, now_ms)
    if produced.transaction is not None:
        produced.transaction.check(partition, records)
    info = partition.role.append(records, acks, now_ms)
    if not info.duplicate:
        context.services.partitions.stage(partition)
    answer = appended(data.index, info)
    end_offset = info.last_offset + 1
    if acks and (acknowledgements := partition.role.awaits(acks, end_offset)) is not None:
        produced.waiting.append((partition.topic_id, answer))
        produced.wait.add(acknowledgements, end_offset)
    return answer


def appended(index: int, info: AppendInfo) -> PartitionProduceResponse:
    """The response for a partition whose records are acknowledged."""
    return PartitionProduceResponse(
        index=index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def set_acknowledgement_errors(
    context: BrokerContext,
    response: ProduceResponse,
    failed: Sequence[tuple[str | bytes, PartitionProduceResponse, ErrorCode]],
) -> None:
    """Set the errors of partitions that were appended and not acknowledged, with the leader if it is another broker.

    `failed` has the topic's name or id, the response and the error of each of these partitions.
    """
    for topic, answer, code in failed:
        answer.error_code = code
        _name_leader(context, answer, topic)
    known = {endpoint.node_id for endpoint in response.node_endpoints}
    answers = [answer for _, answer, _ in failed]
    response.node_endpoints += [each for each in _endpoints(context, answers) if each.node_id not in known]


def check_single_batch(records: memoryview, api_version: int, *, is_transactional: bool) -> None:
    """Check the batch against the rules of the request, not of the log. Raises KafkaError, with Kafka's codes."""
    if len(records) < HEADER_SIZE:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the request has no complete record batch for the partition")
    length, magic, attributes = _LENGTH_MAGIC_ATTRIBUTES.unpack_from(records)
    if length < _LENGTH_MIN or not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no record batch has length {length} and magic {magic}")
    if magic != MAGIC or length + LOG_OVERHEAD > len(records):
        raise _not_one_batch(api_version)
    if attributes & COMPRESSION_MASK == Compression.ZSTD and api_version < ZSTD_FROM:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {ZSTD_FROM}, not {api_version}"
        )
    if length + LOG_OVERHEAD < len(records):
        raise _not_one_batch(api_version)
    if attributes & TRANSACTIONAL_FLAG and not is_transactional:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without a transactional id"
        )


def _not_one_batch(api_version: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD,
        f"Produce requests with version {api_version} must have exactly one record batch of magic {MAGIC} "
        "per partition",
    )


def _failure(
    context: BrokerContext,
    partition: Partition | None,
    topic: str | bytes,
    data: PartitionProduceData,
    error: KafkaError,
    now_ms: int,
) -> PartitionProduceResponse:
    error = _refuse_batch(context.session, topic, data.index, data.records, error, now_ms)
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
    partition.failed_produces += 1
    if partition.log is not None and partition.log.failure is not None:
        context.services.partitions.log_failed(partition, partition.log.failure)
    has_log_start = error.code not in _WITHOUT_LOG_START and not isinstance(error, VerificationFailed)
    if partition.log is not None and has_log_start:
        response.log_start_offset = partition.log.log_start_offset
    return response


def _refuse_batch(
    session: Session, topic: str | bytes, index: int, records: memoryview | None, error: KafkaError, now_ms: int
) -> KafkaError:
    """Remember a refused batch if its error is one after which the producer retries. Returns the error to answer with.

    It is that of an earlier batch if both were in flight, and the refusal of that one is why this one is out of order.
    """
    is_early = error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and session.refused_batches is not None
    if records is None or not (is_early or error.code in RETRIED):
        return error
    try:
        header = read_header(records)
    except WireError:
        return error
    if header.producer_id < 0:
        return error
    if session.refused_batches is None:
        session.refused_batches = RefusedBatches()
    if is_early:
        earlier = session.refused_batches.error_in_flight(topic, index, header)
        if earlier is None:
            return error
        error = earlier
    session.refused_batches.add(topic, index, header, error.code, now_ms)
    return error


def _check_retry_order(
    session: Session, topic: str | bytes, partition: Partition, records: memoryview, now_ms: int
) -> None:
    """Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER: an unknown producer's batch is early (`RefusedBatches.check`)."""
    refused = session.refused_batches
    if refused is not None:
        refused.check(topic, partition, read_header(records), now_ms)
        if not refused:
            session.refused_batches = None


def _name_leader(context: BrokerContext, response: PartitionProduceResponse, topic: str | bytes) -> None:
    """Name the leader, if another broker leads (KIP-951)."""
    if response.error_code in LEADER_CHANGED and context.api_version >= _CURRENT_LEADER_FROM:
        leader = current_leader(context, topic, response.index)
        if leader is not None:
            response.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)


def _endpoints(context: BrokerContext, answers: Sequence[PartitionProduceResponse]) -> list[NodeEndpoint]:
    """The endpoints of the leaders that the answers name."""
    leader_ids = [answer.current_leader.leader_id for answer in answers if answer.current_leader is not None]
    return [
        NodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port, rack=leader.rack)
        for leader in leader_endpoints(context, leader_ids)
    ]


def _refused(request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse | None:
    """The response with this error for every partition."""
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
