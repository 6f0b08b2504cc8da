"""Limits how fast replicas move between brokers (KIP-73), and removes the limit of moves that have ended.

A rate is a config of each broker, and the replicas that it holds for are a config of each topic. So the cluster has all
the state. A list of replicas is only added to and subtracted from: other replicas in it stay throttled, and a broker
keeps its rate while any list names it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import attrs

from broker.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    PartitionReassignment,
    Results,
)
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
# The replicas that are sent slowly, and those that are received slowly.
REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_ALL: Final = "*"


class Move(NamedTuple):
    """The brokers that a partition is copied from, and those that it is copied to."""

    sources: frozenset[int]
    targets: frozenset[int]


# By topic and config, `partition:broker` of each throttled replica.
_Lists: TypeAlias = Mapping[tuple[str, str], Collection[str]]


def moves_of(
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, Move]:
    """The moves to the `wanted` replicas.

    A partition that is moving already is copied from the replicas that it had before.
    """
    moves = {}
    for each, replicas in wanted.items():
        found = moving.get(each)
        sources = set(current[each]) if found is None else set(found.replicas) - set(found.adding_replicas)
        moves[each] = Move(frozenset(sources), frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[tuple[str, str], list[str]]:
    """The value of both configs of each topic, for the replicas of these moves."""
    lists: dict[tuple[str, str], list[str]] = {}
    for partition, move in moves.items():
        for name, brokers in zip(REPLICAS, move, strict=True):
            entries = lists.setdefault((partition.topic, name), [])
            entries += [f"{partition.partition}:{broker}" for broker in sorted(brokers)]
    return {key: sorted(entries) for key, entries in lists.items()}


@attrs.frozen
class ThrottledReplicas:
    """The replicas that are throttled, as the configs of all topics list them."""

    lists: _Lists

    @classmethod
    async def read(cls, admin: Admin) -> "ThrottledReplicas":
        """Raises ClientError, KafkaError."""
        topics = [topic.name for topic in await admin.list_topics(include_internal=True)]
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        described = await admin.describe_configs(resources, names=REPLICAS)
        return cls(
            {
                (topic.name, name): [entry.strip() for entry in (entry_list.value or "").split(",") if entry.strip()]
                for topic, configs in described.succeeded.items()
                for name, entry_list in configs.items()
            }
        )

    def of(self, partitions: Collection[TopicPartition]) -> dict[tuple[str, str], list[str]]:
        """The entries that name a replica of these partitions. `*` names none."""
        found = {
            (topic, name): [each for each in entries if each != _ALL and _partition(topic, each) in partitions]
            for (topic, name), entries in self.lists.items()
        }
        return {key: entries for key, entries in found.items() if entries}

    def without(self, removed: _Lists) -> "ThrottledReplicas":
        return ThrottledReplicas(
            {key: [each for each in found if each not in removed.get(key, ())] for key, found in self.lists.items()}
        )

    def holds_for(self, broker: int) -> bool:
        """True if a replica on the broker is throttled, or may be, since all those of a topic are."""
        return any(each == _ALL or _broker(each) == broker for each in _entries(self.lists))

    def left_by_moves(
        self, replicas: Mapping[TopicPartition, Sequence[int]], broker: int | None = None
    ) -> list[TopicPartition]:
        """The partitions whose throttle a move has left that has ended: it names a broker that has no replica now.

        `replicas` has the partitions that do not move. With `broker`, only moves away from that broker count.
        """
        left = {
            partition: None
            for (topic, name), entries in self.lists.items()
            if name == REPLICAS[0]
            for each in entries
            if each != _ALL
            and (partition := _partition(topic, each)) in replicas
            and _broker(each) not in replicas[partition]
            and broker in (None, _broker(each))
        }
        return list(left)


async def limit_moves(admin: Admin, moves: Mapping[TopicPartition, Move], rate: int) -> list[str]:
    """Limit what moves to `rate` bytes per second and broker, each way, and return what a person has to know.

    To be called before the moves begin; called again with another rate, it changes the rate. Raises ClientError,
    KafkaError.
    """
    moves = {partition: move for partition, move in moves.items() if move.targets}
    added = throttled_replicas(moves)
    throttled = await ThrottledReplicas.read(admin)
    brokers = sorted({broker for move in moves.values() for side in move for broker in side})
    known = await _alive(admin)
    alive = [broker for broker in brokers if broker in known]
    others = throttled.without(added)
    shared = [broker for broker in alive if others.holds_for(broker)]
    changed = await _with_other_rate(admin, shared, rate)
    # Before the replicas: a rate without replicas limits nothing, should the command end here.
    for broker in alive:
        await _set_rates(admin, broker, rate)
    changes = [
        (key, entries, ConfigOperation.APPEND)
        for key, entries in added.items()
        if entries and _ALL not in throttled.lists.get(key, ())
    ]
    if changes:
        _raise_unless_gone(await admin.incremental_alter_configs(_topic_changes(changes)))
    return [f"broker {broker} limits other replicas, too, and now to the new rate" for broker in changed]


async def release_moves(
    admin: Admin, partitions: Collection[TopicPartition], moves: Mapping[TopicPartition, Move] | None = None
) -> list[str]:
    """Remove the throttle of these partitions, and return what a person has to know.

    The rate of a broker stays if any other replica on it is throttled. With `moves`, their entries are removed even if
    the brokers that are asked have not learned of them yet. Raises ClientError, KafkaError.
    """
    throttled = await ThrottledReplicas.read(admin)
    removed = throttled.of(partitions)
    for key, entries in throttled_replicas(moves or {}).items():
        removed[key] = list(dict.fromkeys([*removed.get(key, ()), *entries]))
    left = throttled.without(removed)
    changes = [
        (key, entries, ConfigOperation.SUBTRACT if left.lists.get(key) else ConfigOperation.DELETE)
        for key, entries in removed.items()
    ]
    if changes:
        _raise_unless_gone(await admin.incremental_alter_configs(_topic_changes(changes)))
    free = [each for each in sorted(dict.fromkeys(map(_broker, _entries(removed)))) if not left.holds_for(each)]
    alive = await _alive(admin)
    for broker in free:
        if broker in alive:
            await _set_rates(admin, broker, None)
    down = [broker for broker in free if broker not in alive]
    return [
        f"broker {broker} is down, and keeps its rate; once it is started, `kraft configs delete broker {broker} "
        f"{' '.join(RATES)}`"
        for broker in down
    ]


def _topic_changes(
    changes: Iterable[tuple[tuple[str, str], Collection[str], ConfigOperation]],
) -> dict[ConfigResource, list[ConfigChange]]:
    by_topic: dict[ConfigResource, list[ConfigChange]] = {}
    for (topic, name), entries, operation in changes:
        value = None if operation is ConfigOperation.DELETE else ",".join(entries)
        change = ConfigChange(name, value, operation)
        by_topic.setdefault(ConfigResource(ConfigResourceType.TOPIC, topic), []).append(change)
    return by_topic


async def _set_rates(admin: Admin, broker: int, rate: int | None) -> None:
    operation, value = (ConfigOperation.DELETE, None) if rate is None else (ConfigOperation.SET, str(rate))
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
    changes = [ConfigChange(name, value, operation) for name in RATES]
    (await admin.incremental_alter_configs({resource: changes})).raise_first()


async def _with_other_rate(admin: Admin, brokers: Sequence[int], rate: int) -> list[int]:
    """Those of the brokers that have another rate."""
    if not brokers:
        return []
    resources = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
    described = (await admin.describe_configs(resources, names=RATES)).succeeded
    return [
        int(resource.name)
        for resource, configs in described.items()
        if any(each.value not in (None, str(rate)) for each in configs.values())
    ]


async def _alive(admin: Admin) -> frozenset[int]:
    return frozenset(node.id for node in (await admin.describe_cluster()).nodes)


def _raise_unless_gone(results: Results[ConfigResource, None]) -> None:
    """Raise the first error that is not about a topic that was deleted meanwhile."""
    for error in results.failed.values():
        if not (isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error


def _entries(lists: _Lists) -> Iterator[str]:
    return (each for entries in lists.values() for each in entries)


def _partition(topic: str, entry: str) -> TopicPartition:
    return TopicPartition(topic, int(entry.partition(":")[0]))


def _broker(entry: str) -> int:
    return int(entry.partition(":")[2])
