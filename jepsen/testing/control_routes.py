"""The resources of the control port.

    GET    /                                the processes, and the names of the clusters
    POST   /leases                          lasts until the client closes the connection, and its clusters end then
    POST   /clusters                        {"nodes": 3, "security": "sasl_ssl", "config": {}, "lease": "1"}
    GET    /clusters/NAME                   addresses, nodes, configurations of clients
    DELETE /clusters/NAME
    POST   /clusters/NAME/topics            {"name": "orders", "partitions": 3, "replicas": 3, "config": {}}
    GET    /clusters/NAME/topics/T/records  all committed records, with keys and values in base64
    POST   /clusters/NAME/topics/T/records  {"records": [{"key": null, "value": "b25l"}]}
    POST   /clusters/NAME/groups            {"name": "readers"}: a unique name
    POST   /clusters/NAME/deletions         {"topics": [], "groups": []}
    POST   /clusters/NAME/actions           {"action": "kill", "leader_of": ["orders", 0], "delay": 0.5}
    POST   /clusters/NAME/waits             {"in_sync": "orders", "timeout": 30}; `jepsen.testing.barriers`
    DELETE /clusters/NAME/faults            ends all faults and all chaos
    GET    /clusters/NAME/events            what nodes reported and what was done to them, in order

`jepsen.testing.fault_routes` has the resources for faults of the protocol, `jepsen.testing.link_routes` that for the
network, `jepsen.testing.machine_routes` those for disks and clocks, `jepsen.testing.chaos_routes` those for chaos.
A cluster that is created with `"shared_as": "name"` is made once, and lasts as long as the server.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import trio

from broker.cli.local_cluster import NODES_MAX
from broker.cli.local_security import LocalSecurity
from broker.cli.start_arguments import LOG_LEVELS
from broker.client import Admin
from jepsen.testing.actions import Action
from jepsen.testing.barriers import wait
from jepsen.testing.chaos_routes import begin_chaos, end_all, serve_chaos
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.control_server import Request
from jepsen.testing.errors import BadRequest, ControlRefused, NotThere, failures_refused
from jepsen.testing.fault_routes import begin_fault, change, list_requests, serve_fault
from jepsen.testing.hosted_cluster import ClusterSpec, HostedCluster
from jepsen.testing.link_routes import begin_link
from jepsen.testing.machine_routes import begin_clock_fault, begin_disk_fault, flip_bit
from jepsen.testing.records import read_records, write_records
from jepsen.testing.words import Words

_WAIT_S: Final = 30.0
_SEED_BITS: Final = 32
_PATH: Final = re.compile(r"/clusters/([\w-]+)(?:/(\w+))?")
_CHAOS_PATH: Final = re.compile(r"/clusters/([\w-]+)/chaos/([\w-]+)")
_FAULT_PATH: Final = re.compile(r"/clusters/([\w-]+)/faults/([\w-]+)")
_RECORDS_PATH: Final = re.compile(r"/clusters/([\w-]+)/topics/([\w.-]+)/records", re.ASCII)


class Clusters(Protocol):
    """The part of the supervisor that requests need."""

    async def create(self, spec: ClusterSpec) -> HostedCluster: ...

    def find(self, name: str) -> HostedCluster: ...

    async def end(self, cluster: HostedCluster) -> None: ...

    def described(self) -> dict[str, object]: ...

    def lease(self) -> str: ...

    async def release(self, lease: str) -> None: ...


class ControlRoutes:
    """Serves the requests of the control port on `clusters`."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def handle(self, request: Request) -> AsyncGenerator[object, None]:
        """The parts of the response. Raises ControlRefused."""
        if (request.method, request.path) == ("POST", "/leases"):
            lease = self._clusters.lease()
            try:
                yield {"lease": lease}
                await request.disconnected()
            finally:
                with trio.CancelScope(shield=True):
                    await self._clusters.release(lease)
        else:
            yield await self._answer(request)

    async def _answer(self, request: Request) -> object:
        if (request.method, request.path) == ("GET", "/"):
            return self._clusters.described()
        if (request.method, request.path) == ("POST", "/clusters"):
            return (await self._clusters.create(read_spec(Words(request.body)))).described()
        if (found := _RECORDS_PATH.fullmatch(request.path)) is not None:
            return await _serve_records(self._clusters.find(found[1]), found[2], request)
        if (found := _FAULT_PATH.fullmatch(request.path)) is not None:
            return await serve_fault(self._clusters.find(found[1]), found[2], request)
        if (found := _CHAOS_PATH.fullmatch(request.path)) is not None:
            return await serve_chaos(self._clusters.find(found[1]), found[2], request)
        if (found := _PATH.fullmatch(request.path)) is None:
            raise NotThere(f"no resource {request.path}")
        if (request.method, found[2]) == ("DELETE", None):
            await self._clusters.end(self._clusters.find(found[1]))
            return {}
        answer = _ANSWERS.get((request.method, found[2]))
        if answer is None:
            raise NotThere(f"no {request.method} {request.path}")
        return await answer(self._clusters.find(found[1]), Words(request.body))


