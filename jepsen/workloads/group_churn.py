"""Members that join and leave: each place in a group is taken by a sequence of members."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

import attrs
import trio

from broker.client import ConnectionLost
from jepsen.workloads.client import Client
from jepsen.workloads.group_classic import ClassicMember
from jepsen.workloads.group_consumer import ConsumerMember
from jepsen.workloads.group_member import Auditor, Group, GroupMember
from jepsen.workloads.library_member import LibraryMember

PROTOCOLS: Final[Mapping[str, Callable[..., GroupMember]]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    # The members of the client library use the assignor of the other classic members.
    "library-classic": partial(
        LibraryMember, settings={"group_protocol": "classic", "partition_assignment_strategy": ["range"]}
    ),
    "library-consumer": partial(LibraryMember, settings={"group_protocol": "consumer"}),
}
# The ways in which a member is replaced. With "overlap" (static members only) it keeps running meanwhile.
_ENDS: Final = ("leave", "crash", "crash", "overlap")
_OVERLAP_SECONDS: Final = 8.0
_LEAVE_SECONDS: Final = 5.0


@attrs.frozen
class Place:
    """A place in a group. `protocols` are the ones to choose from for each member.

    With an `instance`, every member of this place has that group.instance.id.
    """

    group: Group
    protocols: tuple[str, ...]
    instance: str | None
    lifetime_seconds: float
    commits: float

    def member(self, client: Client, serial: int, stalls: float) -> GroupMember:
        kind = PROTOCOLS[client.rng.choice(self.protocols)]
        named = attrs.evolve(client, name=f"{client.name}.{serial}")
        return kind(named, self.group, self.instance, commits=self.commits, stalls=stalls)


def random_place(group: Group, protocols: tuple[str, ...], name: str, rng: Random) -> Place:
    instance = name if rng.random() < 0.4 else None
    return Place(group, protocols, instance, rng.choice((4.0, 15.0, 60.0)), rng.choice((0.1, 0.3, 1.0)))


async def churn_members(client: Client, place: Place) -> None:
    """Run one member after another until cancelled. Cancellation crashes the current member."""
    rng, serial = client.rng, 0
    async with trio.open_nursery() as overlapping:
        while True:
            serial += 1
            member = place.member(client, serial, rng.choice((0.0, 0.0, 0.02)))
            with trio.move_on_after(rng.expovariate(1 / place.lifetime_seconds)):
                await member.run()
            match rng.choice(_ENDS):
                case "leave":
                    with trio.move_on_after(_LEAVE_SECONDS), suppress(ConnectionLost):
                        await member.leave()
                    await member.aclose()
                case "overlap" if place.instance is not None and not member.is_over:
                    overlapping.start_soon(_run_overlapping, member)
            await trio.sleep(rng.choice((0.0, 0.0, 1.0, 8.0)) * rng.random())


async def audit(client: Client, group: Group) -> None:
    """Fetch the group's committed offsets repeatedly, until cancelled."""
    await Auditor(client, group).run()


async def stay(client: Client, place: Place) -> None:
    """Run one member without faults, which commits what it reads, until cancelled. Replace it if it is fenced."""
    serial, place = 0, attrs.evolve(place, commits=1.0)
    while True:
        serial += 1
        await place.member(client, serial, 0.0).run()


async def _run_overlapping(member: GroupMember) -> None:
    with trio.move_on_after(_OVERLAP_SECONDS):
        await member.run()
