"""The listeners of one replica's log, what they have been told, and those who wait for more."""

from collections import deque
from collections.abc import Callable

import trio

from kraft.core import OffsetAndEpoch, VoterSet
from kraft.log import DurableLog, Snapshots
from kraft.quorum_trace import QuorumTrace
from kraft.recovery import BOOTSTRAP
from kraft.replicated_log import BatchKind, Leadership, Listener, NotLeader, ResetListener, SnapshotListener

# What is handed over at a time, unless a single batch is larger: what a state machine applies in about 6 ms.
HAND_OVER_BYTES_MAX = 1 << 16


class StateMachines:
    """`leadership` and `committed_end_offset` are what the listeners know; `has_data` whether they heard of any.

    What is committed is handed over at once where it is little. Where it is much, after a start or by one that catches
    up, `run` goes on with it a slice at a time, and all news that come meanwhile wait behind.
    """

    def __init__(self, node_id: int, epoch: int, trace: QuorumTrace, log: DurableLog, snapshots: Snapshots) -> None:
        self.leadership = Leadership(None, epoch)
        self.committed_end_offset = 0
        self.has_data = False
        # The last epoch in which this replica led, and up to where entries were committed until it ceased to.
        self._led_until = (-1, 0)
        self._node_id = node_id
        self._trace = trace
        self._log = log
        self._snapshots = snapshots
        self._listeners: list[Listener] = []
        self._changed = trio.Event()
        # In the order in which they came: ends of what is committed, and announcements.
        self._due: deque[int | Leadership] = deque()
        self._overdue = trio.Event()

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

    async def run(self, handed_over: Callable[[int], None]) -> None:
        """Go on with what was too much to be done at once; `handed_over` hears how far, when an end is reached."""
        while True:
            await self._overdue.wait()
            self._overdue = trio.Event()
            while self._due:
                self._proceed(handed_over)
                await trio.lowlevel.checkpoint()

    def commit(self, end_offset: int) -> bool:
        """All below is committed. Whether it has been handed over; if not, `run` will."""
        self._trace("committed", end_offset=end_offset)
        if not self._due and self._hand_over(end_offset):
            return True
        if self._due and isinstance(self._due[-1], int):
            self._due[-1] = end_offset
        else:
            self._due.append(end_offset)
        self._overdue.set()
        return False

    def announce(self, leadership: Leadership) -> None:
        """Behind all that was committed before."""
        if self._due:
            self._due.append(leadership)
        else:
            self._announce(leadership)

    def skip_commits(self) -> None:
        """A snapshot is about to take the place of what was not handed over yet."""
        due, self._due = self._due, deque()
        for news in due:
            if isinstance(news, Leadership):
                self._announce(news)

    def tell_of_reset(self, node_id: int) -> None:
        for listener in self._listeners:
            if isinstance(listener, ResetListener):
                listener.handle_connection_reset(node_id)
        self.notify()

    def stop(self) -> None:
        """Nobody is told of anything from now on; those who wait are, that this replica leads no more."""
        self._succeed(Leadership(None, self.leadership.epoch))
        self.notify()

    def is_committed(self, epoch: int, offset: int) -> bool:
        """Whether the entry at `offset`, which this replica appended in `epoch`, is committed.

        An entry that was committed stays so when the leadership ends, perhaps by that very commit: a leader that is
        removed from the voters resigns then. Raises NotLeader for one that was not committed until the end.
        """
        led_epoch, end_offset = self._led_until
        if led_epoch == epoch and offset < end_offset:
            return True
        self.check_leads(epoch)
        return offset < self.committed_end_offset

    def check_leads(self, epoch: int) -> None:
        """Raises NotLeader unless the listeners know this replica as the leader in `epoch`."""
        if self.leadership.epoch != epoch or self.leadership.leader_id != self._node_id:
            raise NotLeader(f"node {self._node_id} does not lead in epoch {epoch}")

    async def changed(self) -> None:
        """Return when something was committed, the leadership changed, or a connection was reset, after the call."""
        await self._changed.wait()

    def notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _succeed(self, leadership: Leadership) -> None:
        if self.leadership.leader_id == self._node_id:
            self._led_until = (self.leadership.epoch, self.committed_end_offset)
        self.leadership = leadership

    def _proceed(self, handed_over: Callable[[int], None]) -> None:
        """One slice, or one announcement."""
        news = self._due[0]
        if isinstance(news, Leadership):
            self._due.popleft()
            self._announce(news)
        elif self._hand_over(news):
            self._due.popleft()
            handed_over(news)

    def _hand_over(self, end_offset: int) -> bool:
        """The next slice; whether that was all."""
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
            self._succeed(leadership)
            if leadership.leader_id == self._node_id:
                self._trace("leader_elected", epoch=leadership.epoch)
            for listener in self._listeners:
                listener.handle_leader_change(leadership)
        self.notify()
