"""The offsets of a commit, and the topics of its response, for OffsetCommit and TxnOffsetCommit.

The messages of the two APIs are different classes with the same fields.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from broker.coordinator.group.offsets.requests import OffsetToCommit
from broker.server.context import BrokerContext
from broker.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.image import TopicImage
from metadata.protocol import AclOperation, ResourceType

_Topic: TypeAlias = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
_Partitions: TypeAlias = Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition]


@lazy_attrs.frozen
class CommitResponses:
    """The classes of a response's topics and partitions. From version `topic_ids_from` on, ids replace topic names."""

    topic: type[Any]
    partition: type[Any]
    topic_ids_from: int

    def refused(self, topics: Sequence[_Topic], code: ErrorCode) -> list[Any]:
        """The response's topics, with this error for each partition of the request."""
        return [
            self.topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    self.partition(partition_index=each.partition_index, error_code=code) for each in topic.partitions
                ],
            )
            for topic in topics
        ]


class CommittingOffsets:
    """The offsets that one decision commits, and their topics in the response.

    `offsets` has those of partitions that exist; others are refused in `topics`. `size` is the number of partitions,
    where a topic without partitions counts as one.
    """

    def __init__(self, context: BrokerContext, responses: CommitResponses) -> None:
        self._context = context
        self._responses = responses
        self.offsets: list[OffsetToCommit] = []
        self.topics: list[Any] = []
        self.size = 0
        # The responses of the partitions in `offsets`, in the same order.
        self._committing: list[Any] = []

    def add(self, topic: _Topic, partitions: _Partitions) -> None:
        """Add some partitions of a topic."""
        image, refusal = self._find(topic)
        responses = []
        for partition in partitions:
            index = partition.partition_index
            response = self._responses.partition(partition_index=index)
            responses.append(response)
            if image is None or refusal or index not in image.partitions:
                response.error_code = refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            self.offsets.append(
                OffsetToCommit(
                    image.name,
                    topic.topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
            self._committing.append(response)
        self.topics.append(self._responses.topic(name=topic.name, topic_id=topic.topic_id, partitions=responses))
        self.size += max(len(partitions), 1)

    def _find(self, topic: _Topic) -> tuple[TopicImage | None, ErrorCode]:
        """The topic, if it exists, and NONE or the error for all of its partitions.

        The client of an unknown id is not told whether it may read the topic.
        """
        context, topics = self._context, self._context.services.loader.image.topics
        if context.api_version >= self._responses.topic_ids_from:
            image = topics.by_id.get(topic.topic_id)
            if image is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
        else:
            image = topics.by_name.get(topic.name)
        if not context.allows(AclOperation.READ, ResourceType.TOPIC, topic.name if image is None else image.name):
            return image, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return image, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if image is None else ErrorCode.NONE

    def set_error_codes(self, outcome: list[ErrorCode] | KafkaError) -> None:
        """Set the error codes of the partitions in `offsets` from the outcome of the decision."""
        codes = [outcome.code] * len(self._committing) if isinstance(outcome, KafkaError) else outcome
        for response, code in zip(self._committing, codes, strict=True):
            response.error_code = code
