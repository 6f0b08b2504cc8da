"""EndTxn (key 26): commit or abort a transaction. The response leaves when the outcome is committed.

From version 5 on, the producer gets a new epoch with each transaction, and a new id when the epochs of the old one are
used up (KIP-890).
"""

from typing import Final

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.transaction.requests import EndedTransaction
from broker.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, ProducerIdAndEpoch, ProducerIdNeeded
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_FENCED_FROM: Final = 2
_EPOCH_PER_TRANSACTION_FROM: Final = 5


def end_txn(context: BrokerContext, request: EndTxnRequest) -> Work[EndTxnResponse]:
    if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        ended = _end(context, request, None)
    except ProducerIdNeeded:  # the producer's epochs are used up: the transaction ends under a new producer id
        try:
            producer_id = yield from in_task(context.services.producer_ids.allocate())
        except KafkaError:
            return EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        ended = _end(context, request, producer_id)
    outcome = yield from ended
    if isinstance(outcome, KafkaError):
        is_known = context.api_version >= _FENCED_FROM or outcome.code is not ErrorCode.PRODUCER_FENCED
        return EndTxnResponse(error_code=outcome.code if is_known else ErrorCode.INVALID_PRODUCER_EPOCH)
    if context.api_version < _EPOCH_PER_TRANSACTION_FROM:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=outcome.identity.producer_id, producer_epoch=outcome.identity.epoch)


def _end(context: BrokerContext, request: EndTxnRequest, producer_id: int | None) -> Completion[EndedTransaction]:
    return context.services.transactions.end_transaction(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_version=EPOCH_PER_TRANSACTION if context.api_version >= _EPOCH_PER_TRANSACTION_FROM else 0,
        producer_id=producer_id,
    )


HANDLER = Handler(EndTxnRequest, end_txn, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
