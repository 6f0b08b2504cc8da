"""RaftNode, the driver of a core: it performs the core's effects on a disk and a network.

`kraft.core.core` lists the obligations of a driver. The core is stepped at once on every event. Its effects are queued
and performed one at a time, in order, so that no message is sent before the state that it depends on is durable.

A separate task syncs the log. One sync covers all batches that were appended during the sync before. Records that are
appended in the same turn of the event loop become one batch.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import trio

from kraft import lazy_attrs
from kraft.bounds import RECORDS_MAX
from kraft.connecting import Connect, connect_by_tcp
from kraft.core import Core, Effect, Event, OffsetAndEpoch, QuorumConfig, ReplicaKey, Role, VoterSet, effects, events
from kraft.core.messages import Request, Response, VoterChangeRequest, VoterChangeResponse
from kraft.description import QuorumDescription, describe
from kraft.env import Env
from kraft.frames import FRAME_BYTES_MAX, PeerConnectionLost
from kraft.handshake import hello
from kraft.inbound_requests import InboundRequests
from kraft.log import CorruptLog, ReplicaFiles
from kraft.peers import Peers
from kraft.quorum_trace import QuorumTrace
from kraft.recovery import Recovered, recover
from kraft.replicated_log import Batch, Leadership, Listener, NotLeader
from kraft.rpc import Links, SendJoinRequest, ServedConnection
from kraft.running_time import RunningTime
from kraft.state_machines import StateMachines

# A batch must fit into a frame; a controller's largest batches are a few megabytes.
APPEND_BYTES_MAX = FRAME_BYTES_MAX // 2
# Timers fire this much after their deadline, so that rounding of floats does not make a tick too early.
_TICK_SLACK_S = 1e-6


@lazy_attrs.frozen
class RaftNodeConfig:
    """`initial_voters` are in effect until the log has a voter set. They must be the same for all voters."""

    quorum: QuorumConfig
    cluster_id: str
    initial_voters: VoterSet
    request_timeout_ms: int = 2_000  # controller.quorum.request.timeout.ms


class RaftNode:
    """This node's replica of the log; `connect` reaches others. Implements `kraft.replicated_log.ReplicatedLog`."""

    def __init__(self, env: Env, config: RaftNodeConfig, recovered: Recovered, connect: Connect) -> None:
        self.node_id = config.quorum.me.node_id
        self._log, self._snapshots, self._election = recovered.log, recovered.snapshots, recovered.election
        election, log_state, voters = self._election.state, recovered.log_state, recovered.voters
        self._time = RunningTime(trio.current_time)
        now_ms = self._time.count_in_full()
        core = self.core = Core(config.quorum, env.rng.random, election, log_state, voters, now_ms, env.wall)
        peers = self._peers = Peers(core)
        # The first records of a new log, which its first leader appends, and the last epoch in which this replica did.
        self._bootstrap = recovered.bootstrap
        self._bootstrap_epoch = -1
        self._env = env
        trace = self._trace = QuorumTrace(env.trace, config.quorum.me)
        self._config = config
        self._machines = StateMachines(self.node_id, core.epoch, trace, self._log, self._snapshots, peers)
        self._hello = hello(config.cluster_id, config.quorum.me)
        self._links = Links(env, self, self._hello, config.request_timeout_ms / 1000, connect)
        # Records that were appended, and that have not been passed to the core yet.
        self._staged: list[bytes] = []
        self._staged_bytes = 0
        self._effects: deque[Effect] = deque()
        self._performing = self._syncing = False
        self._to_perform, self._to_sync = trio.Event(), trio.Event()
        self._disk_in_use = trio.Lock()
        self._deadline_ms = core.deadline_ms
        self._timer = trio.CancelScope()
        self._inbound_requests = InboundRequests()
        self.files = ReplicaFiles(env.disk, recovered.log, recovered.snapshots, recovered.election)

    @classmethod
    async def open(
        cls, env: Env, directory: str, config: RaftNodeConfig, connect: Connect = connect_by_tcp
    ) -> "RaftNode":
        """Recover the replica in `directory`, which is created if it is missing. Raises CorruptLog, OSError."""
        recovered = await recover(env.disk, directory, config.initial_voters, config.quorum)
        quorum = cls(env, config, recovered, connect)
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
        """The "host:port" of the leader that was announced to the listeners; None without one."""
        announced, current = self.leadership.leader_id, self.core.current_leader
        return (current.leader_address or None) if announced is not None and announced == current.leader_id else None

    @property
    def is_majority_absent(self) -> bool:
        """True if too many voters seem to be gone for a leader to be elected: a hint. See also `ResetListener`."""
        return self._peers.is_majority_absent()

    def describe(self) -> QuorumDescription:
        return describe(self.core, self._config.quorum.me, self._time.in_full_ms, int(self._env.wall() * 1000))

    def join_by(self, send: SendJoinRequest) -> None:
        """Send the requests by which this replica adds itself to the voters through `send`."""
        self._links.send_join_request = send

    def register(self, listener: Listener) -> None:
        self._machines.register(listener)

    def append(self, epoch: int, records: Sequence[bytes]) -> int:
        self._machines.check_leads(epoch)
        size = sum(map(len, records))
        assert records, "an append holds at least one record"
        assert size <= APPEND_BYTES_MAX, "an append that is too large for a response to a Fetch"
        assert len(records) <= RECORDS_MAX, "an append with more records than a batch may have"
        # Step the core first if the staged records fill a batch, or if a deadline has passed: a process that was
        # suspended may have lost its majority.
        is_full = self._staged_bytes + size > APPEND_BYTES_MAX or len(self._staged) + len(records) > RECORDS_MAX
        if is_full or self._deadline_ms <= self._time.count_in_full():
            self.step(events.Tick())
        if self.core.role is not Role.LEADER or self.core.epoch != epoch:
            raise NotLeader(f"node {self.node_id} no longer leads in epoch {epoch}")
        self._staged += records
        self._staged_bytes += size
        # During a sync, write the records at once, so that followers can fetch them. Else the next sync writes them.
        (self._to_perform if self._syncing else self._to_sync).set()
        return self.end_offset - 1

    async def wait_committed(self, epoch: int, offset: int) -> None:
        while not self._machines.is_committed(epoch, offset):
            await self._machines.changed()

    async def change_voters(self, request: VoterChangeRequest) -> VoterChangeResponse:
        """Add, remove or update a voter. Other replicas than the leader answer with NOT_LEADER_OR_FOLLOWER."""
        return await self._inbound_requests.wait_response(lambda token: self.step(events.Received(token, request)))

    async def take_snapshot(self, end_offset: int, records: Iterable[bytes]) -> None:
        """See `ReplicatedLog`. The snapshot is discarded if a later one is fetched from the leader meanwhile."""
        assert end_offset <= self.committed_end_offset, f"a snapshot at {end_offset} of entries that are not committed"
        start = self.core.log.start.offset
        if end_offset < start or (end_offset == start and not self._snapshots.is_damaged):
            return
        place = OffsetAndEpoch(end_offset, self.core.log.epoch_before(end_offset))
        if await self._snapshots.save(place, self.core.voters_at(end_offset), records):
            self._trace("snapshot_taken", end_offset=end_offset)
            self.step(events.SnapshotTaken(place))

    async def leave(self, timeout_ms: float = 1_000) -> None:
        """Resign before this node stops. A leader waits for its successor, unless a majority seems gone."""
        if self.core.voters.ids == (self.node_id,):
            return
        led = self.core.role is Role.LEADER
        self.step(events.Leave())
        with trio.move_on_after(timeout_ms / 1000):
            while led and self.core.leader_id in (None, self.node_id) and not self.is_majority_absent:
                await self._machines.changed()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the replica until cancelled. It counts as started at once, or, for a sole voter, once it leads.

        Raises FsyncFailed, or OSError for a failed write. The durable state is unknown then, so the process has to end.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._links.run)
                await self._machines.start()
                nursery.start_soon(self._machines.run, self._handed_over)
                nursery.start_soon(self._perform_all)
                nursery.start_soon(self._sync_all)
                nursery.start_soon(self._tick)
                self.step(events.Tick())
                while self.core.voters.ids == (self.node_id,) and self.leadership.leader_id is None:
                    await self._machines.changed()
                task_status.started()
        finally:
            self._machines.stop()
            self._log.close()
            self._election.close()

    async def serve(self, stream: trio.abc.Stream, refusal: str = "") -> None:
        """Serve the connection of another node until it ends. With a `refusal`, only tell it this reason."""
        connection = ServedConnection(stream, self._hello, self._received, refusal)
        async with stream:
            try:
                await connection.run()
            except PeerConnectionLost as error:
                self._trace("rpc_connection_ended", reason=str(error))
                if error.was_reset and connection.peer is not None:
                    self._lost(connection.peer.node_id, is_unknown_peer=self._peers.is_unknown_peer(connection.peer))
            finally:
                self._inbound_requests.remove_connection(connection)

    def step(self, event: Event) -> None:
        """Step the core, and leave its effects to the task that performs them."""
        self._take(event)
        self._to_perform.set()

    # Events of connections

    def connected(self, destination: int, server: ReplicaKey) -> None:
        self._peers.connected(destination, server)

    def responded(self, destination: int, request: Request, response: Response) -> None:
        self._peers.heard(destination)
        self._step_and_perform(events.Responded(destination, request, response))

    def request_failed(self, destination: int, request: Request) -> None:
        self._step_and_perform(events.RequestFailed(destination, request))

    def connection_reset(self, destination: int) -> None:
        self._step_and_perform(events.ConnectionReset(destination))
        self._lost(destination)

    def _received(self, connection: ServedConnection, correlation_id: int, request: Request) -> None:
        assert connection.peer is not None, "a request before the hello"
        is_unknown_peer = self._peers.check_sender(connection.peer)
        self.step(events.Received(self._inbound_requests.add(connection, correlation_id), request, is_unknown_peer))

    def _lost(self, node_id: int, *, is_unknown_peer: bool = False) -> None:
        if node_id >= 0 and not is_unknown_peer:
            self._peers.lost(node_id)
        if node_id >= 0:  # brokers are unknown peers, too: listeners take this as a hint, and verify it
            self._machines.notify_connection_reset(node_id)

    # Tasks

    async def _tick(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._time.clock_at(self._deadline_ms) + _TICK_SLACK_S) as self._timer:
                await trio.sleep_forever()
            self._step_and_perform(events.Tick())

    async def _sync_all(self) -> None:
        while True:
            await self._to_sync.wait()
            self._take_staged()
            self._perform_ready()
            try:
                self._disk_in_use.acquire_nowait()  # succeeds mostly, and saves a turn of the event loop
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
            self._step_and_perform(events.LogSynced(end))

    async def _perform_all(self) -> None:
        while True:
            await self._to_perform.wait()
            self._to_perform = trio.Event()
            self._take_staged()
            if self._performing:
                continue  # an effect has failed, and the replica is about to end
            self._performing = True
            while self._effects:
                await self._perform(self._effects.popleft())
            self._performing = False

    def _step_and_perform(self, event: Event) -> None:
        """Like `step`, but performs the effects at once, which saves a turn of the event loop.

        Only for this replica's own tasks: other callers could be called back, or get a failed write's exception.
        """
        self._take(event)
        self._perform_ready()

    def _take(self, event: Event) -> None:
        """Pass the staged records to the core, step it, and queue the effects."""
        self._take_staged()
        self._effects += self.core.step(event, self._time.now_ms(self._deadline_ms))
        if (deadline_ms := self.core.deadline_ms) != self._deadline_ms:
            self._deadline_ms = deadline_ms
            self._timer.deadline = self._time.clock_at(deadline_ms) + _TICK_SLACK_S

    def _take_staged(self) -> None:
        if self._staged:
            records, self._staged, self._staged_bytes = tuple(self._staged), [], 0
            self._take(events.Append(records, int(self._env.wall() * 1000)))

    def _perform_ready(self) -> None:
        """Perform the effects up to the first one that waits for the disk. After a failure, perform none."""
        if self._performing:
            return
        self._performing = True
        while self._effects and not isinstance(self._effects[0], effects.WaitingEffect):
            self._perform_at_once(self._effects.popleft())
        self._performing = False
        if self._effects:
            self._to_perform.set()

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case effects.PersistElection():
                await self._election.save(effect.state)
                self._trace.vote_synced(effect.state)
            case effects.TruncateLog():
                await self._truncate(effect.end_offset)
            case effects.InstallSnapshot():
                await self._install_snapshot(effect.snapshot)
            case effects.DiscardSnapshot():
                await self._snapshots.discard_part(effect.snapshot)
            case effects.TruncatePrefix():
                await self._truncate_prefix(effect.snapshot)
            case _:
                self._perform_at_once(effect)

    def _perform_at_once(self, effect: Effect) -> None:
        match effect:
            case effects.AppendLog():
                self._write(effect.batches)
            case effects.Committed():
                if self._machines.commit(effect.end_offset):
                    self._handed_over(effect.end_offset)
            case effects.AnswerEntries():
                self._inbound_requests.answer_entries(effect, self._log, self.files, self._trace)
            case effects.Send():
                self._links.send(effect.destination, effect.address, effect.request)
            case effects.Answer():
                self._inbound_requests.answer(effect.token, effect.response)
            case effects.RoleChanged():
                self._change_role(effect)
            case effects.RefusedEpoch() | effects.RefusedTruncation():
                self._trace.refused(effect)
            case effects.AnswerSnapshot():
                self._inbound_requests.answer_snapshot(effect, self._snapshots, self.files)
            case effects.WriteSnapshot():
                self._snapshots.write_part(effect.snapshot, effect.position, effect.data)
            case _:
                raise AssertionError(f"{effect} waits for the disk")

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
        """Install the snapshot, then empty the log. After a crash in between, recovery empties the log."""
        try:
            await self._snapshots.install(place)
        except CorruptLog as error:
            self._trace("snapshot_refused", end_offset=place.offset, epoch=place.epoch, reason=str(error))
            await self._snapshots.discard_part(place)
            self.step(events.SnapshotRefused(place))
            return
        self._machines.skip_commits()
        async with self._disk_in_use:
            await self._log.start_at(place.offset, place.epoch, keep=False)
        await self._snapshots.remove_below(place.offset)
        voters = await self._machines.load_snapshot(place)
        self._trace.installed(place, voters)
        self.step(events.SnapshotInstalled(place, voters))

    async def _truncate_prefix(self, place: OffsetAndEpoch) -> None:
        async with self._disk_in_use:
            await self._log.start_at(place.offset, place.epoch, keep=True)
        await self._snapshots.remove_below(place.offset)

    def _handed_over(self, end_offset: int) -> None:
        """Announce this replica's leadership once an entry of its epoch is committed.

        By then all earlier entries are handed over, too. In a new log, the leader first appends the bootstrap records.
        """
        leader = self.core.leader_state
        if leader is None or end_offset <= leader.start_offset:
            return
        if self._machines.has_data or not self._bootstrap:
            self._machines.announce(Leadership(self.node_id, self.core.epoch))
        elif self._bootstrap_epoch != self.core.epoch:
            self._bootstrap_epoch = self.core.epoch
            self.step(events.Append(self._bootstrap, int(self._env.wall() * 1000)))

    def _change_role(self, change: effects.RoleChanged) -> None:
        self._trace.role(change)
        self._machines.announce(Leadership(None if change.role is Role.LEADER else change.leader_id, change.epoch))
