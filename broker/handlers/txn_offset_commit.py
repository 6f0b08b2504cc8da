"""TxnOffsetCommit (key 28): offsets of a group that are committed with a transaction, or dropped with it.

The member and generation are checked (KIP-447), so that a consumer that has lost its partitions cannot commit. As for
Produce, the first offsets of a transaction are verified with the transaction's coordinator (KIP-890). From
version 6 on, topics have ids in place of names (KIP-1319).
"""

from typing import Final

from broker.coordinator.group.offsets.requests import Committer, OffsetToCommit
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.completion import Completion, failed
from broker.coordinator.runtime.decision import Producer
from broker.coordinator.transaction.transaction import ProducerIdAndEpoch
from broker.coordinator.transaction.verification import ClientSupport
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.storage.producer_state import ProducerStates
from broker.storage.verifications import Verification
from broker.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import TopicImage
from metadata.protocol import AclOperation, ResourceType

_MEMBERS_FROM: Final = 3
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_TOPIC_IDS_FROM: Final = 6
# A coordinator's batch has no sequence numbers of its own.
_SEQUENCE: Final = 0
_DEFAULT_RETENTION: Final = -1


def txn_offset_commit(context: BrokerContext, request: TxnOffsetCommitRequest) -> Work[TxnOffsetCommitResponse]:
    refusal = _refusal(context, request)
    if refusal is not ErrorCode.NONE:
        return _refused(request, refusal)
    commit = _Commit(context, request)
    if not commit.offsets:
        return commit.response
    producers = _producers(context, request)
    verification = None
    if producers is not None:
        try:
            verification = _begin_verification(context, request, producers)
        except KafkaError as error:
            return commit.respond(KafkaError(error.code))
    if verification is not None:
        code = yield from in_task(_verify(context, request))
        if code is not ErrorCode.NONE:
            return commit.respond(KafkaError(code))
    outcome = yield from commit.begin(producers, verification)
    return commit.respond(outcome)


def _refusal(context: BrokerContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def _refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """The response with this error for every partition of the request."""
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
    adds = context.api_version >= _ADDS_FROM
    if not adds and not context.services.config.transaction_partition_verification_enable:
        return None
    return producers.begin_verification(request.producer_id, request.producer_epoch, _SEQUENCE, has_own_epoch=adds)


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


def _topic(context: BrokerContext, topic: TxnOffsetCommitRequestTopic) -> TopicImage | None:
    topics = context.services.loader.image.topics
    if context.api_version >= _TOPIC_IDS_FROM:
        return topics.by_id.get(topic.topic_id)
    return topics.by_name.get(topic.name)


def _topic_refusal(context: BrokerContext, topic: TxnOffsetCommitRequestTopic, image: TopicImage | None) -> ErrorCode:
    """NONE, or the error for all partitions of a topic. The client of an unknown id learns no more than that."""
    if image is None and context.api_version >= _TOPIC_IDS_FROM:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = topic.name if image is None else image.name
    if not context.allows(AclOperation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if image is None else ErrorCode.NONE


class _Commit:
    """The offsets of a request, and its response; partitions that do not exist are refused in it."""

    def __init__(self, context: BrokerContext, request: TxnOffsetCommitRequest) -> None:
        self._context = context
        self._request = request
        self.offsets: list[OffsetToCommit] = []
        self.response = TxnOffsetCommitResponse()
        self._waiting: list[TxnOffsetCommitResponsePartition] = []
        for topic in request.topics:
            image = _topic(context, topic)
            refusal = _topic_refusal(context, topic, image)
            answers = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            self.response.topics.append(answers)
            for each in topic.partitions:
                answer = TxnOffsetCommitResponsePartition(partition_index=each.partition_index)
                answers.partitions.append(answer)
                if image is None or refusal or each.partition_index not in image.partitions:
                    answer.error_code = refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    self._waiting.append(answer)
                    self.offsets.append(
                        OffsetToCommit(
                            image.name,
                            topic.topic_id,
                            each.partition_index,
                            each.committed_offset,
                            each.committed_leader_epoch,
                            each.committed_metadata,
                        )
                    )

    def begin(self, producers: ProducerStates | None, verification: Verification | None) -> Completion[list[ErrorCode]]:
        """Commits the offsets, unless the transaction has ended since it was verified."""
        request, version = self._request, self._context.api_version
        services = self._context.services
        if producers is not None and (verification is not None or self._is_verified):
            try:
                producers.check_verified(request.producer_id, request.producer_epoch, _SEQUENCE, verification)
            except KafkaError as error:
                return failed(error)
        is_member = version >= _MEMBERS_FROM
        committer = Committer(
            request.group_id,
            request.member_id if is_member else "",
            request.group_instance_id if is_member else None,
            request.generation_id_or_member_epoch if is_member else -1,
            version,
        )
        producer = Producer(request.producer_id, request.producer_epoch)
        return services.groups.offset_commit(committer, self.offsets, _DEFAULT_RETENTION, producer)

    @property
    def _is_verified(self) -> bool:
        config = self._context.services.config
        return config.transaction_partition_verification_enable or self._context.api_version >= _ADDS_FROM

    def respond(self, outcome: list[ErrorCode] | KafkaError) -> TxnOffsetCommitResponse:
        """The response, with the outcome of the partitions that exist."""
        codes = [outcome.code] * len(self._waiting) if isinstance(outcome, KafkaError) else outcome
        for answer, code in zip(self._waiting, codes, strict=True):
            answer.error_code = code
        return self.response


HANDLER = Handler(TxnOffsetCommitRequest, txn_offset_commit, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
