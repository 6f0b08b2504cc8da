"""Changes of voters and their disks, within the bounds that an administrator has to keep."""

from jepsen.simulation.faults.fault import FaultInjection


class ChangeVoters:
    """A voter is added or removed (KIP-853)."""

    async def inject(self, injection: FaultInjection) -> None:
        await injection.administrator.change_voters(injection.rng)


class BitFlip:
    """A bit flips in the metadata of one of a minority of the voters: in its log, a snapshot, or its vote."""

    async def inject(self, injection: FaultInjection) -> None:
        await injection.administrator.damage_disk(injection.rng)


class LoseDisk:
    """A node loses its disk, if a minority of the voters has lost theirs."""

    async def inject(self, injection: FaultInjection) -> None:
        await injection.administrator.lose_disk(injection.rng)