def read_spec(words: Words) -> ClusterSpec:
    """Raises BadRequest."""
    nodes = words.integer("nodes", 1)
    if not 1 <= nodes <= NODES_MAX:
        raise BadRequest(f"nodes has to be from 1 to {NODES_MAX}")
    name = words.text("security", LocalSecurity.PLAINTEXT.value)
    if name not in list(LocalSecurity):
        raise BadRequest(f"security is none of {', '.join(LocalSecurity)}")
    config = words.texts("config")
    log_level = words.text("log_level", "info")
    if log_level not in LOG_LEVELS:
        raise BadRequest(f"log_level is none of {', '.join(LOG_LEVELS)}")
    seed = words.integer("seed") if "seed" in words else secrets.randbits(_SEED_BITS)
    lease = words.text("lease") if "lease" in words else None
    shared_as = words.text("shared_as") if "shared_as" in words else None
    words.end()
    return ClusterSpec(nodes, LocalSecurity(name), config, log_level, seed, lease, shared_as)


async def _describe(cluster: HostedCluster, words: Words) -> object:
    return cluster.described()


async def _create_topic(cluster: HostedCluster, words: Words) -> object:
    name = words.text("name")
    partitions = words.integer("partitions", 1)
    replicas = words.integer("replicas") if "replicas" in words else None
    config = words.texts("config")
    timeout_s = words.number("timeout", _WAIT_S)
    words.end()
    topic = await cluster.create_topic(name, partitions, replicas, config, timeout_s)
    await ClusterView(cluster).until_known(topic, timeout_s)
    return {"name": topic}


async def _serve_records(cluster: HostedCluster, topic: str, request: Request) -> object:
    cluster.check_runs()
    config = cluster.own_config
    if request.method == "GET":
        return {"records": await read_records(config, topic)}
    if request.method != "POST":
        raise NotThere(f"no {request.method} {request.path}")
    words = Words(request.body)
    records = words.items("records")
    words.end()
    await write_records(config, topic, records)
    return {}


async def _name_group(cluster: HostedCluster, words: Words) -> object:
    name = words.text("name")
    words.end()
    return {"name": cluster.unique(name)}


async def _delete(cluster: HostedCluster, words: Words) -> object:
    """Delete topics and groups, without waiting for it. Those that do not exist, or are in use, are left out."""
    topics, groups = words.names("topics"), words.names("groups")
    words.end()

    async def delete(admin: Admin) -> None:
        await admin.delete_groups(groups)
        await admin.delete_topics(topics)

    async def delete_at_leisure() -> None:
        try:
            with failures_refused():
                await cluster.administer(delete)
        except ControlRefused:
            cluster.note("deletion_failed", topics=topics, groups=groups)

    cluster.nursery.start_soon(delete_at_leisure)
    return {}


async def _act(cluster: HostedCluster, words: Words) -> object:
    """Do it now, and answer with the nodes; or begin to wait for the delay, and answer with none."""
    action = Action.read(cluster, words)
    if not action.delay_s:
        return {"nodes": await action.run(cluster)}

    async def act_later() -> None:
        try:
            with failures_refused():
                await action.run(cluster)
        except ControlRefused as refused:
            cluster.note("action_refused", action=action.verb, reason=str(refused))

    cluster.nursery.start_soon(act_later)
    return {"nodes": []}


async def _list_events(cluster: HostedCluster, words: Words) -> object:
    return {"events": list(cluster.events)}


_ANSWERS: Final[Mapping[tuple[str, str | None], Callable[[HostedCluster, Words], Awaitable[Any]]]] = {
    ("GET", None): _describe,
    ("POST", "topics"): _create_topic,
    ("POST", "groups"): _name_group,
    ("POST", "deletions"): _delete,
    ("POST", "actions"): _act,
    ("POST", "waits"): wait,
    ("GET", "events"): _list_events,
    ("POST", "changes"): change,
    ("POST", "faults"): begin_fault,
    ("POST", "requests"): list_requests,
    ("DELETE", "faults"): end_all,
    ("POST", "chaos"): begin_chaos,
    ("POST", "links"): begin_link,
    ("POST", "disks"): begin_disk_fault,
    ("POST", "clocks"): begin_clock_fault,
    ("POST", "flips"): flip_bit,
}
