"""A member of a share group on one connection, with its share session (KIP-932)."""

from collections.abc import Iterable, Mapping
from typing import Any

from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from broker.wire.api.share_fetch import AcknowledgementBatch as FetchedAcknowledgementBatch
from broker.wire.api.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from broker.wire.api.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.wire.records import iter_headers, iter_records
from metadata.protocol import ConfigOperation, ConfigResourceType
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient, only

VERSION = 2
GROUP = "group"
LEVEL_MAX = 2
_UPGRADE = 1
_SAFE_DOWNGRADE = 2
_LOAD_MS = 5_000
# The first and last offset, and the types of the acknowledgement.
Acknowledged = tuple[int, int, list[int]]


async def enable_share_groups(client: WireClient, level: int = 2) -> None:
    """Finalize a level of share.version, which may be lower than before."""
    kind = _UPGRADE if level == LEVEL_MAX else _SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=kind)
    response = await client.call(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=5_000), 1)
    assert [each.error_code for each in response.results] == [0]


async def set_group_config(client: WireClient, name: str, value: str) -> None:
    """Set a config of the group."""
    await set_config(client, ConfigResourceType.GROUP, GROUP, name, value)


async def set_config(client: WireClient, kind: ConfigResourceType, resource_name: str, name: str, value: str) -> None:
    """Set a config of a resource."""
    config = AlterableConfig(name=name, config_operation=ConfigOperation.SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=resource_name, configs=[config])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(response.responses).error_code == 0


async def initialize(node: RunningNode, topic_id: bytes, *, start_offset: int = 0, partitions: int = 1) -> None:
    """Create the state of the group's share-partitions, as the group's coordinator does."""
    broker = node.node.broker
    assert broker is not None
    for index in range(partitions):
        outcome = await broker.coordination.coordinators.share_states.initialize(
            GROUP, topic_id, index, 0, start_offset
        ).wait()
        assert outcome is None, outcome


class ShareMember:
    """Fetches from and acknowledges one topic."""

    def __init__(self, client: WireClient, topic_id: bytes, member_id: str = "member") -> None:
        self.client = client
        self.topic_id = topic_id
        self.member_id = member_id
        self.epoch = 0

    def fetch_request(
        self,
        *,
        indexes: Iterable[int] = (0,),
        acknowledged: Iterable[Acknowledged] = (),
        max_wait_ms: int | None = None,
        **fields: Any,
    ) -> ShareFetchRequest:
        """A fetch. The first one of a session waits, as the node loads the state of the share-partition."""
        if max_wait_ms is None:
            max_wait_ms = 0 if self.epoch else _LOAD_MS
        batches = [
            FetchedAcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        named = [FetchPartition(partition_index=index, acknowledgement_batches=batches) for index in indexes]
        settings: Mapping[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        topics = [FetchTopic(topic_id=self.topic_id, partitions=named)] if named else []
        return ShareFetchRequest(topics=topics, max_wait_ms=max_wait_ms, **settings)

    async def fetch(self, **fields: Any) -> Any:
        """The whole response of a fetch."""
        await self.send_fetch(**fields)
        return await self.client.receive()

    async def send_fetch(self, **fields: Any) -> None:
        request = self.fetch_request(**fields)
        self.epoch = request.share_session_epoch + 1
        await self.client.send(request, VERSION)

    async def acquire(self, **fields: Any) -> list[tuple[int, int, int]]:
        """The records that one fetch of one partition acquires."""
        return acquired(await self.fetch(**fields))

    async def acknowledge(self, *acknowledged: Acknowledged, index: int = 0, **fields: Any) -> Any:
        """The whole response of a ShareAcknowledge."""
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        topics = [AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])] if batches else []
        settings = {"share_session_epoch": self.epoch, **fields}
        self.epoch = settings["share_session_epoch"] + 1
        request = ShareAcknowledgeRequest(group_id=GROUP, member_id=self.member_id, topics=topics, **settings)
        return await self.client.call(request, VERSION)

    async def accept(self, first: int, last: int, kind: int = 1) -> None:
        """Acknowledge records, which must succeed."""
        response = await self.acknowledge((first, last, [kind]))
        assert response.error_code == 0
        assert only(only(response.responses).partitions).error_code == 0


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """The acquired records of a response with at most one partition."""
    assert response.error_code == 0, response.error_message
    data = [partition for topic in response.responses for partition in topic.partitions]
    assert [each.error_code for each in data] in ([], [0]), data
    return (
        [(each.first_offset, each.last_offset, each.delivery_count) for each in data[0].acquired_records]
        if data
        else []
    )


def values_of(response: Any) -> list[bytes | None]:
    """The values of the acquired records of a response with one partition, without end markers of transactions."""
    partition = only(only(response.responses).partitions)
    records = [
        record
        for at, header in iter_headers(partition.records)
        if not header.is_control
        for record in iter_records(partition.records, at, header)
    ]
    return [
        record.value
        for record in records
        if any(each.first_offset <= record.offset <= each.last_offset for each in partition.acquired_records)
    ]
