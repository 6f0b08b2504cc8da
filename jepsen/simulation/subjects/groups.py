"""Consumer groups on simulated nodes."""

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
from jepsen.workloads.group_churn import Place, random_place
from jepsen.workloads.group_member import Group, TopicPartition

# Few partitions, so that some groups share a coordinator and others do not.
_OFFSETS_PARTITIONS: Final = 2
_HEAR_SECONDS: Final = 0.1
# The protocols of a group's members. A group with both changes from one to the other and back.
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
    """The groups of a run. `places` maps names to places in the groups, each of which one client fills with successive
    members.
    """

    groups: list[Group]
    places: Mapping[str, Place]

    async def wait_reached(self, ends: Mapping[TopicPartition, int]) -> None:
        """Wait until every group has committed the end offsets of its partitions."""
        for group in self.groups:
            for partition, end in ends.items():
                while partition[0] in group.topics and group.reached.get(partition, 0) < end:
                    await trio.sleep(_HEAR_SECONDS)

    def library_places(self, rng: Random) -> Mapping[str, Place]:
        """Up to two more places in each group, for members that use the client library."""
        places: dict[str, Place] = {}
        for group in self.groups:
            protocols = next(place.protocols for place in self.places.values() if place.group is group)
            of_library = tuple(f"library-{protocol}" for protocol in protocols)
            for number in range(rng.randint(0, 2)):
                name = f"{group.name}-l{number}"
                places[name] = random_place(group, of_library, name, rng)
        return places

    def forget(self) -> None:
        """Reset the progress, so that only later commits of members count."""
        for group in self.groups:
            group.reached.clear()


def groups_of(load: Load, committed: Committed, rng: Random) -> Groups:
    """One or two random groups, with one protocol or both. Their topics have to exist."""
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
            places[place] = random_place(group, protocols, place, rng)
    return Groups(groups, places)
