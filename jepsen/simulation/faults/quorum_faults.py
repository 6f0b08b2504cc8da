"""Changes of the quorum itself: what an administrator does is no fault, but comes at the worst of times."""

from jepsen.simulation.faults.fault import Strike


class ChangeVoters:
    """A voter is added or removed (KIP-853)."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.change_voters(strike.rng)


class BitFlip:
    """A bit turns around in what a node has of the log, as others have all that anybody may rely on."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.damage_disk(strike.rng)


class LoseDisk:
    """A node loses all that was on its disk, as few other voters have done."""

    async def strike(self, strike: Strike) -> None:
        await strike.administrator.lose_disk(strike.rng)
