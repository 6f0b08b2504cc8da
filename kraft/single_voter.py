"""A replicated log with one voter: a majority of one, so what is durable here is committed."""

from collections.abc import Sequence

import trio

from kraft.env import Env
from kraft.log import DurableLog
from kraft.replicated_log import Batch, Leadership, Listener, NotLeader


class SingleVoter:
    """Implements `kraft.replicated_log.ReplicatedLog`.

    Appends that arrive while a sync runs share the next one, as one batch (group commit), so the rate of commits does
    not depend on the speed of the disk's flushes alone. Its epoch is one higher than that of its last entry.
    """

    def __init__(self, env: Env, node_id: int, log: DurableLog, recovered: list[Batch]) -> None:
        self.node_id = node_id
        self.leadership = Leadership(None, log.epoch)
        self.committed_end_offset = 0
        self._env = env
        self._log = log
        self._recovered = recovered
        self._listeners: list[Listener] = []
        self._staged: list[bytes] = []
        self._work = trio.Event()
        self._committed = trio.Event()

    @classmethod
    async def open(cls, env: Env, directory: str, node_id: int) -> "SingleVoter":
        """Recover the log in `directory`. Raises CorruptLog, OSError."""
        log, recovered = await DurableLog.open(env.disk, directory)
        env.trace("log_recovered", node=node_id, end_offset=log.end_offset, epoch=log.epoch)
        return cls(env, node_id, log, recovered)

    @property
    def end_offset(self) -> int:
        return self._log.end_offset + len(self._staged)

    def register(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def append(self, epoch: int, records: Sequence[bytes]) -> int:
        self._check_leads(epoch)
        assert records, "an append holds at least one record"
        self._staged.extend(records)
        self._work.set()
        return self.end_offset - 1

    async def wait_committed(self, epoch: int, offset: int) -> None:
        self._check_leads(epoch)
        while self.committed_end_offset <= offset:
            await self._committed.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hand over what was recovered, lead, and commit until cancelled. Started once it leads.

        Raises FsyncFailed, or the OSError of a write: nobody knows then what is durable, and the process has to end.
        """
        try:
            self._lead()
            task_status.started()
            while True:
                await self._work.wait()
                await self._commit_staged()
        finally:
            self.leadership = Leadership(None, self.leadership.epoch)
            self._log.close()

    def _lead(self) -> None:
        recovered, self._recovered = self._recovered, []
        self._hand_over(recovered)
        self.leadership = Leadership(self.node_id, self._log.epoch + 1)
        self._env.trace("leader", node=self.node_id, epoch=self.leadership.epoch)
        for listener in self._listeners:
            listener.handle_leader_change(self.leadership)

    async def _commit_staged(self) -> None:
        records, self._staged = tuple(self._staged), []
        self._work = trio.Event()
        batch = Batch(self._log.end_offset, self.leadership.epoch, int(self._env.wall() * 1000), records)
        self._log.write(batch)
        self._env.trace("log_written", node=self.node_id, end_offset=self._log.end_offset)
        await self._log.sync()
        self._env.trace("log_synced", node=self.node_id, end_offset=batch.last_offset + 1)
        self._hand_over([batch])

    def _hand_over(self, batches: list[Batch]) -> None:
        if batches:
            for listener in self._listeners:
                listener.handle_commit(batches)
            self.committed_end_offset = batches[-1].last_offset + 1
        committed, self._committed = self._committed, trio.Event()
        committed.set()

    def _check_leads(self, epoch: int) -> None:
        if self.leadership != Leadership(self.node_id, epoch):
            raise NotLeader(f"node {self.node_id} does not lead in epoch {epoch}")
