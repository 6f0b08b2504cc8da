"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group.

The group's partition of `__consumer_offsets` joins the transaction, as with AddPartitionsToTxn.
"""

from typing import Final

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.transaction.transaction import ProducerIdAndEpoch
from broker.handlers.response_errors import code_of
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, ResourceType

_FENCED_FROM: Final = 2


def add_offsets_to_txn(context: BrokerContext, request: AddOffsetsToTxnRequest) -> Work[AddOffsetsToTxnResponse]:
    if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    services = context.services
    outcome = yield from services.transactions.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        ((CONSUMER_OFFSETS, services.groups.runtime.partition_for(request.group_id)),),
        client_version=0,
    )
    code = code_of(outcome)
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


HANDLER = Handler(AddOffsetsToTxnRequest, add_offsets_to_txn, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
