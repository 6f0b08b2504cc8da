"""Raft cores on hosts with disks that lose unsynced data, a network that loses and reorders messages, and a clock.

The harness performs effects exactly as a driver has to: in order, waiting where state must be durable first, and
syncing concurrently. Two messages between the same hosts may overtake each other unless `latency_ms` is a constant, as
if every request had its own connection.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from math import inf
from random import Random

import attrs

from kraft.core import Core, Effect, Event, QuorumConfig, ReplicaKey, Role, Voter, VoterSet
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core.control_records import decode_voters
from kraft.core.messages import Error, FetchSnapshotResponse, Request, Response, VoterChangeResponse
from kraft.replicated_log import BatchKind
from tests.support.directory_ids import directory_id
from tests.support.raft_core import WALL_S
from tests.support.raft_disk import RaftDisk, Snapshot
from tests.support.raft_invariants import Invariants

REQUEST_TIMEOUT_MS = 2_000
BATCHES_IN_ANSWER = 4
SNAPSHOT_PIECES = 2


def one_ms() -> float:
    return 1.0


class Listener:
    """Observes the events of a harness. The golden traces are written by a listener."""

    def became(self, node_id: int, effect: todo.RoleChanged) -> None: ...
    def sent(self, source: int, destination: int, request: Request) -> None: ...
    def answered(self, source: int, destination: int, response: Response) -> None: ...
    def lost(self, source: int, destination: int, message: Request | Response) -> None: ...
    def wrote(self, node_id: int, effect: Effect) -> None: ...
    def committed(self, node_id: int, end_offset: int) -> None: ...


@attrs.define(eq=False)
class Host:
    """A machine, and its core while it runs. `incarnation` distinguishes the processes that run on it, one after
    another.
    """

    node_id: int
    disk: RaftDisk
    chance: Callable[[], float]
    initial_voters: VoterSet
    core: Core | None = None
    incarnation: int = 0
    effects: deque[Effect] = attrs.field(factory=deque)
    syncing: bool = False
    persisting: bool = False
    download: Snapshot | None = None

    @property
    def live(self) -> Core:
        assert self.core is not None, f"node {self.node_id} is down"
        return self.core


class RaftHarness:
    def __init__(
        self,
        voter_ids: Iterable[int],
        observer_ids: Iterable[int] = (),
        *,
        rng: Random | None = None,
        chance: Callable[[int], Callable[[], float]] | None = None,
        latency_ms: Callable[[], float] = one_ms,
        sync_ms: Callable[[], float] = one_ms,
        listener: Listener | None = None,
        disks_known: bool = True,
    ) -> None:
        self.rng = rng or Random(0)
        self.now_ms = 0.0
        self.invariants = Invariants()
        self.listener = listener or Listener()
        self.latency_ms, self.sync_ms = latency_ms, sync_ms
        self.loss = 0.0
        self.cuts: set[tuple[int, int]] = set()
        self.change_answers: list[VoterChangeResponse] = []
        # Tests set these to False to simulate a wrong driver.
        self.votes_are_durable = self.log_is_durable = True
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._tokens: dict[int, tuple[int, int, int, Request]] = {}
        voter_ids, self.chance = list(voter_ids), chance or (lambda node_id: self.rng.random)
        voters = [self.voter(node_id) for node_id in voter_ids]
        self.disks_known = disks_known
        if not disks_known:
            voters = [Voter(ReplicaKey(voter.node_id), voter.address) for voter in voters]
        self.voters = VoterSet(tuple(voters))
        self.hosts = {node_id: self._host(node_id, self.voters) for node_id in voter_ids}
        for node_id in observer_ids:
            self.hosts[node_id] = self._host(node_id, VoterSet())

    @staticmethod
    def voter(node_id: int, generation: str = "") -> Voter:
        return Voter(ReplicaKey(node_id, directory_id(f"d{node_id}{generation}")), f"host{node_id}:1")

    @property
    def live(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.core is not None]

    @property
    def leader(self) -> Host | None:
        """The leader; if there are several, the one in the highest epoch."""
        leading = [host for host in self.live if host.live.role is Role.LEADER]
        return max(leading, key=lambda host: host.live.epoch, default=None)

    # The operator

    def start(self, node_id: int) -> None:
        host = self.hosts[node_id]
        assert host.core is None
        self.invariants.restarts(node_id)
        recovered = host.disk.recover(host.initial_voters)
        servers = (
            tuple(str(other) for other in self.hosts if other != node_id) if not host.initial_voters.voters else ()
        )
        config = QuorumConfig(ReplicaKey(node_id, host.disk.directory_id), f"host{node_id}:1", servers)
        host.core = Core(config, host.chance, *recovered, self.now_ms, lambda: WALL_S)
        assert host.core.epoch >= host.disk.election.epoch
        self.at(0, self._in_incarnation(host, happened.Tick()))

    def start_all(self) -> None:
        for node_id in self.hosts:
            self.start(node_id)

    def crash(self, node_id: int) -> None:
        host = self.hosts[node_id]
        host.core, host.incarnation = None, host.incarnation + 1
        host.effects.clear()
        host.syncing = host.persisting = False
        if not self.log_is_durable:
            host.disk.synced_end_offset = min(host.disk.synced_end_offset, self.rng.randrange(host.disk.end_offset + 1))
            boundaries = [batch.base_offset for batch in host.disk.batches]
            host.disk.synced_end_offset = max(
                (offset for offset in boundaries if offset <= host.disk.synced_end_offset), default=0
            )
        host.disk.crash(self.rng)
        for token, (_, target, _, _) in list(self._tokens.items()):
            if target == node_id:
                self._fail(token, self.latency_ms())

    def wipe(self, node_id: int, generation: str) -> None:
        """Replace the disk with an empty one. The node restarts, and knows only the addresses of the voters."""
        former = self.hosts[node_id].disk
        self.invariants.lost_disks[ReplicaKey(node_id, former.directory_id)] = former.synced_end_offset
        self.crash(node_id)
        host = self._host(node_id, VoterSet(), generation)
        host.incarnation = self.hosts[node_id].incarnation
        self.hosts[node_id] = host

    def reset_connections(self, node_id: int) -> None:
        """Inform all other hosts that the process has ended, as a reset connection does."""
        for host in self.live:
            self.at(self.latency_ms(), self._in_incarnation(host, happened.ConnectionReset(node_id)))

    def leave(self, node_id: int) -> None:
        self.step(self.hosts[node_id], happened.Leave())

    def append(self, node_id: int, *values: str) -> None:
        records = tuple(value.encode() for value in values)
        self.step(self.hosts[node_id], happened.Append(records, int(self.now_ms)))

    def change_voters(self, node_id: int, request: Request) -> None:
        """Send a voter change to a node, as an administrator's tool does. The responses are in `change_answers`."""
        self._deliver(0, node_id, 0, request)

    def take_snapshot(self, node_id: int) -> None:
        host = self.hosts[node_id]
        log, end_offset = host.live.log, host.live.high_watermark
        place = type(log.start)(end_offset, log.epoch_before(end_offset))
        host.disk.take_snapshot(place, host.live.voters_at(end_offset))
        self.step(host, happened.SnapshotTaken(place))

    # Time

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._numbers), action))

    def run(self, duration_ms: float) -> None:
        self.run_until(lambda: False, duration_ms)

    def run_until(self, done: Callable[[], bool], duration_ms: float) -> bool:
        """Let time pass until `done`, for at most `duration_ms`. Returns the last result of `done`."""
        end_ms = self.now_ms + duration_ms
        while not done():
            timers = [(host.live.deadline_ms, host.node_id) for host in self.live]
            timer_ms, node_id = min(timers, default=(inf, -1))
            message_ms = self._queue[0][0] if self._queue else inf
            next_ms = max(self.now_ms, min(timer_ms, message_ms))
            if next_ms > end_ms:
                self.now_ms = end_ms
                return done()
            self.now_ms = next_ms
            if message_ms <= timer_ms:
                heapq.heappop(self._queue)[2]()
            else:
                self.step(self.hosts[node_id], happened.Tick())
        return True

    # Driver

    def step(self, host: Host, event: Event) -> None:
        core = host.live
        voters, was_leader = core.voters, core.role is Role.LEADER
        effects = core.step(event, self.now_ms)
        for effect in effects:
            match effect:
                case todo.AppendLog():
                    named = [batch for batch in effect.batches if batch.kind is BatchKind.VOTERS]
                    voters = decode_voters(named[-1].records[0]) if named else voters
                case todo.Committed() if was_leader:
                    disks = {node_id: each.disk for node_id, each in self.hosts.items()}
                    self.invariants.leader_commits(effect.end_offset, voters, disks)
        host.effects.extend(effects)
        self._perform(host)

    def _perform(self, host: Host) -> None:
        while host.effects and not host.persisting and host.core is not None:
            effect = host.effects[0]
            if isinstance(effect, todo.TruncateLog) and host.syncing:
                return
            host.effects.popleft()
            self._perform_one(host, effect)

    def _perform_one(self, host: Host, effect: Effect) -> None:
        match effect:
            case todo.PersistElection():
                self._persist(host, effect)
            case todo.AppendLog() | todo.TruncateLog():
                self.listener.wrote(host.node_id, effect)
                if isinstance(effect, todo.AppendLog):
                    self.invariants.appended(host.node_id, host.disk.end, effect.batches)
                    host.disk.append(effect.batches)
                    self._sync(host)
                else:
                    host.disk.truncate(effect.end_offset)
            case todo.Send():
                self._send(host, effect)
            case todo.Answer():
                self._answer(host, effect.token, effect.response)
            case todo.AnswerEntries():
                kept = [batch for batch in host.disk.batches if batch.base_offset >= effect.offset]
                batches = tuple(kept[:BATCHES_IN_ANSWER])
                self._answer(host, effect.token, attrs.evolve(effect.response, batches=batches))
            case todo.AnswerSnapshot():
                self._answer_snapshot(host, effect)
            case todo.WriteSnapshot() | todo.DiscardSnapshot():
                pass
            case todo.InstallSnapshot():
                self._install(host, effect)
            case todo.TruncatePrefix():
                host.disk.drop_prefix()
            case todo.Committed():
                self.listener.committed(host.node_id, effect.end_offset)
                self.invariants.commits(host.node_id, effect.end_offset, host.disk.history())
            case todo.RefusedEpoch() | todo.RefusedTruncation():
                raise AssertionError(f"replica {host.node_id} refuses what an honest one says: {effect}")
            case todo.RoleChanged():
                self.listener.became(host.node_id, effect)
                if effect.role is Role.LEADER:  # before its vote was durable, no other node has seen any effect of it
                    self.invariants.elected(host.node_id, effect.epoch)
                    self.invariants.leads(host.node_id, effect.epoch, host.disk.history())

    def _persist(self, host: Host, effect: todo.PersistElection) -> None:
        def done() -> None:
            host.persisting = False
            if self.votes_are_durable:
                host.disk.election = effect.state
            elif effect.state.epoch > host.disk.election.epoch:
                host.disk.election = attrs.evolve(effect.state, voted_for=None)
            self.listener.wrote(host.node_id, effect)
            self._perform(host)

        host.persisting = True
        self.at(self.sync_ms(), self._in_same_incarnation(host, done))

    def _sync(self, host: Host) -> None:
        if host.syncing:
            return
        end = host.disk.end

        def done() -> None:
            host.syncing = False
            host.disk.synced_end_offset = max(host.disk.synced_end_offset, end.offset)
            if host.disk.end_offset > end.offset:
                self._sync(host)
            self._perform(host)
            self.step(host, happened.LogSynced(end))

        host.syncing = True
        self.at(self.sync_ms(), self._in_same_incarnation(host, done))

    def _answer_snapshot(self, host: Host, effect: todo.AnswerSnapshot) -> None:
        """Hand over a snapshot as an object, in two parts, because its bytes do not matter here."""
        snapshot, request = host.disk.snapshot, effect.request
        if snapshot is None or snapshot.place != request.snapshot:
            self._answer(
                host, effect.token, FetchSnapshotResponse(effect.current_leader, error=Error.SNAPSHOT_NOT_FOUND)
            )
            return
        self.hosts[request.replica.node_id].download = snapshot
        response = FetchSnapshotResponse(effect.current_leader, SNAPSHOT_PIECES, request.position, b"x")
        self._answer(host, effect.token, response)

    def _install(self, host: Host, effect: todo.InstallSnapshot) -> None:
        def done() -> None:
            snapshot = host.download
            assert snapshot is not None
            assert snapshot.place == effect.snapshot
            host.disk.install(snapshot)
            self.listener.wrote(host.node_id, effect)
            self.step(host, happened.SnapshotInstalled(snapshot.place, snapshot.voters))

        self.at(self.sync_ms(), self._in_same_incarnation(host, done))

    # The network

    def _send(self, host: Host, effect: todo.Send) -> None:
        source, destination, request = host.node_id, effect.destination, effect.request
        target = int(effect.address) if destination < 0 else destination
        self.listener.sent(source, target, request)

        failed = self._in_incarnation(host, happened.RequestFailed(destination, request))
        token = next(self._numbers)
        self._tokens[token] = (source, destination, host.incarnation, request)
        if not self._passes(source, target):
            self.listener.lost(source, target, request)
            self._tokens.pop(token)
            self.at(REQUEST_TIMEOUT_MS, failed)
            return
        if self.hosts[target].core is None:
            self._tokens.pop(token)
            self.at(2 * self.latency_ms(), failed)
            return
        self.at(self.latency_ms(), lambda: self._deliver(source, target, token, request))

    def _deliver(self, source: int, target: int, token: int, request: Request) -> None:
        host = self.hosts[target]
        if token and token not in self._tokens:
            return  # the connection ended with the process that it led to
        if host.core is not None:
            self.step(host, happened.Received(token, request))
        elif token:
            self._fail(token)

    def _answer(self, host: Host, token: int, response: Response) -> None:
        if token == 0:
            assert isinstance(response, VoterChangeResponse)
            self.change_answers.append(response)
            self.listener.answered(host.node_id, 0, response)
            return
        source, destination, incarnation, request = self._tokens[token]
        asker = self.hosts[source]
        self.listener.answered(host.node_id, source, response)
        if not self._passes(host.node_id, source):
            self.listener.lost(host.node_id, source, response)
            self._fail(token)
            return
        del self._tokens[token]
        if asker.incarnation == incarnation:
            arrival = self._in_incarnation(asker, happened.Responded(destination, request, response))
            self.at(self.latency_ms(), arrival)

    def _fail(self, token: int, delay_ms: float = REQUEST_TIMEOUT_MS) -> None:
        source, destination, incarnation, request = self._tokens.pop(token)
        asker = self.hosts[source]
        if asker.incarnation == incarnation:
            self.at(delay_ms, self._in_incarnation(asker, happened.RequestFailed(destination, request)))

    def _passes(self, source: int, destination: int) -> bool:
        return (source, destination) not in self.cuts and self.rng.random() >= self.loss

    def _in_incarnation(self, host: Host, event: Event) -> Callable[[], None]:
        return self._in_same_incarnation(host, lambda: self.step(host, event))

    def _in_same_incarnation(self, host: Host, action: Callable[[], None]) -> Callable[[], None]:
        incarnation = host.incarnation

        def unless_crashed() -> None:
            if host.incarnation == incarnation and host.core is not None:
                action()

        return unless_crashed

    def _host(self, node_id: int, initial: VoterSet, generation: str = "") -> Host:
        disk = RaftDisk(self.voter(node_id, generation).key.directory_id)
        return Host(node_id, disk, self.chance(node_id), initial)
