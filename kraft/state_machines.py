"""The listeners of one replica's log: committed batches and leader changes are handed over to them in order."""

from collections import deque
from collections.abc import Callable

import trio

from kraft.core import OffsetAndEpoch, VoterSet
from kraft.log import DurableLog, Snapshots
from kraft.peers import Peers
from kraft.quorum_trace import QuorumTrace
from kraft.recovery import BOOTSTRAP
from kraft.replicated_log import BatchKind, Leadership, Listener, NotLeader, ResetListener, SnapshotListener

# Bytes of batches that are handed over at a time, or one larger batch. A state machine applies them in about 6 ms.
HAND_OVER_BYTES_MAX = 1 << 16


class StateMachines:
    """`leadership` and `committed_end_offset` are the values last handed over to the listeners.

    Few committed batches are handed over at once. Many batches, as after a start or while a follower catches up, are
    handed over by `run`, a slice at a time, and later commits and announcements wait until that is done. `has_data` is
    True once a batch of the state machine or a snapshot has been handed over.
    """

    def __init__(
        self,
        node_id: int,
        epoch: int,
        trace: QuorumTrace,
        log: DurableLog,
        snapshots: Snapshots,
        peers: Peers,
    ) -> None:
        self.leadership = Leadership(None, epoch)
        self.committed_end_offset = 0
        self.has_data = False
        # The last epoch in which this replica led, and the end of the committed entries when it stopped leading.
        self._led_until = (-1, 0)
        self._node_id = node_id
        self._trace = trace
        self._log = log
        self._snapshots = snapshots
        self._peers = peers
        self._listeners: list[Listener] = []
        self._changed = trio.Event()
        # Ends of committed entries, and leaderships to announce, in the order in which they were reported.
        self._pending: deque[int | Leadership] = deque()
        self._has_pending = trio.Event()

    def register(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def start(self) -> None:
        """Load the snapshot at the start of the log, unless it is the bootstrap snapshot."""
        if self._snapshots.latest not in (None, BOOTSTRAP):
            await self.load_snapshot(self._snapshots.latest)

    async def load_snapshot(self, place: OffsetAndEpoch) -> VoterSet:
        """Hand over the snapshot at `place`, and return its voters. Raises CorruptLog."""
        for listener in self._listeners:
            assert isinstance(listener, SnapshotListener), f"{listener} cannot start from a snapshot"
            await listener.handle_snapshot(place.offset, self._snapshots.open_snapshot(place).portions)
        self.committed_end_offset = place.offset
        self.has_data = True
        return self._snapshots.open_snapshot(place).voters

    async def run(self, handed_over: Callable[[int], None]) -> None:
        """Hand over what `commit` has left. `handed_over` is called with each end offset that is reached."""
        while True:
            await self._has_pending.wait()
            self._has_pending = trio.Event()
            while self._pending:
                self._hand_over_next(handed_over)
                await trio.lowlevel.checkpoint()

    def commit(self, end_offset: int) -> bool:
        """Hand over the entries below `end_offset`. Returns False if some are left to `run`."""
        self._trace("committed", end_offset=end_offset)
        if not self._pending and self._hand_over(end_offset):
            return True
        if self._pending and isinstance(self._pending[-1], int):
            self._pending[-1] = end_offset
        else:
            self._pending.append(end_offset)
        self._has_pending.set()
        return False

    def announce(self, leadership: Leadership) -> None:
        """Announce a leader change after all entries that were committed before."""
        if self._pending:
            self._pending.append(leadership)
        else:
            self._announce(leadership)

    def skip_commits(self) -> None:
        """Skip the committed entries that have not been handed over: a snapshot is about to replace them."""
        due, self._pending = self._pending, deque()
        for news in due:
            if isinstance(news, Leadership):
                self._announce(news)

    def notify_connection_reset(self, node_id: int) -> None:
        for listener in self._listeners:
            if isinstance(listener, ResetListener):
                listener.handle_connection_reset(node_id)
        self.notify()

    def stop(self) -> None:
        """Stop leading without an announcement. Tasks in `wait_committed` get NotLeader."""
        self._set_leadership(Leadership(None, self.leadership.epoch))
        self.notify()

    def is_committed(self, epoch: int, offset: int) -> bool:
        """True if the entry at `offset`, which this replica appended in `epoch`, is committed.

        Also True after this replica stopped leading, if the entry was committed before. The commit itself may end the
        leadership: a leader that is removed from the voters resigns after it has committed its removal. Raises
        NotLeader if the entry was not committed before the leadership ended.
        """
        led_epoch, end_offset = self._led_until
        if led_epoch == epoch and offset < end_offset:
            return True
        self.check_leads(epoch)
        return offset < self.committed_end_offset

    def check_leads(self, epoch: int) -> None:
        """Raises NotLeader unless this replica was announced to the listeners as the leader in `epoch`."""
        if self.leadership.epoch != epoch or self.leadership.leader_id != self._node_id:
            raise NotLeader(f"node {self._node_id} does not lead in epoch {epoch}")

    async def changed(self) -> None:
        """Wait for the next commit, leader change or reset connection."""
        await self._changed.wait()

    def notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _set_leadership(self, leadership: Leadership) -> None:
        if self.leadership.leader_id == self._node_id:
            self._led_until = (self.leadership.epoch, self.committed_end_offset)
        self.leadership = leadership

    def _hand_over_next(self, handed_over: Callable[[int], None]) -> None:
        """Hand over one slice, or announce one leader change."""
        news = self._pending[0]
        if isinstance(news, Leadership):
            self._pending.popleft()
            self._announce(news)
        elif self._hand_over(news):
            self._pending.popleft()
            handed_over(news)

    def _hand_over(self, end_offset: int) -> bool:
        """Hand over the next slice. Returns True if `end_offset` is reached."""
        batches = self._log.read(self.committed_end_offset, end_offset, HAND_OVER_BYTES_MAX)
        data = [batch for batch in batches if batch.kind is BatchKind.DATA]
        if data:
            self.has_data = True
            for listener in self._listeners:
                listener.handle_commit(data)
        if batches:
            self.committed_end_offset = batches[-1].last_offset + 1
            self.notify()
        return self.committed_end_offset >= end_offset

    def _announce(self, leadership: Leadership) -> None:
        if leadership != self.leadership:
            self._set_leadership(leadership)
            if leadership.leader_id == self._node_id:
                self._trace.elected(leadership.epoch)
            for listener in self._listeners:
                listener.handle_leader_change(leadership)
            if leadership.leader_id == self._node_id:
                self._repeat_resets()
        self.notify()

    def _repeat_resets(self) -> None:
        """Notify the listeners of the connections that broke before this replica led.

        They are those of the former leader, most likely. The listeners of a follower ignore resets, and the next
        attempt to connect to a voter that is down may be a second away.
        """
        for node_id in self._peers.recently_lost():
            self.notify_connection_reset(node_id)
