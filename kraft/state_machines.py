"""The listeners of one replica's log, what they have been told, and those who wait for more."""

import trio

from kraft.core import OffsetAndEpoch, VoterSet
from kraft.log import DurableLog, Snapshots
from kraft.quorum_trace import QuorumTrace
from kraft.recovery import BOOTSTRAP
from kraft.replicated_log import BatchKind, Leadership, Listener, NotLeader, ResetListener, SnapshotListener

# What is handed over at a time; small enough not to hold up the loop for long.
HAND_OVER_BYTES_MAX = 1 << 20


class StateMachines:
    """`leadership` and `committed_end_offset` are what the listeners know; `has_data` whether they heard of any."""

    def __init__(self, node_id: int, epoch: int, trace: QuorumTrace, log: DurableLog, snapshots: Snapshots) -> None:
        self.leadership = Leadership(None, epoch)
        self.committed_end_offset = 0
        self.has_data = False
        self._node_id = node_id
        self._trace = trace
        self._log = log
        self._snapshots = snapshots
        self._listeners: list[Listener] = []
        self._changed = trio.Event()

    def register(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        """Load the snapshot that the log starts at. What was written when it was formatted is none."""
        if self._snapshots.latest not in (None, BOOTSTRAP):
            await self.load_snapshot(self._snapshots.latest)

    async def load_snapshot(self, place: OffsetAndEpoch) -> VoterSet:
        """The voters it names. Raises CorruptLog."""
        for listener in self._listeners:
            assert isinstance(listener, SnapshotListener), f"{listener} cannot start from a snapshot"
            await listener.handle_snapshot(place.offset, self._snapshots.open_snapshot(place).portions)
        self.committed_end_offset = place.offset
        self.has_data = True
        return self._snapshots.open_snapshot(place).voters

    def hand_over(self, end_offset: int) -> None:
        """All below is committed."""
        self._trace("committed", end_offset=end_offset)
        while self.committed_end_offset < end_offset:
            batches = self._log.read(self.committed_end_offset, end_offset, HAND_OVER_BYTES_MAX)
            data = [batch for batch in batches if batch.kind is BatchKind.DATA]
            if data:
                self.has_data = True
                for listener in self._listeners:
                    listener.handle_commit(data)
            self.committed_end_offset = batches[-1].last_offset + 1
        self.notify()

    def announce(self, leadership: Leadership) -> None:
        if leadership != self.leadership:
            self.leadership = leadership
            if leadership.leader_id == self._node_id:
                self._trace("leader", epoch=leadership.epoch)
            for listener in self._listeners:
                listener.handle_leader_change(leadership)
        self.notify()

    def tell_of_reset(self, node_id: int) -> None:
        for listener in self._listeners:
            if isinstance(listener, ResetListener):
                listener.handle_connection_reset(node_id)

    def stop(self) -> None:
        """Nobody is told of anything from now on; those who wait are, that this replica leads no more."""
        self.leadership = Leadership(None, self.leadership.epoch)
        self.notify()

    def check_leads(self, epoch: int) -> None:
        """Raises NotLeader unless the listeners know this replica as the leader in `epoch`."""
        if self.leadership.epoch != epoch or self.leadership.leader_id != self._node_id:
            raise NotLeader(f"node {self._node_id} does not lead in epoch {epoch}")

    async def changed(self) -> None:
        """Return when something was committed, or the leadership changed, after the call."""
        await self._changed.wait()

    def notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
