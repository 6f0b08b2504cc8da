"""One test cluster, as the supervisor sees it: its nodes, its directory, its events, and its names for tests."""

import secrets
import shutil
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from broker.cli.local_cluster import LocalNode, open_cluster
from broker.cli.local_security import LocalSecurity, MissingCryptography
from broker.client import Admin, ClientError, ErrorCode, KafkaError, NewTopic
from jepsen.testing.client_configs import client_configs
from jepsen.testing.cluster_faults import ClusterFaults
from jepsen.testing.errors import ActionRefused, BadRequest, NodeFailed, NotReached, NotThere
from jepsen.testing.faults.fault import TEST_SERVER
from jepsen.testing.hosted_node import HostedNode, NodeSettings, NodeState
from jepsen.testing.zygote_link import ZygoteLink
from kraft.env import Env

# Events that a timeline keeps. The oldest ones are dropped.
_EVENTS_MAX: Final = 20_000
# Times that a cluster is made with other ports. Another process may take a port after it was found free.
_ATTEMPTS: Final = 3
_NAME_BYTES: Final = 3
_START_S: Final = 60.0
_REPLICAS_DEFAULT: Final = 3
# The quorum's event of a node that has become the active controller.
_ELECTED: Final = "leader_elected"
# Tests wait for timeouts and create internal topics. All other configs are Kafka's defaults.
_TEST_CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


@attrs.frozen
class ClusterSpec:
    """`config` has configs of the nodes, which win over those for tests. `features` has levels of features that differ
    from those of new clusters. The random numbers of the nodes follow from `seed`. The cluster ends with `lease`. With
    `shared_as`, all clients that name it get the same cluster.
    """

    nodes: int = 1
    security: LocalSecurity = LocalSecurity.PLAINTEXT
    config: Mapping[str, str] = attrs.field(factory=dict)
    features: Mapping[str, int] = attrs.field(factory=dict)
    log_level: str = "info"
    seed: int = 0
    lease: str | None = None
    shared_as: str | None = None


