"""The opening of a connection: SYN, its response or its loss, and the retries."""

import errno
import os

import trio

from jepsen.simulation.hosts import Host
from jepsen.simulation.network.network import Network
from jepsen.simulation.network.pipe import Endpoint

# As in Linux, the first SYN is repeated after a second, and the time doubles with each retry.
RETRY_SECONDS = 1.0
RETRIES_MAX = 6


class Handshake:
    """One attempt of a socket to connect. The server's kernel responds, even while its process is paused."""

    def __init__(self, network: Network, socket: Endpoint, address: tuple[str, int]) -> None:
        self._network = network
        self._socket = socket
        self._address = address
        self._target = network.host_at(address[0])
        self._task: trio.lowlevel.Task | None = None
        self._error = 0
        if socket.address is None:
            socket.address = (socket.host.address, network.next_port())

    async def run(self) -> None:
        """Connect. Raises OSError: ECONNREFUSED, ETIMEDOUT."""
        self._task = trio.lowlevel.current_task()
        self._send_syn(0)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        if self._error:
            raise OSError(self._error, os.strerror(self._error))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self._socket.close()  # as Trio does: a socket cannot be used after a failed connect
        return trio.lowlevel.Abort.SUCCEEDED

    def _finish(self, error: int) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._error = error
            trio.lowlevel.reschedule(task)

    def _send_syn(self, attempt: int) -> None:
        if self._target is None:
            self._retry(attempt)
        else:
            self._after_travel(self._socket.host, self._target, self._syn_arrives, attempt)

    def _after_travel(self, source: Host, target: Host, event: object, attempt: int) -> None:
        assert callable(event)
        self._network.clock.after(self._network.delay(source, target), event, attempt)

    def _retry(self, attempt: int) -> None:
        if self._task is None:
            return
        wait = RETRY_SECONDS * 2**attempt
        if attempt < RETRIES_MAX:
            self._network.clock.after(wait, self._send_syn, attempt + 1)
        else:
            self._network.clock.after(wait, self._finish, errno.ETIMEDOUT)

    def _syn_arrives(self, attempt: int) -> None:
        target, source = self._target, self._socket.host
        assert target is not None, "a SYN arrives at a host"
        if self._network.is_cut(source, target):
            self._retry(attempt)
            return
        listener = self._network.listeners.get(self._address)
        if listener is None:
            self._after_travel(target, source, self._refusal_arrives, attempt)
        elif listener.is_full:
            self._retry(attempt)
        else:
            self._after_travel(target, source, self._answer_arrives, attempt)

    def _refusal_arrives(self, attempt: int) -> None:
        assert self._target is not None, "a refusal comes from a host"
        if self._network.is_cut(self._target, self._socket.host):
            self._retry(attempt)
        else:
            self._finish(errno.ECONNREFUSED)

    def _answer_arrives(self, attempt: int) -> None:
        if self._task is None:
            return
        assert self._target is not None, "an answer comes from a host"
        listener = self._network.listeners.get(self._address)
        if listener is None or self._network.is_cut(self._target, self._socket.host):
            self._retry(attempt)
            return
        listener.admit(self._socket)
        self._finish(0)
