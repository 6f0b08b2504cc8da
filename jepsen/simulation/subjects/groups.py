"""Groups that consume what is produced to simulated nodes."""

from collections.abc import Mapping
from random import Random
from typing import Final

import attrs
import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.java_hash import java_hash
from jepsen.simulation.invariants import Committed
from jepsen.simulation.subjects.load import Load
from jepsen.values import WantedTopic
from jepsen.workloads.group_churn import Place, a_place
from jepsen.workloads.group_member import Group, TopicPartition

# Few, so that groups share a coordinator, and not all of them do.
_OFFSETS_PARTITIONS: Final = 2
_HEAR_SECONDS: Final = 0.1
# The protocols of a group's members. With both, the group changes from one to the other and back.
_PROTOCOLS: Final = (("classic",), ("consumer",), ("classic", "consumer"))


def offsets_topic(brokers: int, rng: Random) -> WantedTopic:
    """The offsets topic, which is created before any group needs a coordinator. The invariants track its losses like
    those of other topics.
    """
    most = min(3, brokers)
    configs = (
        ("min.insync.replicas", str(rng.choice((most - 1, 1)))),
        *(("flush.messages", "1"),) * rng.choice((0, 1)),
    )
    return WantedTopic(CONSUMER_OFFSETS, _OFFSETS_PARTITIONS, configs=configs, replication_factor=most)


@attrs.define(eq=False)
class Groups:
    """`places` by name are those of their members, each of which a client takes for one member after the other."""

    groups: list[Group]
    places: Mapping[str, Place]

    async def wait_reached(self, ends: Mapping[TopicPartition, int]) -> None:
        """Until every group has committed that it has come to the ends of its partitions."""
        for group in self.groups:
            for partition, end in ends.items():
                while partition[0] in group.topics and group.reached.get(partition, 0) < end:
                    await trio.sleep(_HEAR_SECONDS)

    def library_places(self, rng: Random) -> Mapping[str, Place]:
        """Up to two more in each group, whose members are of the client library."""
        places: dict[str, Place] = {}
        for group in self.groups:
            protocols = next(place.protocols for place in self.places.values() if place.group is group)
            of_library = tuple(f"library-{protocol}" for protocol in protocols)
            for number in range(rng.randint(0, 2)):
                name = f"{group.name}-l{number}"
                places[name] = a_place(group, of_library, name, rng)
        return places

    def forget(self) -> None:
        """Forget the progress so far; only later commits of members count."""
        for group in self.groups:
            group.reached.clear()


def groups_of(load: Load, committed: Committed, rng: Random) -> Groups:
    """One or two groups, as chance has it, of one protocol or of both. The topics they consume have to be there."""
    topics = {topic.name: topic.partitions for topic in load.topics if topic.name in load.grouped}
    ids = {committed.image.topics.by_name[name].topic_id: name for name in topics}

    def leads(host: str, topic: str, partition: int) -> bool:
        return committed.image.topics.by_name[topic].partitions[partition].leader == committed.nodes[host]

    groups = []
    places: dict[str, Place] = {}
    for serial in range(rng.choice((1, 1, 2))):
        name = f"g{serial}-{rng.randrange(100)}"
        protocols = rng.choice(_PROTOCOLS)
        index = java_hash(name) % _OFFSETS_PARTITIONS
        group = Group(name, topics, ids, index, leads, may_restart_generations=len(protocols) > 1)
        groups.append(group)
        for number in range(rng.randint(*load.members)):
            place = f"{name}-{number}"
            places[place] = a_place(group, protocols, place, rng)
    return Groups(groups, places)
