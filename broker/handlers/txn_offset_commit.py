"""TxnOffsetCommit (key 28): offsets of a group that are committed with a transaction, or dropped with it.

The member and generation are checked (KIP-447), so that a consumer that has lost its partitions cannot commit. As for
Produce, the first offsets of a transaction are verified with the transaction's coordinator (KIP-890). From
version 6 on, topics have ids in place of names (KIP-1319).
"""

from collections.abc import Sequence
from typing import Final

from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.runtime.decision import Producer
from broker.coordinator.transaction.transaction import ProducerIdAndEpoch
from broker.coordinator.transaction.verification import ClientSupport
from broker.handlers.committing_offsets import CommitResponses, CommittingOffsets
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.storage.producer_state import ProducerStates
from broker.storage.verifications import Verification
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_MEMBERS_FROM: Final = 3
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_RESPONSES: Final = CommitResponses(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, topic_ids_from=6)
# A coordinator's batch has no sequence numbers of its own.
_SEQUENCE: Final = 0
_DEFAULT_RETENTION: Final = -1


def txn_offset_commit(context: BrokerContext, request: TxnOffsetCommitRequest) -> Work[TxnOffsetCommitResponse]:
    refusal = _refusal(context, request)
    if refusal is not ErrorCode.NONE:
        return TxnOffsetCommitResponse(topics=_RESPONSES.refused(request.topics, refusal))
    committing = CommittingOffsets(context, _RESPONSES)
    for topic in request.topics:
        committing.add(topic, topic.partitions)
    if committing.offsets:
        committing.set_error_codes((yield from _commit(context, request, committing.offsets)))
    return TxnOffsetCommitResponse(topics=committing.topics)


def _commit(
    context: BrokerContext, request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit]
) -> Work[list[ErrorCode] | KafkaError]:
    """Commits the offsets once their transaction is verified. Returns an error code for each, or the error for all."""
    producers = _producers(context, request)
    verification = None
    if producers is not None:
        try:
            verification = _begin_verification(context, request, producers)
        except KafkaError as error:
            return KafkaError(error.code)
    if verification is not None:
        code = yield from in_task(_verify(context, request))
        if code is not ErrorCode.NONE:
            return KafkaError(code)
    outcome = yield from _begin(context, request, offsets, producers, verification)
    return outcome


def _refusal(context: BrokerContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def _producers(context: BrokerContext, request: TxnOffsetCommitRequest) -> ProducerStates | None:
    """The producers of the group's partition; None if this broker does not lead it."""
    index = context.services.groups.runtime.partition_for(request.group_id)
    try:
        return context.services.partitions.get(CONSUMER_OFFSETS, index).leader_log().producers
    except KafkaError:
        return None  # the coordinator's error is the response


def _begin_verification(
    context: BrokerContext, request: TxnOffsetCommitRequest, producers: ProducerStates
) -> Verification | None:
    """The verification that the commit has to wait for. Raises KafkaError for a fenced producer."""
    if not _is_verified(context):
        return None
    adds = context.api_version >= _ADDS_FROM
    return producers.begin_verification(request.producer_id, request.producer_epoch, _SEQUENCE, has_own_epoch=adds)


def _is_verified(context: BrokerContext) -> bool:
    """True if the first offsets of a transaction are verified with the transaction's coordinator."""
    return context.services.config.transaction_partition_verification_enable or context.api_version >= _ADDS_FROM


async def _verify(context: BrokerContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    """The verdict of the transaction's coordinator."""
    services = context.services
    support = ClientSupport.NONE
    if context.api_version >= _ADDS_FROM:
        support = ClientSupport.ADDS_PARTITIONS
    elif context.api_version >= _ABORTABLE_FROM:
        support = ClientSupport.ABORTABLE_ERROR
    verdicts = await services.transaction_verifier.verify(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        ((CONSUMER_OFFSETS, services.groups.runtime.partition_for(request.group_id)),),
        support,
    )
    for code in verdicts.values():
        is_passing = code is ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_passing else code
    return ErrorCode.NONE


def _begin(
    context: BrokerContext,
    request: TxnOffsetCommitRequest,
    offsets: Sequence[OffsetToCommit],
    producers: ProducerStates | None,
    verification: Verification | None,
) -> Completion[list[ErrorCode]]:
    """Commits the offsets, unless the transaction has ended since it was verified."""
    if producers is not None and (verification is not None or _is_verified(context)):
        try:
            producers.check_verified(request.producer_id, request.producer_epoch, _SEQUENCE, verification)
        except KafkaError as error:
            return failed(error)
    is_member = context.api_version >= _MEMBERS_FROM
    committer = Committer(
        request.group_id,
        request.member_id if is_member else "",
        request.group_instance_id if is_member else None,
        request.generation_id_or_member_epoch if is_member else -1,
        context.api_version,
    )
    producer = Producer(request.producer_id, request.producer_epoch)
    return context.services.groups.offset_commit(committer, offsets, _DEFAULT_RETENTION, producer)


HANDLER = Handler(TxnOffsetCommitRequest, txn_offset_commit, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
