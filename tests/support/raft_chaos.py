"""A random run of a quorum: messages are lost and reordered, hosts crash and lose unsynced data, links break in one
direction, voters change, logs are truncated by snapshots. `Invariants` hold throughout, and after the last fault all
replicas agree in bounded time.
"""

from collections.abc import Callable
from random import Random

from kraft.core.messages import AddVoterRequest, RemoveVoterRequest
from tests.support.raft_harness import Host, RaftHarness

STEPS = 60
HEALED_WITHIN_MS = 30_000


class Chaos:
    """`voters` of the hosts are the first voters; `spares` are observers that may become voters."""

    def __init__(self, seed: int, voters: int, spares: int = 0, prepare: Callable[[RaftHarness], None] | None = None):
        self.rng = Random(seed)
        pace = self.rng.choice([2.0, 10.0, 60.0])
        self.harness = RaftHarness(
            range(1, voters + 1),
            range(voters + 1, voters + spares + 1),
            rng=Random(seed + 1),
            latency_ms=lambda: self.rng.uniform(0.2, pace),
            sync_ms=lambda: self.rng.uniform(0.2, pace),
            disks_known=self.rng.random() < 0.5,
        )
        if prepare is not None:
            prepare(self.harness)
        self.appended = 0
        self.harness.loss = self.rng.choice([0.0, 0.0, 0.05, 0.2])
        faults = [self.crash, self.cut, self.heal, self.snapshot, self.crash_leader, self.reset]
        if not spares and self.harness.disks_known:
            faults.append(self.wipe)  # with removed voters as well, the remaining disks might be no majority
        self.wiped = False
        changes = [self.add_voter, self.remove_voter] if spares else []
        self.actions = [*self.rng.sample(faults, self.rng.randrange(len(faults) + 1)), *changes]

    def run(self, steps: int = STEPS) -> None:
        """Run `steps` steps. Raises Violation, or AssertionError if the quorum does not recover."""
        self.harness.start_all()
        for _ in range(steps):
            self.restart_some()
            for host in self.harness.live:
                if host.live.leader_id == host.node_id and self.rng.random() < 0.7:
                    self.append(host)
            if self.actions and self.rng.random() < 0.6:
                self.rng.choice(self.actions)()
            self.harness.run(self.rng.choice([1, 5, 20, 100, 500, 3_000]))
        self.settle()

    def settle(self) -> None:
        harness = self.harness
        harness.loss = 0.0
        harness.cuts.clear()
        for host in harness.hosts.values():
            if host.core is None:
                harness.start(host.node_id)
        assert harness.run_until(lambda: harness.leader is not None, HEALED_WITHIN_MS), "no leader after all has healed"
        harness.run(HEALED_WITHIN_MS / 2)
        leader = harness.leader
        assert leader is not None
        self.append(leader)
        harness.run(HEALED_WITHIN_MS / 2)
        ends = {host.node_id: (host.live.high_watermark, host.disk.end) for host in harness.live}
        assert len(set(ends.values())) == 1, f"not all have caught up: {ends}"
        assert leader.live.high_watermark == leader.live.end_offset
        assert all(voter.key.directory_id for voter in leader.live.voters.voters), "a voter did not name its disk"

    def append(self, host: Host) -> None:
        self.appended += 1
        self.harness.append(host.node_id, *(f"{self.appended}.{i}" for i in range(self.rng.randrange(1, 4))))

    def restart_some(self) -> None:
        for host in self.harness.hosts.values():
            if host.core is None and self.rng.random() < 0.3:
                self.harness.start(host.node_id)

    def crash(self) -> None:
        if self.harness.live:
            self.harness.crash(self.rng.choice(self.harness.live).node_id)

    def crash_leader(self) -> None:
        leader = self.harness.leader
        if leader is not None:
            self.harness.crash(leader.node_id)
            if self.rng.random() < 0.5:
                self.harness.reset_connections(leader.node_id)

    def wipe(self) -> None:
        """Lose one disk permanently: its node no longer votes, and the other voters are still a majority."""
        if not self.wiped:
            self.wiped = True
            self.harness.wipe(self.rng.choice(list(self.harness.hosts)), "new")

    def reset(self) -> None:
        self.harness.reset_connections(self.rng.choice(list(self.harness.hosts)))

    def cut(self) -> None:
        source, destination = self.rng.sample(list(self.harness.hosts), 2)
        self.harness.cuts.add((source, destination))
        if self.rng.random() < 0.5:
            self.harness.cuts.add((destination, source))

    def heal(self) -> None:
        self.harness.cuts.clear()

    def snapshot(self) -> None:
        if self.harness.live:
            host = self.rng.choice(self.harness.live)
            if host.live.high_watermark > host.live.log.start.offset and not host.effects:
                self.harness.take_snapshot(host.node_id)

    def add_voter(self) -> None:
        leader = self.harness.leader
        if leader is not None:
            node_id = self.rng.choice(list(self.harness.hosts))
            self.harness.change_voters(leader.node_id, AddVoterRequest(self.harness.voter(node_id), 5_000))

    def remove_voter(self) -> None:
        leader = self.harness.leader
        if leader is not None:
            node_id = self.rng.choice(list(self.harness.hosts))
            self.harness.change_voters(leader.node_id, RemoveVoterRequest(self.harness.voter(node_id).key, 5_000))
