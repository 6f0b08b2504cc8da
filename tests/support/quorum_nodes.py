"""Replicas in this process, over real sockets on the loopback interface and disks in memory."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import trio

from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Env
from kraft.raft_node import RaftNode, RaftNodeConfig
from kraft.recovery import format_log
from kraft.replicated_log import Batch, Leadership, NotLeader
from tests.support.directory_ids import directory_id
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/__cluster_metadata-0"
WITHIN_S = 10.0
WALL_S = 1_700_000_000.0


class RecordingStateMachine:
    """A state machine that records everything."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.snapshots = 0
        self.leaders: list[Leadership] = []
        self.resets: list[int] = []

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        self.records += [record for batch in batches for record in batch.records]

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        self.records = [record for portion in portions for record in portion]
        self.snapshots += 1

    def handle_leader_change(self, leadership: Leadership) -> None:
        self.leaders.append(leadership)

    def handle_connection_reset(self, node_id: int) -> None:
        self.resets.append(node_id)


class QuorumNode:
    """A machine, whose disk and port outlive its processes."""

    def __init__(self, node_id: int, listener: trio.SocketListener) -> None:
        self.node_id = node_id
        self.disk = VolatileDisk()
        self.directory_id = directory_id(f"dir{node_id}")
        self.cluster_id = "cluster"
        self.heard = RecordingStateMachine()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.port = listener.socket.getsockname()[1]
        self.listener: trio.SocketListener | None = listener
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._quorum: RaftNode | None = None

    @property
    def voter(self) -> Voter:
        return Voter(ReplicaKey(self.node_id, self.directory_id), f"127.0.0.1:{self.port}")

    @property
    def quorum(self) -> RaftNode:
        assert self._quorum is not None, f"node {self.node_id} is down"
        return self._quorum

    @property
    def is_up(self) -> bool:
        return self._quorum is not None

    @property
    def leads(self) -> bool:
        return self._quorum is not None and self._quorum.leadership.leader_id == self.node_id

    @property
    def leads_in_core(self) -> bool:
        """True if this node is elected. It need not have committed an entry of its epoch."""
        return self._quorum is not None and self._quorum.core.leader_state is not None

    def traced(self, kind: str) -> list[dict[str, Any]]:
        return [fields for each, fields in self.events if each == kind]

    async def run(self, plan: "Plan", *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        env = Env(self.disk, Random(self.node_id), lambda: WALL_S, self._trace)
        known = plan.configured if plan.configured.contains(self.voter.key) else VoterSet()
        others = tuple(voter.address for voter in plan.voters.voters if voter.node_id != self.node_id)
        bootstrap = () if known.voters else others
        config = QuorumConfig(self.voter.key, self.voter.address, bootstrap, 300, 600, 100, 10, 150)
        quorum = await RaftNode.open(env, DIRECTORY, RaftNodeConfig(config, self.cluster_id, known, 600))
        self.heard = RecordingStateMachine()
        quorum.register(self.heard)
        listener, self.listener = self.listener, None
        if listener is None:
            (listener,) = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self._ended, self._scope, self._quorum = trio.Event(), trio.CancelScope(), quorum
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, quorum.serve, [listener])
                nursery.start_soon(quorum.run)
                task_status.started()
        self._quorum = None
        self._ended.set()

    def wipe(self) -> None:
        """Replace the disk while the node is down."""
        self.disk, self.directory_id = VolatileDisk(), directory_id(f"dir{self.node_id}new")

    async def move(self) -> None:
        """Change the port while the node is down."""
        (self.listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = self.listener.socket.getsockname()[1]

    async def stop(self) -> None:
        self._scope.cancel()
        await self._ended.wait()

    def _trace(self, kind: str, /, **fields: object) -> None:
        self.events.append((kind, fields))


async def snapshot(node: QuorumNode) -> None:
    end_offset = node.quorum.committed_end_offset
    await node.quorum.take_snapshot(end_offset, list(node.heard.records))
    assert node.quorum.core.log.start.offset == end_offset


@attrs.frozen
class Plan:
    """`voters` are the first voters. `configured` are the voters in the configuration of unformatted nodes."""

    voters: VoterSet
    configured: VoterSet


class QuorumNodes:
    def __init__(self, nursery: trio.Nursery, nodes: Sequence[QuorumNode], plan: Plan) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.plan = plan
        self._nursery = nursery

    @property
    def voters(self) -> list[QuorumNode]:
        """The nodes that are voters at first."""
        return [self.nodes[node_id] for node_id in self.plan.voters.ids]

    async def start(self, node_id: int) -> None:
        await self._nursery.start(self.nodes[node_id].run, self.plan)

    async def until(self, done: Callable[[], bool]) -> None:
        with trio.fail_after(WITHIN_S):
            while not done():
                await trio.sleep(0.002)

    async def leader(self) -> QuorumNode:
        await self.until(lambda: any(node.leads for node in self.nodes.values()))
        leading = [node for node in self.nodes.values() if node.leads]
        return max(leading, key=lambda node: node.quorum.leadership.epoch)

    async def commit(self, *values: bytes) -> None:
        """Append at the leader. After a change of leader, wait until it is known whether the values are committed."""
        with trio.fail_after(WITHIN_S):
            while True:
                leader = await self.leader()
                quorum, epoch = leader.quorum, leader.quorum.leadership.epoch
                try:
                    await quorum.wait_committed(epoch, quorum.append(epoch, values))
                except NotLeader:
                    await self.leader()
                    if any(values[0] in node.heard.records for node in self.nodes.values()):
                        return
                else:
                    return


@asynccontextmanager
async def running_nodes(
    count: int, spares: int = 0, *, formatted: Sequence[bytes] | None = None, disks_known: bool = True
) -> AsyncIterator[QuorumNodes]:
    """Run `count` voters, and `spares` observers that know the voters' addresses.

    With `formatted`, the voters' disks are formatted with these records and with the voter set. Otherwise the voters
    come from the configuration, which need not contain directory ids.
    """
    nodes = []
    for node_id in range(1, count + spares + 1):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nodes.append(QuorumNode(node_id, listener))
    voters = VoterSet(tuple(node.voter for node in nodes[:count]))
    plan = Plan(voters, voters)
    if not disks_known:
        nameless = tuple(Voter(ReplicaKey(voter.node_id), voter.address) for voter in voters.voters)
        plan = Plan(voters, VoterSet(nameless))
    if formatted is not None:
        plan = Plan(voters, VoterSet())
        for node in nodes[:count]:
            await format_log(node.disk, DIRECTORY, voters, formatted)
    async with trio.open_nursery() as nursery:
        quorum = QuorumNodes(nursery, nodes, plan)
        for node in nodes:
            await quorum.start(node.node_id)
        yield quorum
        nursery.cancel_scope.cancel()
