"""The process that owns the clusters: a Trio program that the zygote has forked.

It prints one line of JSON once it serves: the address of the control port, and the first cluster if there is one.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from functools import partial
from random import SystemRandom
from typing import Final

import trio

from jepsen.testing.control_routes import CLUSTER_WORDS, ControlRoutes, read_spec
from jepsen.testing.control_server import ControlServer
from jepsen.testing.errors import ControlRefused, NotThere
from jepsen.testing.hosted_cluster import ClusterSpec, HostedCluster
from jepsen.testing.server_options import ServerOptions
from jepsen.testing.unsynced_disk import UnsyncedDisk
from jepsen.testing.words import Words
from jepsen.testing.zygote_link import ZygoteEnded, ZygoteLink
from kraft.env import Env

# For the first client of a shared server to take its lease.
_FIRST_LEASE_S: Final = 30.0


def run_supervisor(zygote: socket.socket, directory: str, options: ServerOptions) -> int:
    """Serve until SIGTERM, the zygote's end or the end of the last lease. Returns the exit code of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the zygote, which sends SIGTERM
    supervisor = _Supervisor(zygote, directory, options)
    try:
        trio.run(supervisor.run)
    except* ZygoteEnded:
        supervisor.kill_orphans()
    return supervisor.code


class _Supervisor:
    """`code` is the exit code of the process. Each cluster has a nursery within `nursery`, which ends with it."""

    nursery: trio.Nursery

    def __init__(self, zygote: socket.socket, directory: str, options: ServerOptions) -> None:
        self.code = 0
        self._zygote_end = zygote
        self._directory = directory
        self._options = options
        self._clusters: dict[str, HostedCluster] = {}
        self._shared: dict[str, HostedCluster] = {}
        self._sharing = trio.Lock()
        self._names = 0
        # The leases that are taken, in the order in which they were.
        self._leases: dict[str, None] = {}
        self._env = Env(UnsyncedDisk(), SystemRandom(), time.time, lambda kind, /, **fields: None)

    async def run(self) -> None:
        """Raises ZygoteEnded."""
        self._zygote = ZygoteLink(self._zygote_end)
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self._zygote.run)
            self.nursery.start_soon(self._stop_at_signal)
            try:
                await self._serve()
            except (ControlRefused, OSError) as error:
                print(f"kraft: {error}", file=sys.stderr)
                self.code = 1
                self.nursery.cancel_scope.cancel()

    async def create(self, spec: ClusterSpec) -> HostedCluster:
        """A cluster that serves. Raises ControlRefused."""
        if spec.shared_as is None:
            return await self._start(spec)
        async with self._sharing:
            if spec.shared_as not in self._shared:
                self._shared[spec.shared_as] = await self._start(spec)
        return self._shared[spec.shared_as]

    async def _start(self, spec: ClusterSpec) -> HostedCluster:
        self._check_lease(spec)
        self._names += 1
        name = str(self._names)
        nursery = await self.nursery.start(_hold_nursery)
        cluster = HostedCluster(name, spec, self._env, f"{self._directory}/{name}", self._zygote, nursery)
        self._clusters[name] = cluster
        try:
            await cluster.start()
            self._check_lease(spec)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.end(cluster)
            raise
        return cluster

    def find(self, name: str) -> HostedCluster:
        """Raises NotThere."""
        if name not in self._clusters:
            raise NotThere(f"no cluster {name}")
        return self._clusters[name]

    async def end(self, cluster: HostedCluster) -> None:
        self._clusters.pop(cluster.name, None)
        if cluster.spec.shared_as is not None:
            self._shared.pop(cluster.spec.shared_as, None)
        await cluster.end(keeps_data=self._options.keep_in is not None)

    def described(self) -> dict[str, object]:
        """The ids of the processes, the directory, the names of the clusters, and the number of tasks."""
        return {
            "supervisor": os.getpid(),
            "zygote": os.getppid(),
            "directory": self._directory,
            "clusters": list(self._clusters),
            "tasks": len(self.nursery.child_tasks),
        }

    def lease(self) -> str:
        """Begin a lease, and return its name."""
        self._names += 1
        self._leases[str(self._names)] = None
        return str(self._names)

    def release(self, lease: str) -> None:
        """End a lease, and begin to end its clusters. The last one ends a server without a parent.

        A server that stops meanwhile does not wait for the clusters: their nodes are no longer told to end, and the
        zygote kills them.
        """
        del self._leases[lease]
        if self._options.parent is None and not self._leases:
            self.nursery.cancel_scope.cancel()  # the zygote kills all nodes at once
            return
        for cluster in [each for each in self._clusters.values() if each.spec.lease == lease]:
            self.nursery.start_soon(self.end, cluster)

    def kill_orphans(self) -> None:
        """Without the zygote, kill its nodes and remove the directory."""
        for node in [node for cluster in self._clusters.values() for node in cluster.nodes.values()]:
            if node.process is not None and node.process.pid and not node.process.ended.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.process.pid, signal.SIGKILL)
        if self._options.keep_in is None:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _serve(self) -> None:
        listeners = await trio.open_tcp_listeners(self._options.port, host=self._options.host)
        cluster = None
        if self._options.cluster is not None:
            cluster = await self.create(read_spec(Words(dict(self._options.cluster), CLUSTER_WORDS)))
        host, port = listeners[0].socket.getsockname()[:2]
        described = {} if cluster is None else {"cluster": cluster.described()}
        print(json.dumps({"control": f"{host}:{port}", **described}), flush=True)
        if self._options.parent is None:
            self._leave_standard_error()
            self.nursery.start_soon(self._wait_for_first_lease)
        server = ControlServer(ControlRoutes(self).handle, self._options.host)
        self.nursery.start_soon(partial(trio.serve_listeners, server.serve, listeners))

    async def _wait_for_first_lease(self) -> None:
        """End if no client comes, for example because the one that started this server was killed."""
        await trio.sleep(_FIRST_LEASE_S)
        if not self._leases:
            self.nursery.cancel_scope.cancel()

    def _leave_standard_error(self) -> None:
        """Write to a file from here on: standard error is that of the first client, and other clients share it."""
        output = os.open(f"{self._directory}/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, sys.stderr.fileno())
        os.close(output)

    async def _stop_at_signal(self) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            async for _ in signals:
                self.nursery.cancel_scope.cancel()

    def _check_lease(self, spec: ClusterSpec) -> None:
        if spec.lease is not None and spec.lease not in self._leases:
            raise NotThere(f"no lease {spec.lease}")


async def _hold_nursery(*, task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """A nursery that lasts until it is cancelled."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()
