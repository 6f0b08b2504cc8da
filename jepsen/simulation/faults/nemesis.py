"""The nemesis injects a subset of the faults, which depends on the seed and may be empty."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

import trio

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults.aimed import Aimed, Crash, Cut
from jepsen.simulation.faults.disk_faults import DiskBroken, DiskFull, DiskSlow, DiskStalled, FsyncFails, FsyncThenPower
from jepsen.simulation.faults.fault import Administrator, Fault, FaultInjection, TopicAdministrator
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.faults.lying_peers import LyingPeer, known_node, stranger
from jepsen.simulation.faults.network_faults import (
    Bridge,
    Flapping,
    Halves,
    Isolate,
    IsolateLeader,
    Lossy,
    OneWay,
    Reset,
    Ring,
    Slow,
)
from jepsen.simulation.faults.process_faults import Kill, Pause, PowerCut, RepeatedCrash, Restart, WallClock
from jepsen.simulation.faults.quorum_faults import BitFlip, ChangeVoters, LoseDisk
from jepsen.simulation.faults.topic_faults import (
    Administer,
    BreakLogDir,
    BreakMovingLogDir,
    DataBitFlip,
    IsolatePartitionLeader,
    KillCoordinator,
    LoseLogDir,
)

FAULTS: Final[Mapping[str, Fault]] = MappingProxyType(
    {
        "kill": Kill(),
        "power": PowerCut(),
        "storm": RepeatedCrash(),
        "restart": Restart(),
        "pause": Pause(),
        "wall-clock": WallClock(),
        "isolate": Isolate(),
        "one-way": OneWay(),
        "halves": Halves(),
        "flapping": Flapping(),
        "slow": Slow(),
        "lossy": Lossy(),
        "reset": Reset(),
        "disk-full": DiskFull(),
        "disk-slow": DiskSlow(),
        "disk-stalled": DiskStalled(),
        "disk-broken": DiskBroken(),
        "fsync": FsyncFails(),
        "fsync-then-power": FsyncThenPower(),
        "bridge": Bridge(),
        "ring": Ring(),
        "isolate-leader": IsolateLeader(),
        "change-voters": ChangeVoters(),
        "lose-disk": LoseDisk(),
        "bit-flip": BitFlip(),
        "aimed-kill": Aimed(Crash(power=False)),
        "aimed-power": Aimed(Crash(power=True)),
        "aimed-cut": Aimed(Cut()),
        "isolate-partition-leader": IsolatePartitionLeader(),
        "elect-leaders": Administer(lambda topics, rng: topics.elect_leaders(rng)),
        "reassign": Administer(lambda topics, rng: topics.reassign(rng)),
        "configure": Administer(lambda topics, rng: topics.configure(rng)),
        "lose-log-dir": LoseLogDir(),
        "break-log-dir": BreakLogDir(),
        "isolate-coordinator": IsolatePartitionLeader(lambda topics, rng: topics.coordinator_of_any(rng)),
        "kill-coordinator": KillCoordinator(),
        "lying-peer": LyingPeer(known_node, is_stranger=False),
        "lying-stranger": LyingPeer(stranger, is_stranger=True),
        "data-bit-flip": DataBitFlip(),
        "move-log-dir": Administer(lambda topics, rng: topics.move_log_dir(rng)),
        "break-moving-log-dir": BreakMovingLogDir(),
    }
)

QUIET_SECONDS_MEANS = (0.5, 2.0)


class Nemesis:
    """Injects the faults. `chosen` are the faults of this seed, `strikes` counts the strikes of each."""

    def __init__(
        self,
        cluster: Cluster,
        members: QuorumMembers,
        administrator: Administrator,
        topics: TopicAdministrator | None,
        allowed: Sequence[str],
        rng: Random,
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._administrator = administrator
        self._topics = topics
        self._rng = rng
        share = rng.choice((0.2, 0.5, 1.0))
        self.chosen = [name for name in allowed if rng.random() < share]
        self._quiet_seconds = rng.choice(QUIET_SECONDS_MEANS)
        self.strikes: Counter[str] = Counter()

    async def run(self) -> None:
        """Inject faults until cancelled, on some seeds two at a time."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._rng.choice((1, 1, 2))):
                nursery.start_soon(self._strike_repeatedly)

    async def _strike_repeatedly(self) -> None:
        while self.chosen:
            await trio.sleep(self._rng.expovariate(1 / self._quiet_seconds))
            name = self._rng.choice(self.chosen)
            self.strikes[name] += 1
            self._cluster.simulation.trace.event("nemesis", name, {})
            injection = FaultInjection(self._cluster, self._members, self._administrator, self._topics, self._rng)
            await FAULTS[name].inject(injection)
