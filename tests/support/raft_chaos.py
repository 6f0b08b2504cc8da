"""A random run of a quorum: messages are lost and reordered, hosts crash and lose unsynced data, links break in one
direction, voters change, logs are truncated by snapshots. `Invariants` hold throughout, and after the last fault all
replicas agree in bounded time.
"""

from collections.abc import Callable
from random import Random

from kraft.core.messages import AddVoterRequest, RemoveVoterRequest
from tests.support.raft_world import Host, RaftWorld

STEPS = 60
HEALED_WITHIN_MS = 30_000


class Chaos:
    """`voters` of the hosts are the first voters; `spares` are observers that may become voters."""

    def __init__(self, seed: int, voters: int, spares: int = 0, prepare: Callable[[RaftWorld], None] | None = None):
        self.rng = Random(seed)
        pace = self.rng.choice([2.0, 10.0, 60.0])
        self.world = RaftWorld(
            range(1, voters + 1),
            range(voters + 1, voters + spares + 1),
            rng=Random(seed + 1),
            latency_ms=lambda: self.rng.uniform(0.2, pace),
            sync_ms=lambda: self.rng.uniform(0.2, pace),
            disks_known=self.rng.random() < 0.5,
        )
        if prepare is not None:
            prepare(self.world)
        self.appended = 0
        self.world.loss = self.rng.choice([0.0, 0.0, 0.05, 0.2])
        faults = [self.crash, self.cut, self.heal, self.snapshot, self.crash_leader, self.reset]
        if not spares and self.world.disks_known:
            faults.append(self.wipe)  # with removed voters as well, the remaining disks might be no majority
        self.wiped = False
        changes = [self.add_voter, self.remove_voter] if spares else []
        self.actions = [*self.rng.sample(faults, self.rng.randrange(len(faults) + 1)), *changes]

    def run(self, steps: int = STEPS) -> None:
        """Run `steps` steps. Raises Violation, or AssertionError if the quorum does not recover."""
        self.world.start_all()
        for _ in range(steps):
            self.restart_some()
            for host in self.world.live:
                if host.live.leader_id == host.node_id and self.rng.random() < 0.7:
                    self.append(host)
            if self.actions and self.rng.random() < 0.6:
                self.rng.choice(self.actions)()
            self.world.run(self.rng.choice([1, 5, 20, 100, 500, 3_000]))
        self.settle()

    def settle(self) -> None:
        world = self.world
        world.loss = 0.0
        world.cuts.clear()
        for host in world.hosts.values():
            if host.core is None:
                world.start(host.node_id)
        assert world.run_until(lambda: world.leader is not None, HEALED_WITHIN_MS), "no leader after all has healed"
        world.run(HEALED_WITHIN_MS / 2)
        leader = world.leader
        assert leader is not None
        self.append(leader)
        world.run(HEALED_WITHIN_MS / 2)
        ends = {host.node_id: (host.live.high_watermark, host.disk.end) for host in world.live}
        assert len(set(ends.values())) == 1, f"not all have caught up: {ends}"
        assert leader.live.high_watermark == leader.live.end_offset
        assert all(voter.key.directory_id for voter in leader.live.voters.voters), "a voter did not name its disk"

    def append(self, host: Host) -> None:
        self.appended += 1
        self.world.append(host.node_id, *(f"{self.appended}.{i}" for i in range(self.rng.randrange(1, 4))))

    def restart_some(self) -> None:
        for host in self.world.hosts.values():
            if host.core is None and self.rng.random() < 0.3:
                self.world.start(host.node_id)

    def crash(self) -> None:
        if self.world.live:
            self.world.crash(self.rng.choice(self.world.live).node_id)

    def crash_leader(self) -> None:
        leader = self.world.leader
        if leader is not None:
            self.world.crash(leader.node_id)
            if self.rng.random() < 0.5:
                self.world.reset_connections(leader.node_id)

    def wipe(self) -> None:
        """Lose one disk permanently: its node no longer votes, and the other voters are still a majority."""
        if not self.wiped:
            self.wiped = True
            self.world.wipe(self.rng.choice(list(self.world.hosts)), "new")

    def reset(self) -> None:
        self.world.reset_connections(self.rng.choice(list(self.world.hosts)))

    def cut(self) -> None:
        source, destination = self.rng.sample(list(self.world.hosts), 2)
        self.world.cuts.add((source, destination))
        if self.rng.random() < 0.5:
            self.world.cuts.add((destination, source))

    def heal(self) -> None:
        self.world.cuts.clear()

    def snapshot(self) -> None:
        if self.world.live:
            host = self.rng.choice(self.world.live)
            if host.live.high_watermark > host.live.log.start.offset and not host.effects:
                self.world.take_snapshot(host.node_id)

    def add_voter(self) -> None:
        leader = self.world.leader
        if leader is not None:
            node_id = self.rng.choice(list(self.world.hosts))
            self.world.change_voters(leader.node_id, AddVoterRequest(self.world.voter(node_id), 5_000))

    def remove_voter(self) -> None:
        leader = self.world.leader
        if leader is not None:
            node_id = self.rng.choice(list(self.world.hosts))
            self.world.change_voters(leader.node_id, RemoveVoterRequest(self.world.voter(node_id).key, 5_000))
