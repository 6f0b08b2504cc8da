"""Builds ShareFetch and ShareAcknowledge requests. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from broker.client.share_consumer.acknowledgements import Outcome, acknowledgement_batches
from broker.client.share_consumer.config import ShareConsumerConfig
from broker.client.share_consumer.share_session import PartitionId, SessionChange, forgotten_topics
from broker.wire.api import share_acknowledge, share_fetch
from metadata.protocol import AcknowledgeType, ShareAcquireMode

# The versions since which requests have the mode of acquisition (KIP-1206), and renew locks (KIP-1222).
ACQUIRE_MODES_SINCE: Final = 2
RENEWALS_SINCE: Final = 2

_P = TypeVar("_P")


def fetch_request(
    config: ShareConsumerConfig,
    member_id: str,
    change: SessionChange,
    outcomes: Mapping[PartitionId, Sequence[Outcome]],
) -> share_fetch.ShareFetchRequest:
    """Asks for records of all partitions of the session, after these outcomes."""
    mode = config.acquire_mode
    batch = share_fetch.AcknowledgementBatch
    partitions = {
        key: share_fetch.FetchPartition(
            partition_index=key.partition,
            acknowledgement_batches=acknowledgement_batches(outcomes.get(key, ()), batch),
        )
        for key in dict.fromkeys([*change.added, *outcomes])
    }
    request = share_fetch.ShareFetchRequest(
        group_id=config.group,
        member_id=member_id,
        share_session_epoch=change.epoch,
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        max_records=config.max_poll_records,
        batch_size=config.max_poll_records,
        topics=_topics(partitions, share_fetch.FetchTopic),
        forgotten_topics_data=forgotten_topics(change.removed),
    )
    if mode is not ShareAcquireMode.BATCH_OPTIMIZED:
        request.share_acquire_mode = mode
    return request


def acknowledge_request(
    config: ShareConsumerConfig, member_id: str, epoch: int, outcomes: Mapping[PartitionId, Sequence[Outcome]]
) -> share_acknowledge.ShareAcknowledgeRequest:
    """Acknowledges these outcomes, and ends the session with FINAL_EPOCH."""
    batch = share_acknowledge.AcknowledgementBatch
    partitions = {
        key: share_acknowledge.AcknowledgePartition(
            partition_index=key.partition, acknowledgement_batches=acknowledgement_batches(found, batch)
        )
        for key, found in outcomes.items()
    }
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=config.group,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=has_renewals(outcomes),
        topics=_topics(partitions, share_acknowledge.AcknowledgeTopic),
    )


def has_renewals(outcomes: Mapping[PartitionId, Sequence[Outcome]]) -> bool:
    """True if an acquisition lock is to be renewed."""
    return any(outcome.type is AcknowledgeType.RENEW for found in outcomes.values() for outcome in found)


def _topics(partitions: Mapping[PartitionId, _P], topic_class: Callable[..., Any]) -> list[Any]:
    topics: dict[bytes, list[_P]] = {}
    for (topic_id, _), partition in partitions.items():
        topics.setdefault(topic_id, []).append(partition)
    return [topic_class(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]