class HostedCluster:
    """Its tasks run in `nursery`, which ends with the cluster. `start` comes first, and `end` last."""

    def __init__(
        self, name: str, spec: ClusterSpec, env: Env, directory: str, zygote: ZygoteLink, nursery: trio.Nursery
    ) -> None:
        self.name = name
        self.spec = spec
        self.nodes: dict[int, HostedNode] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=_EVENTS_MAX)
        # The id of the node that was last elected as the active controller, and the epoch of that.
        self.controller: tuple[int, int] | None = None
        self._env = env
        self._directory = directory
        self._made_in = directory
        self._zygote = zygote
        self.nursery = nursery
        self.faults = ClusterFaults(self)
        # The runs of chaos by their ids, as `jepsen.testing.chaos_routes` begins them.
        self.chaos: dict[str, Any] = {}
        self._began = time.monotonic()
        self._admin: Admin | None = None
        self._opening = trio.Lock()
        self._unique_names: set[str] = set()
        # The scopes of requests that have no answer yet.
        self._requests: dict[trio.CancelScope, None] = {}

    async def start(self) -> None:
        """Make the cluster and start its nodes. Raises BadRequest, NodeFailed."""
        for attempt in range(_ATTEMPTS):
            self._made_in = f"{self._directory}/{attempt}"
            made = await self._make(self._made_in)
            ports = {port: local.node_id for local in made for port in _ports(local)}
            for local in made:
                self.nodes[local.node_id] = self._host(local, f"{self.name}-{attempt}-{local.node_id}", ports)
            try:
                await self.launch(list(self.nodes.values()))
                return
            except NodeFailed as failed:
                await self._close_nodes()
                if attempt + 1 == _ATTEMPTS or "address already in use" not in str(failed).lower():
                    raise

    async def launch(self, nodes: Sequence[HostedNode], within_s: float = _START_S) -> None:
        """Start nodes and wait until they serve. Raises NodeFailed, ActionRefused, NotReached."""
        for node in nodes:
            await node.launch()
        with trio.move_on_after(within_s) as scope:
            for node in nodes:
                await node.wait_serving()
        if scope.cancelled_caught:
            late = [node.node_id for node in nodes if node.state is not NodeState.SERVING]
            raise NotReached(f"nodes {late} do not serve after {within_s:g} s")

    async def end(self, *, keeps_data: bool) -> None:
        """Kill all nodes, and remove the directory unless its data is kept. All ports are free on return."""
        await self._close_nodes()
        # Not before the nodes are closed: a request that is forking a process finishes that first.
        for scope in self._requests:
            scope.cancel()
        self.nursery.cancel_scope.cancel()
        if keeps_data:
            return
        await trio.to_thread.run_sync(lambda: shutil.rmtree(self._directory, ignore_errors=True))

    async def while_it_lasts(self, answer: Awaitable[Any]) -> Any:
        """Wait for the answer to a request. Raises NotThere if the cluster ends before: nothing would come any more."""
        scope = trio.CancelScope()
        self._requests[scope] = None
        try:
            with scope:
                return await answer
        finally:
            del self._requests[scope]
        raise NotThere(f"cluster {self.name} has ended")

    def unique(self, name: str) -> str:
        """A name that no other test has."""
        while (unique := f"{name}-{secrets.token_hex(_NAME_BYTES)}") in self._unique_names:
            pass
        self._unique_names.add(unique)
        return unique

    def note(self, event: str, **fields: object) -> None:
        """Record an event that the supervisor causes."""
        self._add(None, {"event": event, "level": "info", "at": time.monotonic(), "fields": fields})

    def described(self) -> dict[str, Any]:
        """The cluster as the control port describes it."""
        return {
            "name": self.name,
            "bootstrap_servers": self._servers,
            "security": str(self.spec.security),
            "seed": self.spec.seed,
            "age": time.monotonic() - self._began,
            "nodes": [
                {
                    "id": node.node_id,
                    "address": node.address,
                    "state": str(node.state),
                    "pid": node.process.pid if node.process is not None and node.is_running else None,
                    "log": str(node.output),
                }
                for node in self.nodes.values()
            ],
            "clients": self._client_configs(),
        }

    def client_config(self, client: str) -> Mapping[str, str]:
        """The addresses and credentials in a client's words."""
        return self._client_configs()[client]

    @property
    def own_config(self) -> Mapping[str, str]:
        """For clients of the supervisor, which faults and the history of requests leave out."""
        return {**self.client_config("kraft"), "client.id": TEST_SERVER}

    async def create_topic(
        self, name: str, partitions: int, replicas: int | None, config: Mapping[str, str | None], timeout_s: float
    ) -> str:
        """Create a topic under a unique name, and return the name. Nodes may learn of it a moment later.

        Raises ActionRefused, NotReached.
        """
        unique = self.unique(name)
        replicas = min(_REPLICAS_DEFAULT, len(self.nodes)) if replicas is None else replicas

        async def create(admin: Admin) -> None:
            results = await admin.create_topics([NewTopic(unique, partitions, replicas, configs=config)])
            try:
                results.raise_first()
            except KafkaError as error:
                # The name is unique: the client has lost the answer to its first request, and has sent another one.
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        with trio.move_on_after(timeout_s) as scope:
            await self.administer(create)
        if scope.cancelled_caught:
            states = ", ".join(f"node {node.node_id} is {node.state}" for node in self.nodes.values())
            raise NotReached(f"topic {unique} is not created after {timeout_s:g} s: {states}")
        return unique

    def check_runs(self) -> None:
        """Raises ActionRefused if no node runs: a client would wait for its own timeout to say so."""
        if not any(node.is_running for node in self.nodes.values()):
            raise ActionRefused("no node of the cluster runs; `start` starts those that are down")

    async def administer(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Run `work` with a client of the cluster, which is opened for the first one. Raises ActionRefused."""
        self.check_runs()
        async with self._opening:
            if self._admin is None:
                self._admin = await self.nursery.start(self._hold_admin)
        try:
            await work(self._admin)
        except (ClientError, KafkaError) as error:
            raise ActionRefused(str(error)) from error

    async def _hold_admin(self, *, task_status: trio.TaskStatus[Admin]) -> None:
        async with Admin(config=self.own_config) as admin:
            task_status.started(admin)
            await trio.sleep_forever()

    @property
    def _servers(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def _client_configs(self) -> dict[str, dict[str, str]]:
        return client_configs(self._made_in, self._servers, self.spec.security)

    async def _make(self, directory: str) -> list[LocalNode]:
        try:
            return await open_cluster(
                self._env, directory, self.spec.nodes, 0, security=self.spec.security, features=self.spec.features
            )
        except MissingCryptography as error:
            raise BadRequest(str(error)) from error

    async def _close_nodes(self) -> None:
        for node in self.nodes.values():
            await node.close()

    def _host(self, local: LocalNode, key: str, ports: Mapping[int, int]) -> HostedNode:
        overrides = [f"{key}={value}" for key, value in {**_TEST_CONFIGS, **self.spec.config}.items()]
        settings = NodeSettings(key, overrides, self.spec.log_level, f"{self.spec.seed}/{local.node_id}", ports)
        return HostedNode(local, settings, self._zygote, self.nursery, self._report, self.faults.words_for)

    def _report(self, node_id: int, message: Mapping[str, Any]) -> None:
        if "fault" in message:
            self.faults.update(self.nodes[node_id], message)
            return
        if message["event"] == _ELECTED:
            epoch = message["fields"]["epoch"]
            if self.controller is None or epoch > self.controller[1]:
                self.controller = (node_id, epoch)
        self._add(node_id, message)

    def _add(self, node_id: int | None, message: Mapping[str, Any]) -> None:
        self.events.append(
            {
                "seconds": round(message["at"] - self._began, 6),
                "node": node_id,
                "event": message["event"],
                "level": message["level"],
                "fields": message["fields"],
            }
        )


def _ports(local: LocalNode) -> tuple[int, int]:
    """The ports on which a node listens for clients and brokers, and for controllers: see `open_cluster`."""
    port = int(local.address.rpartition(":")[2])
    return port, port + 1
