"""Topics and partitions, and the deltas between two states of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_bytes, place_number, place_text
from metadata.records import (
    LEADER_RECOVERED,
    NO_LEADER_CHANGE,
    NO_LEADER_RECOVERY_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

_T = TypeVar("_T")


@lazy_attrs.frozen
class PartitionImage:
    """A partition. `directories` are the UUIDs of the replicas' log directories, in the order of `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = LEADER_RECOVERED
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)


def new_partition(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        record.replicas,
        record.isr,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.directories,
        record.removing_replicas,
        record.adding_replicas,
        record.leader_recovery_state,
        record.eligible_leader_replicas,
        record.last_known_elr,
    )


def changed_partition(old: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    names_leader = change.leader != NO_LEADER_CHANGE
    keeps_recovery = change.leader_recovery_state == NO_LEADER_RECOVERY_CHANGE
    return PartitionImage(
        _or_old(change.replicas, old.replicas),
        _or_old(change.isr, old.isr),
        change.leader if names_leader else old.leader,
        old.leader_epoch + names_leader,
        old.partition_epoch + 1,
        _or_old(change.directories, old.directories),
        _or_old(change.removing_replicas, old.removing_replicas),
        _or_old(change.adding_replicas, old.adding_replicas),
        old.leader_recovery_state if keeps_recovery else change.leader_recovery_state,
        _or_old(change.eligible_leader_replicas, old.eligible_leader_replicas),
        _or_old(change.last_known_elr, old.last_known_elr),
    )


def _or_old(new: tuple[_T, ...] | None, old: tuple[_T, ...]) -> tuple[_T, ...]:
    return old if new is None else new


@lazy_attrs.frozen
class TopicImage:
    """A topic. `partitions` are by id, and iterate in the order of their ids, which start at 0 and have no gaps."""

    name: str
    topic_id: bytes
    partitions: PersistentMap[int, PartitionImage] = attrs.field(factory=lambda: PersistentMap(place_number))


@lazy_attrs.frozen
class TopicsImage:
    """All topics. `unified_names` maps a name with '.' replaced by '_' to the topics whose names collide in metrics.

    `by_broker` maps each broker to its replicas: the ids of partitions by topic id, in ascending order. With it, a
    change of a broker visits only that broker's partitions. `reassigning` maps a topic id to the partitions with an
    ongoing reassignment, in ascending order (KIP-455).
    """

    by_id: PersistentMap[bytes, TopicImage] = attrs.field(factory=lambda: PersistentMap(place_bytes))
    by_name: PersistentMap[str, TopicImage] = attrs.field(factory=lambda: PersistentMap(place_text))
    unified_names: PersistentMap[str, tuple[str, ...]] = attrs.field(factory=lambda: PersistentMap(place_text))
    by_broker: Mapping[int, PersistentMap[bytes, tuple[int, ...]]] = attrs.field(factory=dict)
    reassigning: PersistentMap[bytes, tuple[int, ...]] = attrs.field(factory=lambda: PersistentMap(place_bytes))

    def replicas_on(self, broker_id: int) -> Iterator[tuple[TopicImage, Iterable[int]]]:
        """Yield the topics with replicas on the broker, each with the ids of these partitions."""
        if broker_id in self.by_broker:
            for topic_id, partition_ids in self.by_broker[broker_id].items():
                yield self.by_id[topic_id], partition_ids

    def partition(self, topic_id: bytes, partition_id: int) -> PartitionImage | None:
        topic = self.by_id.get(topic_id)
        return topic.partitions.get(partition_id) if topic else None


def unify_collision_chars(name: str) -> str | None:
    """The topic's name in Kafka's metrics if another topic could have the same one there; else None."""
    return name.replace(".", "_") if "." in name or "_" in name else None


@lazy_attrs.define
class TopicDelta:
    """The changes of one topic. `base` is None for a new topic. `partitions` are the new and changed ones."""

    name: str
    topic_id: bytes
    base: TopicImage | None
    partitions: dict[int, PartitionImage] = attrs.field(factory=dict)

    def partition(self, partition_id: int) -> PartitionImage | None:
        """The partition after the change, or None."""
        changed = self.partitions.get(partition_id)
        return changed if changed or self.base is None else self.base.partitions.get(partition_id)

    def apply(self) -> TopicImage:
        base = self.base or TopicImage(self.name, self.topic_id)
        return TopicImage(self.name, self.topic_id, base.partitions.changed(self.partitions))


class TopicsDelta:
    """The changes between two images: `changed` holds new and changed topics, `deleted` the deleted ones."""

    def __init__(self, base: TopicsImage) -> None:
        self.base = base
        self.changed: dict[bytes, TopicDelta] = {}
        self.deleted: dict[bytes, TopicImage] = {}

    def replay_topic(self, record: TopicRecord) -> None:
        is_known = record.topic_id in self.base.by_id and record.topic_id not in self.deleted
        is_used = is_known or record.topic_id in self.changed
        assert not is_used, f"topic id {record.topic_id.hex()} is used twice"
        self.changed[record.topic_id] = TopicDelta(record.name, record.topic_id, None)

    def replay_partition(self, record: PartitionRecord) -> None:
        self._topic(record.topic_id).partitions[record.partition_id] = new_partition(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        old = topic.partition(record.partition_id)
        assert old is not None, f"no partition {record.partition_id} in topic {topic.name} to change"
        topic.partitions[record.partition_id] = changed_partition(old, record)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Remove a topic, and return its name."""
        topic = self._topic(record.topic_id)
        del self.changed[record.topic_id]
        if topic.base is not None:
            self.deleted[record.topic_id] = topic.base
        return topic.name

    def apply(self) -> TopicsImage:
        applied = [topic.apply() for topic in self.changed.values()]
        return TopicsImage(
            self.base.by_id.changed({topic.topic_id: topic for topic in applied}, self.deleted),
            self.base.by_name.changed(
                {topic.name: topic for topic in applied}, [topic.name for topic in self.deleted.values()]
            ),
            self._unified_names(),
            self._by_broker(),
            self._reassigning(),
        )

    def _topic(self, topic_id: bytes) -> TopicDelta:
        topic = self.changed.get(topic_id)
        if topic is None:
            base = self.base.by_id.get(topic_id) if topic_id not in self.deleted else None
            assert base is not None, f"no topic with id {topic_id.hex()}"
            topic = self.changed[topic_id] = TopicDelta(base.name, topic_id, base)
        return topic

    def _by_broker(self) -> Mapping[int, PersistentMap[bytes, tuple[int, ...]]]:
        """Update `by_broker`. Only changes of replicas, which are rare, have a cost here; those of ISRs do not."""
        put: dict[int, dict[bytes, tuple[int, ...]]] = {}
        gone: dict[int, list[bytes]] = {}
        for topic in self.deleted.values():
            for broker_id in _brokers_of(topic.partitions.values()):
                gone.setdefault(broker_id, []).append(topic.topic_id)
        for delta in self.changed.values():
            for broker_id, partition_ids in _moved(delta, self.base.by_broker).items():
                if partition_ids:
                    put.setdefault(broker_id, {})[delta.topic_id] = partition_ids
                else:
                    gone.setdefault(broker_id, []).append(delta.topic_id)
        after = dict(self.base.by_broker)
        for broker_id in dict.fromkeys((*put, *gone)):
            before = after.get(broker_id) or PersistentMap[bytes, tuple[int, ...]](place_bytes)
            after[broker_id] = before.changed(put.get(broker_id, {}), gone.get(broker_id, ()))
        return {broker_id: topics for broker_id, topics in after.items() if topics}

    def _reassigning(self) -> PersistentMap[bytes, tuple[int, ...]]:
        base, put = self.base.reassigning, dict[bytes, tuple[int, ...]]()
        for delta in self.changed.values():
            before = (base.get(delta.topic_id) if delta.base else None) or ()
            after = {index for index in before if index not in delta.partitions}
            after.update(index for index, partition in delta.partitions.items() if partition.is_reassigning)
            if after or before:
                put[delta.topic_id] = tuple(sorted(after))
        gone = [topic_id for topic_id in self.deleted if topic_id in base]
        gone += [topic_id for topic_id, after in put.items() if not after]
        return base.changed({k: v for k, v in put.items() if v}, gone) if put or gone else base

    def _unified_names(self) -> PersistentMap[str, tuple[str, ...]]:
        base, put = self.base.unified_names, dict[str, tuple[str, ...]]()
        gone = [topic.name for topic in self.deleted.values()]
        new = [topic.name for topic in self.changed.values() if topic.base is None]
        for names, names_after in ((gone, _without), (new, _with)):
            for name in names:
                if unified := unify_collision_chars(name):
                    put[unified] = names_after(put.get(unified, base.get(unified) or ()), name)
        return base.changed({k: v for k, v in put.items() if v}, [k for k, v in put.items() if not v])


def _brokers_of(partitions: Iterable[PartitionImage]) -> dict[int, None]:
    return dict.fromkeys(broker_id for partition in partitions for broker_id in partition.replicas)


def _moved(
    delta: TopicDelta, by_broker: Mapping[int, PersistentMap[bytes, tuple[int, ...]]]
) -> dict[int, tuple[int, ...]]:
    """The ids of this topic's partitions on each broker that gained or lost a replica, after the change."""
    after: dict[int, set[int]] = {}

    def on(broker_id: int) -> set[int]:
        if broker_id not in after:
            topics = by_broker.get(broker_id)
            after[broker_id] = set((topics.get(delta.topic_id) if topics and delta.base else None) or ())
        return after[broker_id]

    for partition_id, partition in delta.partitions.items():
        old = delta.base.partitions.get(partition_id) if delta.base else None
        if old is not None and old.replicas == partition.replicas:
            continue
        for broker_id in old.replicas if old else ():
            on(broker_id).discard(partition_id)
        for broker_id in partition.replicas:
            on(broker_id).add(partition_id)
    return {broker_id: tuple(sorted(partition_ids)) for broker_id, partition_ids in after.items()}


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Add a name in alphabetical order, so that equal states result in equal images, whatever their histories."""
    return tuple(sorted((*names, name)))


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)
