"""Share groups (KIP-932): their configs, members, and the end of each record."""

from collections.abc import Collection, Mapping
from typing import Final

import trio

from broker.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from jepsen.processes.clients.client import KRAFT, LIBRDKAFKA, RETENTION_CHECK_S, Client
from jepsen.processes.clients.share_libraries import share_with_kraft, share_with_librdkafka
from jepsen.processes.clients.workload_client import partitions_of, run_until_stopped, workload_client
from jepsen.share_values import ShareGroupSettings
from jepsen.workloads import client as workload
from jepsen.workloads.share_administration import (
    begin_share_groups,
    describe_empty_group,
    read_share_states,
    wait_finished,
)
from jepsen.workloads.share_member import churn_share_members, finish_records
from jepsen.workloads.share_session import ShareGroup

# Members of the first group send all requests themselves, so that each delivery is known.
SHARE_GROUPS: Final = (ShareGroupSettings("known", 3, 3000), ShareGroupSettings("mixed", 5, 5000, has_libraries=True))
_LEVEL: Final = 1
_LIST_OFFSETS_VERSION: Final = 7
_LATEST: Final = -1
# How long a member stays that sends requests itself, in seconds, on average. Others follow in the same process.
_LIFETIME_SECONDS: Final = 10.0
# The members of each group that finish all records.
_LAST_MEMBERS: Final = 2


def begin_shares(client: Client) -> None:
    """Set the configs of the groups, and wait until each node has them."""
    trio.run(begin_share_groups, workload_client(client, client.plan.name), _LEVEL, SHARE_GROUPS)


def share(client: Client) -> None:
    """Be a member until the client has to stop."""
    assert client.plan.member is not None, "the plan of a member"
    match client.plan.member.library:
        case "":
            run_until_stopped(client, _churn, client)
        case library if library == KRAFT:
            run_until_stopped(client, share_with_kraft, client.plan.member.group, client.plan.topic)
        case library:
            assert library == LIBRDKAFKA, library
            share_with_librdkafka(client)


async def _churn(named: workload.Client, client: Client) -> None:
    assert client.plan.member is not None, "the plan of a member"
    group = await _share_group(named, client, client.plan.member.group)
    await churn_share_members(named, group, _LIFETIME_SECONDS)


def finish_shares(client: Client) -> None:
    """Have members finish all records of both groups, and read what the share coordinators have stored.

    At the end, the groups are without members for some time, and are described.
    """
    trio.run(_finish, client)


async def _finish(client: Client) -> None:
    name = client.plan.name
    reader = workload_client(client, name)
    async with trio.open_nursery() as nursery:
        for settings in SHARE_GROUPS:
            group = await _share_group(reader, client, settings.group)
            for number in range(_LAST_MEMBERS):
                member = workload_client(client, f"{name}.{settings.group}.{number}")
                nursery.start_soon(finish_records, member, group)
        for settings in SHARE_GROUPS:
            await wait_finished(reader, settings.group, dict.fromkeys(partitions_of(client, client.plan.topic), 1))
        nursery.cancel_scope.cancel()
    topics = await _topics(reader, client.plan.topic)
    await read_share_states(reader, topics)
    for settings in SHARE_GROUPS:
        await describe_empty_group(reader, settings.group, RETENTION_CHECK_S)


async def _share_group(named: workload.Client, client: Client, group: str) -> ShareGroup:
    """The group as its members know it."""
    topic = client.plan.topic
    ids = {name: topic_id for topic_id, name in (await _topics(named, topic)).items()}
    return ShareGroup(group, {topic: client.plan.partitions}, ids, _leader_epochs, client.rng.random() < 0.7)


async def _topics(named: workload.Client, topic: str) -> Mapping[bytes, str]:
    """The topic by its id."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    while True:
        response, _ = await named.call_until_answered(request, workload.METADATA_VERSION)
        if not response.topics[0].error_code:
            return {response.topics[0].topic_id: topic}
        await named.back_off()


async def _leader_epochs(
    named: workload.Client, partitions: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    """The epochs in which the client's broker leads partitions. It says so with their latest offsets."""
    named_topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        asked = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
        named_topics.setdefault(topic, []).append(asked)
    topics = [ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in named_topics.items()]
    async with named.connected() as connection:
        response = await connection.call(ListOffsetsRequest(replica_id=-1, topics=topics), _LIST_OFFSETS_VERSION)
    return {
        (topic.name, each.partition_index): each.leader_epoch
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.leader_epoch >= 0
    }
