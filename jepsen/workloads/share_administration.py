"""Administers share groups: enables them, sets their configs, waits until they have finished all records, and reads
what was stored.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from broker.client import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConnectionLost,
    FeatureUpdate,
    KafkaError,
    TopicPartition,
)
from broker.coordinator.internal_topics import SHARE_GROUP_STATE
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.errors import ErrorCode
from broker.wire.records import iter_headers
from jepsen.share_values import GONE, ShareGroupSettings, StoredWrite, StoredWrites
from jepsen.stored_share_states import stored_writes
from jepsen.values import Polling
from jepsen.workloads.administration import open_admin
from jepsen.workloads.client import METADATA_VERSION, Client
from jepsen.workloads.consumer import FetchRefused, fetch

_FEATURE: Final = "share.version"
_DESCRIBE_VERSION: Final = 4
_EMPTY: Final = "Empty"


async def begin_share_groups(client: Client, level: int, groups: Sequence[ShareGroupSettings]) -> None:
    """Finalize the level of `share.version`, and set the configs of the groups. Returns when every broker has them.

    A member that fetched before would begin at the end of its partitions.
    """
    for settings in groups:
        client.history.ok(client.history.invoke(client.name, "share-group", settings), None)
    while not await _try_to_change(client, level, groups):
        await client.back_off()
    for server in client.servers:
        asking = attrs.evolve(client, servers=[server])
        for settings in groups:
            while await _described(asking, settings) != _configs(settings):
                await client.back_off()
        await asking.aclose()


async def wait_finished(client: Client, group: str, ends: Mapping[tuple[str, int], int]) -> None:
    """Wait until the group has finished all records of these partitions, which end before the offsets `ends`."""
    partitions = [TopicPartition(*partition) for partition, end in ends.items() if end]
    while True:
        try:
            async with open_admin(client) as admin:
                while not await _is_finished(admin, group, partitions):
                    await client.back_off()
        except (ClientError, KafkaError):
            await client.back_off()
        else:
            return


def _configs(settings: ShareGroupSettings) -> Mapping[str, str]:
    configs = {
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": str(settings.delivery_count_limit),
        "share.record.lock.duration.ms": str(settings.lock_ms),
    }
    if settings.dead_letter_topic:
        configs["errors.deadletterqueue.topic.name"] = settings.dead_letter_topic
        configs["errors.deadletterqueue.copy.record.enable"] = "true"
    return configs


async def _try_to_change(client: Client, level: int, groups: Sequence[ShareGroupSettings]) -> bool:
    changes = {
        ConfigResource(ConfigResourceType.GROUP, each.group): [ConfigChange(*item) for item in _configs(each).items()]
        for each in groups
    }
    try:
        async with open_admin(client) as admin:
            finalized = (await admin.describe_features()).finalized
            if _FEATURE not in finalized or finalized[_FEATURE].highest < level:
                (await admin.update_features({_FEATURE: FeatureUpdate(level)})).raise_first()
            (await admin.incremental_alter_configs(changes)).raise_first()
    except (ClientError, KafkaError):
        return False
    return True


async def _described(client: Client, settings: ShareGroupSettings) -> Mapping[str, str]:
    """The group's configs, as the client's only server has them."""
    names = list(_configs(settings))
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=settings.group, configuration_keys=names
    )
    response, _ = await client.call_until_answered(DescribeConfigsRequest(resources=[resource]), _DESCRIBE_VERSION)
    return {each.name: each.value for result in response.results for each in result.configs}


async def _is_finished(admin: Admin, group: str, partitions: Sequence[TopicPartition]) -> bool:
    offsets = (await admin.list_share_group_offsets({group: partitions})).value(group).raise_first()
    return all((offset := offsets[each]) is not None and offset.lag == 0 for each in partitions)


async def describe_empty_group(client: Client, group: str, check_interval_s: float) -> None:
    """Describe a share group that has been without members for two checks for expired groups. It still exists."""
    while await _state_of(client, group) not in (_EMPTY, GONE):
        await client.back_off()
    await trio.sleep(2 * check_interval_s)
    operation = client.history.invoke(client.name, "describe-empty-share-group", group)
    client.history.ok(operation, await _state_of(client, group))


async def _state_of(client: Client, group: str) -> str:
    """The state of a group as Kafka names it, GONE if it does not exist."""
    while True:
        try:
            async with open_admin(client) as admin:
                return (await admin.describe_groups([group])).value(group).state
        except (ClientError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return GONE
            await client.back_off()


async def read_share_states(client: Client, topics: Mapping[bytes, str]) -> None:
    """Read all of `__share_group_state`, which was never pruned. `topics` maps the ids of topics to their names."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=SHARE_GROUP_STATE)], allow_auto_topic_creation=False)
    response, _ = await client.call_until_answered(request, METADATA_VERSION)
    for index in range(len(response.topics[0].partitions)):
        operation = client.history.invoke(client.name, "read-share-states", index)
        client.history.ok(operation, StoredWrites(tuple(await _read_writes(client, index, topics))))


async def _read_writes(client: Client, index: int, topics: Mapping[bytes, str]) -> Sequence[StoredWrite]:
    while True:
        try:
            await client.seek_leader(SHARE_GROUP_STATE, index)
            async with client.connected() as connection:
                writes: list[StoredWrite] = []
                offset, end = 0, 1
                while offset < end:
                    polling = Polling(SHARE_GROUP_STATE, index, offset)
                    data = await fetch(connection, polling, wait_ms=0)
                    content = data.records or b""
                    assert isinstance(content, bytes | memoryview), "records as they were received"
                    writes += stored_writes(content, offset, topics)
                    *_, offset = [offset, *(header.next_offset for _, header in iter_headers(content))]
                    end = data.high_watermark
                return writes
        except (FetchRefused, ConnectionLost):
            await client.back_off()
