"""The table of the control port, and the resources for clusters, topics, records and groups.

`jepsen.testing.fault_routes` has the resources for faults of the protocol, `jepsen.testing.link_routes` that for the
network, `jepsen.testing.machine_routes` those for disks and clocks, `jepsen.testing.chaos_routes` those for chaos.
`docs/testing-api.json`, which `jepsen.testing.openapi` makes of the table, lists all with their words and answers.
A cluster that is created with `"shared_as": "name"` is made once, and lasts as long as the server.
"""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Protocol

from broker.cli.local_cluster import NODES_MAX
from broker.cli.local_security import LocalSecurity
from broker.cli.start_arguments import LOG_LEVELS
from broker.client import Admin
from jepsen.testing.actions import ACTION_ROUTES
from jepsen.testing.barriers import BARRIER_ROUTES
from jepsen.testing.chaos_routes import CHAOS_ROUTES
from jepsen.testing.cluster_view import ClusterView
from jepsen.testing.control_server import Request
from jepsen.testing.errors import ActionRefused, BadRequest, ControlRefused, NotThere, failures_refused
from jepsen.testing.fault_routes import FAULT_ROUTES
from jepsen.testing.hosted_cluster import ClusterSpec, HostedCluster
from jepsen.testing.link_routes import LINK_ROUTES
from jepsen.testing.machine_routes import MACHINE_ROUTES
from jepsen.testing.openapi import description
from jepsen.testing.records import RECORD_SCHEMA, read_records, write_records
from jepsen.testing.route import NODES_REFUSE, Route
from jepsen.testing.word_types import Word
from jepsen.testing.words import Words
from metadata.controller import SUPPORTED_FEATURES

_WAIT_S: Final = 30.0
_SEED_BITS: Final = 32
_LOG_LEVEL_DEFAULT: Final = "info"
CLUSTER_WORDS: Final[Mapping[str, Word]] = {
    "nodes": Word.integer("Nodes, each a broker and a controller.", 1, NODES_MAX, default=1),
    "security": Word.text("How clients connect.", LocalSecurity, default=LocalSecurity.PLAINTEXT.value),
    "config": Word.texts("Configs of the nodes."),
    "features": Word.texts("Levels of features, such as `share.version`, that differ from those of new clusters."),
    "log_level": Word.text("The least level of events that nodes log.", LOG_LEVELS, default=_LOG_LEVEL_DEFAULT),
    "seed": Word.integer("That of the random numbers of the nodes. By default, a random one."),
    "lease": Word.text("The cluster ends with this lease."),
    "shared_as": Word.text("All requests with this name get the same cluster, which lasts as long as the server."),
}


class Clusters(Protocol):
    """The part of the supervisor that requests need."""

    async def create(self, spec: ClusterSpec) -> HostedCluster: ...

    def find(self, name: str) -> HostedCluster: ...

    async def end(self, cluster: HostedCluster) -> None: ...

    def described(self) -> dict[str, object]: ...

    def lease(self) -> str: ...

    def release(self, lease: str) -> None: ...


