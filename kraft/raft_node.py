"""A replica that runs: performs its core's effects over a disk and a network, in the one order that is safe.

What the core demands of its driver stands at the head of `kraft.core.core`. Steps are taken at once, wherever
something happens; their effects queue up and are performed one at a time, in order, so that nothing overtakes what has
to be durable first. Syncs of the log are a task of their own: one of them covers all that was appended while the one
before ran, and what is appended within one turn of the event loop is one batch.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import attrs
import trio

from kraft.bounds import RECORDS_MAX
from kraft.core import Core, Effect, Event, OffsetAndEpoch, QuorumConfig, ReplicaKey, Role, VoterSet
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core.messages import Request, Response, VoterChangeRequest, VoterChangeResponse
from kraft.description import QuorumDescription, describe
from kraft.env import Env
from kraft.handshake import hello
from kraft.inbound_requests import InboundRequests
from kraft.log import CorruptLog
from kraft.peers import Peers
from kraft.quorum_trace import QuorumTrace
from kraft.recovery import Recovered, recover
from kraft.replicated_log import Batch, Leadership, Listener, NotLeader
from kraft.rpc import FRAME_BYTES_MAX, ConnectionLost, Links, ServedConnection
from kraft.running_time import RunningTime
from kraft.state_machines import StateMachines

# Entries in one answer to a Fetch. A megabyte of the smallest batches would hold the event loop for 100 ms.
FETCH_BYTES_MAX = 1 << 17
# So that a batch fits into a frame with room to spare; a controller's largest decisions are a few megabytes.
APPEND_BYTES_MAX = FRAME_BYTES_MAX // 2
# Past a deadline by so much, that no rounding of floats makes a tick too early.
_TICK_SLACK_S = 1e-6


@attrs.frozen
class RaftNodeConfig:
    """`initial_voters` are asked until the log names voters; all voters must have been started with the same."""

    quorum: QuorumConfig
    cluster_id: str
    initial_voters: VoterSet
    # controller.quorum.request.timeout.ms
    request_timeout_ms: int = 2_000


class RaftNode:
    """Implements `kraft.replicated_log.ReplicatedLog`: this node's replica of a log that its voters agree on."""

    def __init__(self, env: Env, config: RaftNodeConfig, recovered: Recovered) -> None:
        self.node_id = config.quorum.me.node_id
        self._log, self._snapshots, self._election = recovered.log, recovered.snapshots, recovered.election
        election, log_state, voters = self._election.state, recovered.log_state, recovered.voters
        self._time = RunningTime(trio.current_time)
        core = self.core = Core(
            config.quorum, env.rng.random, election, log_state, voters, self._time.in_full_ms, env.wall
        )
        self._peers = Peers(core)
        # What the log begins with, should this replica be the first to lead; and in which epoch it last did so.
        self._bootstrap = recovered.bootstrap
        self._bootstrap_epoch = -1
        self._env = env
        self._trace = QuorumTrace(env.trace, config.quorum.me)
        self._config = config
        self._machines = StateMachines(self.node_id, core.epoch, self._trace, self._log, self._snapshots)
        self._hello = hello(config.cluster_id, config.quorum.me)
        self._links = Links(env, self, self._hello, config.request_timeout_ms / 1000)
        # Records that were appended and that the core does not know yet.
        self._staged: list[bytes] = []
        self._staged_bytes = 0
        self._effects: deque[Effect] = deque()
        self._performing = False
        self._to_perform = trio.Event()
        self._syncing = False
        self._to_sync = trio.Event()
        self._disk_in_use = trio.Lock()
        self._deadline_ms = core.deadline_ms
        self._timer = trio.CancelScope()
        self._inbound_requests = InboundRequests()

    @classmethod
    async def open(cls, env: Env, directory: str, config: RaftNodeConfig) -> "RaftNode":
        """Recover what `directory` holds, which is made if missing. Raises CorruptLog, OSError."""
        recovered = await recover(env.disk, directory, config.initial_voters, config.quorum.me)
        quorum = cls(env, config, recovered)
        quorum._trace.recovered(quorum.core, recovered, directory)
        return quorum

    @property
    def end_offset(self) -> int:
        return self.core.end_offset + len(self._staged)

    @property
    def leadership(self) -> Leadership:
        return self._machines.leadership

    @property
    def committed_end_offset(self) -> int:
        return self._machines.committed_end_offset

    @property
    def leader_address(self) -> str | None:
        """Where the leader is that the listeners were told of, "host:port"; None while they know of none."""
        current = self.core.current_leader
        if current.leader_id is None or current.leader_id != self.leadership.leader_id:
            return None
        return current.leader_address or None

    @property
    def is_majority_absent(self) -> bool:
        """Whether so many voters seem to be gone that nobody can lead. A hint; `ResetListener`s are told of changes."""
        return self._peers.prevent_majority()

    def describe(self) -> QuorumDescription:
        return describe(self.core, self._config.quorum.me, self._time.in_full_ms, int(self._env.wall() * 1000))

    def register(self, listener: Listener) -> None:
        self._machines.register(listener)

    def append(self, epoch: int, records: Sequence[bytes]) -> int:
        self._machines.check_leads(epoch)
        size = sum(map(len, records))
        assert records, "an append holds at least one record"
        assert size <= APPEND_BYTES_MAX, "an append that fits into no answer to a Fetch"
        assert len(records) <= RECORDS_MAX, "more than a batch may have"
        # A process that was stopped for a while may have lost its majority; or what is staged is enough for a batch.
        is_full = self._staged_bytes + size > APPEND_BYTES_MAX or len(self._staged) + len(records) > RECORDS_MAX
        if is_full or self._deadline_ms <= self._time.count_in_full():
            self.step(happened.Tick())
        if self.core.role is not Role.LEADER or self.core.epoch != epoch:
            raise NotLeader(f"node {self.node_id} is about to learn that it does not lead in epoch {epoch} any more")
        self._staged += records
        self._staged_bytes += size
        # Followers need not wait for a sync that runs; otherwise the next sync begins with writing what is staged.
        (self._to_perform if self._syncing else self._to_sync).set()
        return self.end_offset - 1

    async def wait_committed(self, epoch: int, offset: int) -> None:
        while not self._machines.is_committed(epoch, offset):
            await self._machines.changed()

    async def change_voters(self, request: VoterChangeRequest) -> VoterChangeResponse:
        """Add, remove or update a voter; only the leader can, others answer NOT_LEADER_OR_FOLLOWER and who it is."""
        return await self._inbound_requests.wait_response(lambda token: self.step(happened.Received(token, request)))

    async def take_snapshot(self, end_offset: int, records: Iterable[bytes]) -> None:
        """As `ReplicatedLog` has it; the leader may meanwhile send a later snapshot, which counts alone."""
        assert end_offset <= self.committed_end_offset, f"a snapshot at {end_offset} of what is not committed"
        if end_offset <= self.core.log.start.offset:
            return
        place = OffsetAndEpoch(end_offset, self.core.log.epoch_before(end_offset))
        if await self._snapshots.save(place, self.core.voters_at(end_offset), records):
            self._trace("snapshot_taken", end_offset=end_offset)
            self.step(happened.SnapshotTaken(place))

    async def leave(self, timeout_ms: float = 1_000) -> None:
        """Lead no more before this node stops.

        Who led waits until somebody else does, nobody is left who could, or `timeout_ms` have passed.
        """
        if self.core.voters.ids == (self.node_id,):
            return
        led = self.core.role is Role.LEADER
        self.step(happened.Leave())
        with trio.move_on_after(timeout_ms / 1000):
            while led and self.core.leader_id in (None, self.node_id) and not self.is_majority_absent:
                await self._machines.changed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part until cancelled. Started at once; a sole voter, once it leads.

        Raises FsyncFailed, or the OSError of a write: nobody knows then what is durable, and the process has to end.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._links.run)
                await self._machines.start()
                nursery.start_soon(self._machines.run, self._handed_over)
                nursery.start_soon(self._perform_all)
                nursery.start_soon(self._sync_all)
                nursery.start_soon(self._tick)
                self.step(happened.Tick())
                while self.core.voters.ids == (self.node_id,) and self.leadership.leader_id is None:
                    await self._machines.changed()
                task_status.started()
        finally:
            self._machines.stop()
            self._log.close()
            self._election.close()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer another node until it is gone."""
        connection = ServedConnection(stream, self._hello, self._received)
        async with stream:
            try:
                await connection.run()
            except ConnectionLost as error:
                self._trace("rpc_connection_ended", reason=str(error))
                if error.was_reset and connection.peer is not None:
                    self._lost(connection.peer.node_id, is_unknown_peer=self._peers.is_unknown_peer(connection.peer))
            finally:
                self._inbound_requests.remove_connection(connection)

    def step(self, event: Event) -> None:
        """Tell the core, and leave what it wants done to the task that performs."""
        self._take(event)
        self._to_perform.set()

    # What the links report

    def connected(self, destination: int, server: ReplicaKey) -> None:
        self._peers.connected(destination, server)

    def responded(self, destination: int, request: Request, response: Response) -> None:
        self._peers.heard(destination)
        self._step_and_perform(happened.Responded(destination, request, response))

    def request_failed(self, destination: int, request: Request) -> None:
        self._step_and_perform(happened.RequestFailed(destination, request))

    def connection_reset(self, destination: int) -> None:
        self._step_and_perform(happened.ConnectionReset(destination))
        self._lost(destination)

    def _received(self, connection: ServedConnection, correlation_id: int, request: Request) -> None:
        assert connection.peer is not None, "a request that came before the node's name"
        is_unknown_peer = self._peers.check(connection.peer)
        self.step(happened.Received(self._inbound_requests.add(connection, correlation_id), request, is_unknown_peer))

    def _lost(self, node_id: int, *, is_unknown_peer: bool = False) -> None:
        if node_id >= 0 and not is_unknown_peer:
            self._peers.lost(node_id)
        if (
            node_id >= 0
        ):  # listeners hear of unknown_peers too, as brokers are: to them it is a hint, which they look into
            self._machines.tell_of_reset(node_id)

    # Tasks

    async def _tick(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._time.clock_at(self._deadline_ms) + _TICK_SLACK_S) as self._timer:
                await trio.sleep_forever()
            self._step_and_perform(happened.Tick())

    async def _sync_all(self) -> None:
        while True:
            await self._to_sync.wait()
            self._take_staged()
            self._perform_ready()
            try:
                self._disk_in_use.acquire_nowait()  # mostly; waiting would cost a turn of the event loop
            except trio.WouldBlock:
                await self._disk_in_use.acquire()
            try:
                self._to_sync, self._syncing = trio.Event(), True
                end = OffsetAndEpoch(self._log.end_offset, self._log.epoch)
                await self._log.sync()
            finally:
                self._syncing = False
                self._disk_in_use.release()
            self._trace("log_synced", end_offset=end.offset)
            self._step_and_perform(happened.LogSynced(end))

    async def _perform_all(self) -> None:
        while True:
            await self._to_perform.wait()
            self._to_perform = trio.Event()
            self._take_staged()
            if self._performing:
                continue  # something has failed, and all of this ends with it
            self._performing = True
            while self._effects:
                await self._perform(self._effects.popleft())
            self._performing = False

    def _step_and_perform(self, event: Event) -> None:
        """As `step`, from a task of this replica's own, which saves a turn of the event loop.

        Not for state machines, which would be called back amid something, nor for acceptors: a disk's failure is ours.
        """
        self._take(event)
        self._perform_ready()

    def _take(self, event: Event) -> None:
        """Step the core and queue the effects. What was appended came before."""
        self._take_staged()
        self._effects += self.core.step(event, self._time.now_ms(self._deadline_ms))
        if (deadline_ms := self.core.deadline_ms) != self._deadline_ms:
            self._deadline_ms = deadline_ms
            self._timer.deadline = self._time.clock_at(deadline_ms) + _TICK_SLACK_S

    def _take_staged(self) -> None:
        if self._staged:
            records, self._staged, self._staged_bytes = tuple(self._staged), [], 0
            self._take(happened.Append(records, int(self._env.wall() * 1000)))

    def _perform_ready(self) -> None:
        """Do what needs no waiting, up to the first effect that does. After a failure nothing is done any more."""
        if self._performing:
            return
        self._performing = True
        while self._effects and not isinstance(self._effects[0], todo.WaitingEffect):
            self._perform_at_once(self._effects.popleft())
        self._performing = False
        if self._effects:
            self._to_perform.set()

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case todo.PersistElection():
                await self._election.save(effect.state)
                self._trace.vote_synced(effect.state)
            case todo.TruncateLog():
                await self._truncate(effect.end_offset)
            case todo.InstallSnapshot():
                await self._install_snapshot(effect.snapshot)
            case todo.DiscardSnapshot():
                await self._snapshots.discard_part(effect.snapshot)
            case todo.TruncatePrefix():
                await self._truncate_prefix(effect.snapshot)
            case _:
                self._perform_at_once(effect)

    def _perform_at_once(self, effect: Effect) -> None:
        match effect:
            case todo.AppendLog():
                self._write(effect.batches)
            case todo.Committed():
                if self._machines.commit(effect.end_offset):
                    self._handed_over(effect.end_offset)
            case todo.AnswerEntries():
                batches = self._log.read(effect.offset, self._log.end_offset, FETCH_BYTES_MAX)
                self._inbound_requests.answer(effect.token, attrs.evolve(effect.response, batches=batches))
            case todo.Send():
                self._links.send(effect.destination, effect.address, effect.request)
            case todo.Answer():
                self._inbound_requests.answer(effect.token, effect.response)
            case todo.RoleChanged():
                self._change_role(effect)
            case todo.RefusedEpoch() | todo.RefusedTruncation():
                self._trace.refused(effect)
            case todo.AnswerSnapshot():
                self._inbound_requests.answer_snapshot(effect, self._snapshots)
            case todo.WriteSnapshot():
                self._snapshots.write_part(effect.snapshot, effect.position, effect.data)
            case _:
                raise AssertionError(f"{effect} has to be waited for")

    def _write(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self._log.write(batch)
        self._trace.written(self._log.end_offset, batches)
        self._to_sync.set()

    async def _truncate(self, end_offset: int) -> None:
        async with self._disk_in_use:
            await self._log.truncate(end_offset)
        self._trace.truncated(self.core, end_offset)

    async def _install_snapshot(self, place: OffsetAndEpoch) -> None:
        """First the snapshot, then the log: recovery starts a log anew that does not reach its snapshot."""
        try:
            await self._snapshots.install(place)
        except CorruptLog as error:
            self._trace("snapshot_refused", end_offset=place.offset, epoch=place.epoch, reason=str(error))
            await self._snapshots.discard_part(place)
            self.step(happened.SnapshotRefused(place))
            return
        self._machines.skip_commits()
        async with self._disk_in_use:
            await self._log.start_at(place.offset, place.epoch, keep=False)
        await self._snapshots.remove_below(place.offset)
        voters = await self._machines.load_snapshot(place)
        self._trace.installed(place, voters)
        self.step(happened.SnapshotInstalled(place, voters))

    async def _truncate_prefix(self, place: OffsetAndEpoch) -> None:
        async with self._disk_in_use:
            await self._log.start_at(place.offset, place.epoch, keep=True)
        await self._snapshots.remove_below(place.offset)

    def _handed_over(self, end_offset: int) -> None:
        """Of its own leadership nobody hears before an entry of the epoch is committed, and so all before it."""
        leader = self.core.leader_state
        if leader is None or end_offset <= leader.start_offset:
            return
        if self._machines.has_data or not self._bootstrap:
            self._machines.announce(Leadership(self.node_id, self.core.epoch))
        elif self._bootstrap_epoch != self.core.epoch:
            self._bootstrap_epoch = self.core.epoch
            self.step(happened.Append(self._bootstrap, int(self._env.wall() * 1000)))

    def _change_role(self, change: todo.RoleChanged) -> None:
        self._trace.role(change)
        leads = change.role is Role.LEADER
        self._machines.announce(Leadership(None if leads else change.leader_id, change.epoch))
