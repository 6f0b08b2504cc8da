"""InitProducerId (key 22): a producer id and epoch for each idempotent or transactional producer (KIP-98, KIP-360).

Without a transactional id, every request gets a new producer id, which is not stored. With one, the coordinator
of that id bumps the epoch, which fences earlier incarnations of the producer. A producer that takes part in a two-phase
commit has transactions without a timeout (KIP-939).
"""

from typing import Final

from broker.coordinator.transaction.transaction import ProducerIdAndEpoch, ProducerIdNeeded
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from metadata.protocol import AclOperation, ResourceType

# The first version whose clients know PRODUCER_FENCED (KIP-588).
_FENCED_FROM: Final = 4
# Two-phase commit (KIP-939); in Kafka 4.4 still in development.
_TWO_PHASE_FROM: Final = 6


def init_producer_id(context: BrokerContext, request: InitProducerIdRequest) -> Work[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    if transactional_id is not None and not _is_allowed(context, request, transactional_id):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if transactional_id is None and not _may_write(context):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        if transactional_id is not None:
            return (yield from _init_transactional(context, request, transactional_id))
        producer_id = yield from in_task(context.services.producer_ids.allocate())
    except KafkaError:
        # The controller cannot be reached at the moment. All clients retry this error.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _is_allowed(context: BrokerContext, request: InitProducerIdRequest, transactional_id: str) -> bool:
    operations = [AclOperation.WRITE, *([AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else [])]
    return all(context.allows(each, ResourceType.TRANSACTIONAL_ID, transactional_id) for each in operations)


def _may_write(context: BrokerContext) -> bool:
    """True if the client may be an idempotent producer: of any topic, or by its right on the cluster (KIP-679)."""
    return context.allows_cluster(AclOperation.IDEMPOTENT_WRITE, is_tried=False) or context.allows_any(
        AclOperation.WRITE, ResourceType.TOPIC
    )


def _init_transactional(
    context: BrokerContext, request: InitProducerIdRequest, transactional_id: str
) -> Work[InitProducerIdResponse]:
    """Raises KafkaError if the controller has to allocate a producer id and cannot be reached."""
    services, producer_id = context.services, None
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    while True:
        try:
            completion = services.transactions.init_producer_id(
                transactional_id,
                request.transaction_timeout_ms,
                expected,
                producer_id,
                enable_2pc=request.enable2_pc,
                keep_prepared=request.keep_prepared_txn,
            )
            break
        except ProducerIdNeeded:
            producer_id = yield from in_task(services.producer_ids.allocate())
    outcome = yield from completion
    if isinstance(outcome, KafkaError):
        is_known = context.api_version >= _FENCED_FROM or outcome.code is not ErrorCode.PRODUCER_FENCED
        return _refused(outcome.code if is_known else ErrorCode.INVALID_PRODUCER_EPOCH)
    if outcome.aborted is not None:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return InitProducerIdResponse(producer_id=outcome.identity.producer_id, producer_epoch=outcome.identity.epoch)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


HANDLER = Handler(
    InitProducerIdRequest,
    init_producer_id,
    versions="0-5",
    unstable_max_version=_TWO_PHASE_FROM,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
)
