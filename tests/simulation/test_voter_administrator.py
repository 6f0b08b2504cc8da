"""The simulated administrator loses and damages disks only as far as a quorum may survive that."""

from collections.abc import Sequence
from random import Random

import pytest

from jepsen.simulation.invariants.replicas import Replica, Replicas
from jepsen.simulation.subjects.administrator import VoterAdministrator
from jepsen.simulation.trace import Event
from kraft.core import ReplicaKey

NAMES = {1: "n1", 2: "n2", 3: "n3"}


class Disks:
    """The nodes' disks: those that are damaged or empty."""

    def __init__(self) -> None:
        self.serving = set(NAMES.values())
        self.damaged: list[str] = []
        self.lost: list[str] = []
        self.changes: list[tuple[str, str]] = []

    def key_of(self, name: str) -> ReplicaKey:
        return ReplicaKey(int(name[1]), f"disk-{name}")

    def lose_disk(self, name: str) -> None:
        self.serving.discard(name)
        self.lost.append(name)

    def damage_disk(self, name: str, rng: Random) -> None:
        self.serving.discard(name)
        self.damaged.append(name)

    def is_serving(self, name: str) -> bool:
        return name in self.serving

    async def change(self, function: str, name: str, key: ReplicaKey, give_up: float) -> None:
        self.changes.append((function, name))

    async def wait_settled(self) -> None:
        raise AssertionError("all changes succeed here")


def administrator(disks: Disks, configured: list[str], voters: Sequence[int] = (1,)) -> VoterAdministrator:
    """The administrator of three nodes."""
    replicas = Replicas()
    for node_id, name in NAMES.items():
        replicas.hosts[node_id] = name
        replicas.by_host[name] = Replica(voters_offset=5, voters=tuple((voter, f"disk-n{voter}") for voter in voters))
    return VoterAdministrator(replicas, NAMES, list(NAMES.values()), configured, disks)


def refused(name: str) -> Event:
    return Event(1.0, name, "process_ended", {"errors": ["CorruptLog"]})


@pytest.mark.parametrize("spoil", ["damage_disk", "lose_disk"])
async def test_a_minority_of_the_configured_voters_is_without_its_disk_even_if_they_do_not_vote(spoil: str) -> None:
    """The others could found a second quorum: nodes with an empty disk believe in the configured voters."""
    disks = Disks()
    admin = administrator(disks, list(NAMES.values()))
    for seed in range(5):
        await admin.damage_disk(Random(seed))
    assert disks.damaged in (["n2"], ["n3"])
    name = disks.damaged[0]
    for seed in range(5):
        await getattr(admin, spoil)(Random(seed))
    assert (disks.damaged, disks.lost) == ([name], [])

    assert admin.replaces(refused(name)) == name
    for seed in range(5):
        await getattr(admin, spoil)(Random(seed))
    assert {*disks.damaged, *disks.lost} == {name}

    for seed in range(5):
        disks.serving.update(NAMES.values())
        await getattr(admin, spoil)(Random(seed))
    assert {*disks.damaged, *disks.lost} == {"n2", "n3"}


async def test_all_disks_but_those_of_voters_may_be_lost_where_empty_nodes_know_no_voters() -> None:
    disks = Disks()
    admin = administrator(disks, [])
    for seed in range(5):
        await admin.damage_disk(Random(seed))
        await admin.lose_disk(Random(seed))
    assert {*disks.damaged, *disks.lost} == {"n2", "n3"}
