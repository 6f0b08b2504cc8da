"""The conditions that a test waits for: the resource `waits` of the control port.

    {"leader": ["orders", 0], "in_sync": "orders", "group_stable": "readers", "records": ["orders", 100],
     "committed": ["readers", "orders", 0, 100], "timeout": 30}

All that are given have to hold, one after the other. `timeout` is in seconds for each.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import trio

from broker.client import Admin, ClientError, Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.errors import ActionRefused, BadRequest, NotReached
from jepsen.testing.hosted_cluster import HostedCluster
from jepsen.testing.route import NODES_REFUSE, Route
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words

_WAIT_S: Final = 30.0
_LOOK_S: Final = 0.02
# Waits in a cluster, for so many seconds at most.
_Wait: TypeAlias = Callable[[HostedCluster, float], Awaitable[object]]


async def wait(cluster: HostedCluster, words: Words) -> object:
    """Wait until all conditions have held. Raises BadRequest, NotReached, ActionRefused."""
    timeout_s = words.number("timeout", _WAIT_S)
    waits = [read(words, name) for name, read in _CONDITIONS.items() if name in words]
    words.end()
    if not waits:
        raise BadRequest(f"a wait takes some of {', '.join(_CONDITIONS)}")
    for each in waits:
        await each(cluster, timeout_s)
    return {}


def _leader(words: Words, name: str) -> _Wait:
    topic, partition = words.partition(name)
    return lambda cluster, timeout_s: ClusterView(cluster).leader_of(topic, partition, timeout_s)


def _in_sync(words: Words, name: str) -> _Wait:
    topic, partition = words.topic_or_partition(name)
    return lambda cluster, timeout_s: ClusterView(cluster).until_in_sync(topic, partition, timeout_s)


def _group_stable(words: Words, name: str) -> _Wait:
    group = words.text(name)
    return lambda cluster, timeout_s: ClusterView(cluster).until_group_stable(group, timeout_s)


def _records(words: Words, name: str) -> _Wait:
    topic, count = words.named_numbers(name, texts=1, numbers=1, shape="a topic and a number of records")
    return lambda cluster, timeout_s: _until_records(cluster, topic, count, timeout_s)


def _committed(words: Words, name: str) -> _Wait:
    shape = "a group, a topic, a partition and an offset"
    group, topic, partition, offset = words.named_numbers(name, texts=2, numbers=2, shape=shape)
    wanted = TopicPartition(topic, partition)
    return lambda cluster, timeout_s: _until_committed(cluster, group, wanted, offset, timeout_s)


async def _until_records(cluster: HostedCluster, topic: str, count: int, timeout_s: float) -> None:
    """Wait until a consumer of committed records has read so many."""
    cluster.check_runs()
    found = 0
    settings = {**cluster.own_config, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    try:
        with trio.move_on_after(timeout_s):
            async with Consumer(config=settings) as consumer:
                while not (known := await consumer.partitions_for(topic)):
                    await trio.sleep(_LOOK_S)
                consumer.assign([TopicPartition(topic, each.partition) for each in known])
                while found < count:
                    found += len(await consumer.fetch(timeout_s=timeout_s))
    except (ClientError, KafkaError) as error:
        raise ActionRefused(str(error)) from error
    if found < count:
        raise NotReached(f"{topic} has {found} committed records, not {count}, after {timeout_s:g} s")


async def _until_committed(
    cluster: HostedCluster, group: str, partition: TopicPartition, offset: int, timeout_s: float
) -> None:
    """Wait until a group has committed an offset of a partition, or a higher one."""
    found: int | None = None

    async def look(admin: Admin) -> None:
        nonlocal found
        committed = (await admin.list_group_offsets({group: [partition]})).value(group).get(partition)
        found = committed.offset if isinstance(committed, OffsetAndMetadata) else None

    with trio.move_on_after(timeout_s):
        while found is None or found < offset:
            await cluster.administer(look)
            if found is None or found < offset:
                await trio.sleep(_LOOK_S)
        return
    committed = "nothing" if found is None else found
    of = f"group {group} has committed {committed} of {partition.topic}-{partition.partition}"
    raise NotReached(f"{of}, not {offset}, after {timeout_s:g} s")


_CONDITIONS: Final[Mapping[str, Callable[[Words, str], _Wait]]] = {
    "leader": _leader,
    "in_sync": _in_sync,
    "group_stable": _group_stable,
    "records": _records,
    "committed": _committed,
}
BARRIER_ROUTES: Final = (
    Route(
        "POST",
        "/clusters/{cluster}/waits",
        "wait",
        "Wait for conditions, one after the other",
        "Nothing",
        wait,
        {
            "leader": Word.partition("The partition has a leader that runs."),
            "in_sync": Word.topic_or_partition("All replicas of the topic or the partition are in sync."),
            "group_stable": Word.text("The members of the group have their partitions."),
            "records": Word.named_numbers("The topic has so many committed records.", texts=1, numbers=1),
            "committed": Word.named_numbers(
                "A group has committed this offset or a higher one: group, topic, partition, offset.",
                texts=2,
                numbers=2,
            ),
            "timeout": Word.number("Seconds for each condition.", default=_WAIT_S),
        },
        any_of=tuple(_CONDITIONS),
        refusals=NODES_REFUSE,
        examples=(
            {"in_sync": "orders", "timeout": 30},
            {"leader": ["orders", 0], "in_sync": ["orders", 0]},
            {"group_stable": "readers", "records": ["orders", 1], "committed": ["readers", "orders", 0, 1]},
        ),
    ),
)
