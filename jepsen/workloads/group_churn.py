"""Members that join and leave: each place in a group is taken by one member after another."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final

import attrs
import trio

from jepsen.workloads.client import Client
from jepsen.workloads.connection import ConnectionLost
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
# A member leaves, crashes, or (a static one) goes on while another member takes its place.
_ENDS: Final = ("leave", "crash", "crash", "overlap")
_OVERLAP_SECONDS: Final = 8.0
_LEAVE_SECONDS: Final = 5.0


@attrs.frozen
class Place:
    """`protocols` are those that its members draw from. With an `instance` all of them are that static member."""

    group: Group
    protocols: tuple[str, ...]
    instance: str | None
    lifetime_seconds: float
    commits: float

    def member(self, client: Client, serial: int, stalls: float) -> GroupMember:
        kind = PROTOCOLS[client.rng.choice(self.protocols)]
        named = attrs.evolve(client, name=f"{client.name}.{serial}")
        return kind(named, self.group, self.instance, commits=self.commits, stalls=stalls)


def a_place(group: Group, protocols: tuple[str, ...], name: str, rng: Random) -> Place:
    instance = name if rng.random() < 0.4 else None
    return Place(group, protocols, instance, rng.choice((4.0, 15.0, 60.0)), rng.choice((0.1, 0.3, 1.0)))


async def churn_members(client: Client, place: Place) -> None:
    """Until cancelled, which is a crash."""
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
                    overlapping.start_soon(_go_on, member)
            await trio.sleep(rng.choice((0.0, 0.0, 1.0, 8.0)) * rng.random())


async def audit(client: Client, group: Group) -> None:
    """Ask how far a group has come, until cancelled."""
    await Auditor(client, group).run()


async def stay(client: Client, place: Place) -> None:
    """One member that is well and commits what it reads, until cancelled; another one if it is replaced."""
    serial, place = 0, attrs.evolve(place, commits=1.0)
    while True:
        serial += 1
        await place.member(client, serial, 0.0).run()


async def _go_on(member: GroupMember) -> None:
    with trio.move_on_after(_OVERLAP_SECONDS):
        await member.run()