class ControlRoutes:
    """Serves the requests of the control port on `clusters`."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def handle(self, request: Request) -> AsyncGenerator[object, None]:
        """The parts of the response. Raises ControlRefused."""
        route, names = _find_route(request)
        words = Words(request.body, route.words)
        if route in _SERVER_ROUTES:
            answer = await route.answer(self._clusters, *names, words)
        else:
            cluster = self._clusters.find(names[0])
            answer = await cluster.while_it_lasts(route.answer(cluster, *names[1:], words))
        if route is not _LEASE:
            yield answer
            return
        try:
            yield answer
            await request.disconnected()
        finally:
            self._clusters.release(answer["lease"])


def _find_route(request: Request) -> tuple[Route, Sequence[str]]:
    """The row of the table for a request, and the names in its path. Raises NotThere."""
    problem = f"no resource {request.path}"
    for route in ROUTES:
        if (found := route.pattern.fullmatch(request.path)) is not None:
            if route.method == request.method:
                return route, found.groups()
            problem = f"no {request.method} {request.path}"
    raise NotThere(problem)


def read_spec(words: Words) -> ClusterSpec:
    """Raises BadRequest."""
    nodes = words.integer("nodes", 1)
    if not 1 <= nodes <= NODES_MAX:
        raise BadRequest(f"nodes has to be from 1 to {NODES_MAX}")
    name = words.text("security", LocalSecurity.PLAINTEXT.value)
    if name not in list(LocalSecurity):
        raise BadRequest(f"security is none of {', '.join(LocalSecurity)}")
    config, features = words.texts("config"), _features(words.texts("features"))
    log_level = words.text("log_level", _LOG_LEVEL_DEFAULT)
    if log_level not in LOG_LEVELS:
        raise BadRequest(f"log_level is none of {', '.join(LOG_LEVELS)}")
    seed = words.integer("seed") if "seed" in words else secrets.randbits(_SEED_BITS)
    lease = words.text("lease") if "lease" in words else None
    shared_as = words.text("shared_as") if "shared_as" in words else None
    words.end()
    return ClusterSpec(nodes, LocalSecurity(name), config, features, log_level, seed, lease, shared_as)


def _features(levels: Mapping[str, str]) -> dict[str, int]:
    """Raises BadRequest."""
    features: dict[str, int] = {}
    for name, text in levels.items():
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise BadRequest(f"there is no feature {name}")
        if text not in map(str, range(supported.min_version, supported.max_version + 1)):
            raise BadRequest(f"{name} has levels from {supported.min_version} to {supported.max_version}")
        features[name] = int(text)
    return features


async def _describe_server(clusters: Clusters, words: Words) -> object:
    return clusters.described()


async def _describe_port(clusters: Clusters, words: Words) -> object:
    return description(ROUTES)


async def _begin_lease(clusters: Clusters, words: Words) -> object:
    return {"lease": clusters.lease()}


async def _create_cluster(clusters: Clusters, words: Words) -> object:
    return (await clusters.create(read_spec(words))).described()


async def _end_cluster(clusters: Clusters, name: str, words: Words) -> object:
    await clusters.end(clusters.find(name))
    return {}


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


async def _read_records(cluster: HostedCluster, topic: str, words: Words) -> object:
    cluster.check_runs()
    return {"records": await read_records(cluster.own_config, topic)}


async def _write_records(cluster: HostedCluster, topic: str, words: Words) -> object:
    cluster.check_runs()
    records = words.items("records")
    words.end()
    await write_records(cluster.own_config, topic, records)
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


async def _list_events(cluster: HostedCluster, words: Words) -> object:
    return {"events": list(cluster.events)}


_CLUSTER: Final = "/clusters/{cluster}"
_RECORDS: Final = "/clusters/{cluster}/topics/{topic}/records"
_LEASE: Final = Route(
    "POST",
    "/leases",
    "takeLease",
    "Take a lease: it lasts until the client closes the connection, and its clusters end with it. The answer is one "
    "line of a response that goes on until then",
    "Lease",
    _begin_lease,
)
_SERVER_ROUTES: Final = (
    Route("GET", "/", "describeServer", "Describe the server", "Server", _describe_server),
    Route("GET", "/openapi.json", "describePort", "This description", "Description", _describe_port),
    _LEASE,
    Route(
        "POST",
        "/clusters",
        "createCluster",
        "Create a cluster, and wait until it serves",
        "Cluster",
        _create_cluster,
        CLUSTER_WORDS,
        refusals=NODES_REFUSE,
        examples=(
            {"nodes": 3, "config": {"default.replication.factor": 3, "message.max.bytes": "2000000"}},
            {"security": "sasl_plaintext", "log_level": "warning", "seed": 7, "shared_as": "shop"},
            {"nodes": 1, "features": {"share.version": "1"}, "lease": "1"},
        ),
    ),
    Route("DELETE", _CLUSTER, "endCluster", "End a cluster, and remove its data", "Nothing", _end_cluster),
)
_CLUSTER_ROUTES: Final = (
    Route("GET", _CLUSTER, "describeCluster", "Describe a cluster", "Cluster", _describe),
    Route(
        "POST",
        "/clusters/{cluster}/topics",
        "createTopic",
        "Create a topic under a unique name, which is the answer",
        "Name",
        _create_topic,
        {
            "name": Word.text("The beginning of the name.", required=True),
            "partitions": Word.integer("Partitions.", default=1),
            "replicas": Word.integer("Replicas of each partition. By default 3, or as many as there are nodes."),
            "config": Word.texts("Configs of the topic."),
            "timeout": Word.number("Seconds.", default=_WAIT_S),
        },
        refusals=NODES_REFUSE,
        examples=({"name": "orders", "partitions": 3, "replicas": 3, "config": {"retention.ms": "-1"}, "timeout": 30},),
    ),
    Route("GET", _RECORDS, "readRecords", "Read all committed records of a topic", "Records", _read_records),
    Route(
        "POST",
        _RECORDS,
        "writeRecords",
        "Write records with acks=all, in their order",
        "Nothing",
        _write_records,
        {"records": Word.items("Records. Keys and values are in base64.", RECORD_SCHEMA, required=True)},
        refusals=(ActionRefused,),
        examples=(
            {"records": [{"key": "a2V5", "value": "b25l", "partition": 0, "headers": [["trace", "Nw=="]]}]},
            {"records": [{"value": None}, {"value": "dHdv"}]},
        ),
    ),
    Route(
        "POST",
        "/clusters/{cluster}/groups",
        "nameGroup",
        "Make a unique name for a group",
        "Name",
        _name_group,
        {"name": Word.text("The beginning of the name.", required=True)},
        examples=({"name": "readers"},),
    ),
    Route(
        "POST",
        "/clusters/{cluster}/deletions",
        "delete",
        "Begin to delete topics and groups. Those that do not exist, or are in use, are left out",
        "Nothing",
        _delete,
        {"topics": Word.names("Topics."), "groups": Word.names("Groups.")},
        examples=({"topics": ["old-orders"], "groups": ["old-readers"]},),
    ),
    Route(
        "GET",
        "/clusters/{cluster}/events",
        "listEvents",
        "List what nodes have reported and what was done to them, in order",
        "Events",
        _list_events,
    ),
)
ROUTES: Final[Sequence[Route]] = (
    *_SERVER_ROUTES,
    *_CLUSTER_ROUTES,
    *FAULT_ROUTES,
    *ACTION_ROUTES,
    *BARRIER_ROUTES,
    *LINK_ROUTES,
    *MACHINE_ROUTES,
    *CHAOS_ROUTES,
)
