"""A small process around one replica of a Raft log: a dictionary, and a port where clients read and write it.

It is the smallest program that uses every feature of `RaftNode`, so that Raft can be tested alone and fast.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import msgpack
import trio

from jepsen.workloads.registers import OK, REFUSED, UNKNOWN
from kraft.core import Voter
from kraft.core.joining import JoinRequest
from kraft.core.messages import AddVoterRequest, CurrentLeader, Error, RemoveVoterRequest, VoterChangeResponse
from kraft.core.voters import ReplicaKey
from kraft.env import Env, FsyncFailed
from kraft.frames import Frames, PeerConnectionLost
from kraft.raft_node import RaftNode, RaftNodeConfig
from kraft.replicated_log import Batch, Leadership, NotLeader

DIRECTORY: Final = "/log-0"
RAFT_PORT: Final = 9093
CLIENT_PORT: Final = 9092
CHANGE_TIMEOUT_MS: Final = 2_000
_LEAVE_TIMEOUT_MS: Final = 500


class Registers:
    """The state machine. `results` has the results of the commands whose offsets a caller has registered."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.results: dict[int, object] = {}
        self.leadership = Leadership(None, 0)

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            for at, record in enumerate(batch.records):
                result = self._apply(*msgpack.unpackb(record))
                if batch.base_offset + at in self.results:
                    self.results[batch.base_offset + at] = result

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        self.values = dict(msgpack.unpackb(record) for portion in portions for record in portion)

    def handle_leader_change(self, leadership: Leadership) -> None:
        self.leadership = leadership

    def records(self) -> list[bytes]:
        return [msgpack.packb(item) for item in self.values.items()]

    def _apply(self, function: str, key: str, value: object = None, expected: object = None) -> object:
        found = self.values.get(key)
        if function == "write" or (function == "cas" and found == expected):
            self.values[key] = value
        return found if function != "write" else None


@attrs.frozen
class RegisterNodeConfig:
    """`snapshot_seconds` is the mean time between two snapshots."""

    driver: RaftNodeConfig
    host: str
    snapshot_seconds: float


class RegisterNode:
    """A `jepsen.simulation.hosts.Process`. Raises what `RaftNode` raises."""

    def __init__(self, env: Env, config: RegisterNodeConfig) -> None:
        self._env = env
        self._config = config
        self._registers = Registers()
        self._stop = trio.Event()
        self._quorum: RaftNode | None = None

    @property
    def quorum(self) -> RaftNode:
        assert self._quorum is not None, "the log is open while the process runs"
        return self._quorum

    def stop(self) -> None:
        self._stop.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._quorum = await RaftNode.open(self._env, DIRECTORY, self._config.driver)
        self._quorum.register(self._registers)
        self._quorum.join_by(self._request_to_join)
        async with trio.open_nursery() as nursery:
            await nursery.start(self._listen, self._quorum.serve, RAFT_PORT)
            await nursery.start(self._quorum.run)
            await nursery.start(self._listen, self._answer, CLIENT_PORT)
            nursery.start_soon(self._take_snapshots)
            task_status.started()
            await self._stop.wait()
            await self._quorum.leave(_LEAVE_TIMEOUT_MS)
            nursery.cancel_scope.cancel()

    async def _listen(self, handler: Any, port: int, *, task_status: trio.TaskStatus[object]) -> None:
        await trio.serve_tcp(handler, port, host=self._config.host, task_status=task_status)

    async def _take_snapshots(self) -> None:
        while True:
            await trio.sleep(self._env.rng.expovariate(1 / self._config.snapshot_seconds))
            try:
                await self.quorum.take_snapshot(self.quorum.committed_end_offset, self._registers.records())
            except FsyncFailed:
                raise
            except OSError as error:
                self._env.trace("snapshot_failed", error=str(error))

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with stream:
            frames = Frames(stream)
            try:
                while True:
                    question = msgpack.unpackb(await frames.receive())
                    await frames.send(msgpack.packb(await self._do(question)))
            except PeerConnectionLost:
                return

    async def _do(self, question: list[Any]) -> tuple[str, object]:
        match question:
            case ["status", _]:
                quorum = self.quorum
                state = sorted(self._registers.values.items())
                return OK, (quorum.committed_end_offset, quorum.core.voters.ids, quorum.leadership.leader_id, state)
            case ["add-voter" | "remove-voter", _, _, _, _, give_up] if trio.current_time() > give_up:
                return REFUSED, "too late"
            case ["add-voter", _, node_id, directory_id, address, _]:
                voter = Voter(ReplicaKey(node_id, directory_id), address)
                return await self._change_voters(AddVoterRequest(voter, CHANGE_TIMEOUT_MS))
            case ["remove-voter", _, node_id, directory_id, _, _]:
                key = ReplicaKey(node_id, directory_id)
                return await self._change_voters(RemoveVoterRequest(key, CHANGE_TIMEOUT_MS))
            case ["join", _, node_id, directory_id, address]:
                voter = Voter(ReplicaKey(node_id, directory_id), address)
                return await self._change_voters(AddVoterRequest(voter, CHANGE_TIMEOUT_MS, ack_when_committed=False))
            case ["leave", _, node_id, directory_id, _]:
                key = ReplicaKey(node_id, directory_id)
                return await self._change_voters(RemoveVoterRequest(key, CHANGE_TIMEOUT_MS))
        return await self._commit(question)

    async def _commit(self, command: list[object]) -> tuple[str, object]:
        leadership, quorum = self._registers.leadership, self.quorum
        if leadership.leader_id != quorum.node_id:
            return REFUSED, "not the leader"
        try:
            offset = quorum.append(leadership.epoch, [msgpack.packb(command)])
        except NotLeader as error:
            return REFUSED, str(error)
        self._registers.results[offset] = None
        try:
            await quorum.wait_committed(leadership.epoch, offset)
            return OK, self._registers.results[offset]
        except NotLeader as error:
            return UNKNOWN, str(error)
        finally:
            del self._registers.results[offset]

    async def _request_to_join(self, leader_address: str, request: JoinRequest) -> VoterChangeResponse | None:
        """Send the request to the port for clients of the leader's host, as an administrator would."""
        if isinstance(request, AddVoterRequest):
            question = ["join", "", *attrs.astuple(request.voter.key), request.voter.address]
        else:
            question = ["leave", "", *attrs.astuple(request.key), ""]
        try:
            stream = await trio.open_tcp_stream(leader_address.partition(":")[0], CLIENT_PORT)
            async with stream:
                frames = Frames(stream)
                await frames.send(msgpack.packb(question))
                _, error = msgpack.unpackb(await frames.receive())
        except (OSError, PeerConnectionLost):
            return None
        return VoterChangeResponse(CurrentLeader(0), Error(error))

    async def _change_voters(self, request: AddVoterRequest | RemoveVoterRequest) -> tuple[str, object]:
        response = await self.quorum.change_voters(request)
        return (OK if response.error is Error.NONE else REFUSED), response.error.value
