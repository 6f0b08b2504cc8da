"""Changes of voters and their disks, within the bounds that an administrator has to keep."""

from jepsen.simulation.faults.fault import Strike


class ChangeVoters:
    """A voter is added or removed (KIP-853)."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.change_voters(strike.rng)


class BitFlip:
    """A bit flips in a node's log, if other nodes hold all entries that clients may rely on."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.damage_disk(strike.rng)


class LoseDisk:
    """A node loses its disk, if a minority of the voters has lost theirs."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.lose_disk(strike.rng)
