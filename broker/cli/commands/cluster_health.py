"""The health of a cluster on one screen: controllers, brokers, partitions and disks, and their problems."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from broker.cli.grammar.units import format_size
from broker.cli.output import Column
from broker.client.admin import Admin, ClusterDescription, LogDir, QuorumDescription, TopicDescription
from broker.client.errors import UnsupportedByBroker

# A volume with less room than this is reported.
_FREE_MIN: Final = 0.1
# A voter that lags the leader of the quorum by this many records is reported.
_VOTER_LAG_MAX: Final = 1000
# Partitions that are named; more are counted.
_NAMED_MAX: Final = 5


@attrs.frozen
class ControllerHealth:
    """A voter of the quorum. `lag` is in records of the metadata log."""

    id: int
    is_leader: bool
    lag: int


@attrs.frozen
class BrokerHealth:
    """A broker. `disk_free` is the free fraction of its fullest volume, null if the broker does not report it."""

    id: int
    address: str
    rack: str | None
    is_alive: bool
    leaders: int
    replicas: int
    size_bytes: int | None
    disk_free: float | None
    failed_log_dirs: int


@attrs.frozen
class ClusterHealth:
    """A cluster. `leader_skew` is how far the broker with the most leaders is above the average: 0.5 is 50 % more."""

    cluster_id: str
    is_healthy: bool
    problems: list[str]
    controllers: list[ControllerHealth]
    brokers: list[BrokerHealth]
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    not_led_by_preferred: int
    leader_skew: float


CONTROLLER_COLUMNS: Sequence[Column[ControllerHealth]] = (
    Column("controller", lambda row: row.id, is_number=True),
    Column("role", lambda row: "leader" if row.is_leader else "voter", style=lambda row: "bold" * row.is_leader),
    Column("lag", lambda row: row.lag, True, lambda row: "yellow" if row.lag > _VOTER_LAG_MAX else ""),
)
BROKER_COLUMNS: Sequence[Column[BrokerHealth]] = (
    Column("broker", lambda row: row.id, is_number=True),
    Column("address", lambda row: row.address),
    Column("rack", lambda row: row.rack or "-"),
    Column(
        "state", lambda row: "alive" if row.is_alive else "down", style=lambda row: "green" if row.is_alive else "red"
    ),
    Column("leaders", lambda row: row.leaders, is_number=True),
    Column("replicas", lambda row: row.replicas, is_number=True),
    Column("size", lambda row: "-" if row.size_bytes is None else format_size(row.size_bytes), is_number=True),
    Column("disk free", lambda row: _percent(row.disk_free), True, lambda row: _disk_style(row.disk_free)),
)


async def examine_cluster(admin: Admin) -> ClusterHealth:
    """Request everything that the health of the cluster consists of. Raises ClientError, KafkaError."""
    cluster = await _describe_cluster(admin)
    quorum = await admin.describe_metadata_quorum()
    names = [topic.name for topic in await admin.list_topics(include_internal=True)]
    topics = (await admin.describe_topics(names)).succeeded if names else {}
    alive = [node.id for node in cluster.nodes if node.id not in cluster.fenced]
    log_dirs = (await admin.describe_log_dirs(alive)).succeeded
    brokers = _brokers(cluster, list(topics.values()), log_dirs)
    return _health(cluster, _controllers(quorum), brokers, list(topics.values()))


async def _describe_cluster(admin: Admin) -> ClusterDescription:
    """Describe the cluster, with the brokers that are down if the brokers report them (KIP-1073)."""
    try:
        return await admin.describe_cluster(include_fenced_brokers=True)
    except UnsupportedByBroker:
        return await admin.describe_cluster()


def _controllers(quorum: QuorumDescription) -> list[ControllerHealth]:
    end = max((voter.log_end_offset for voter in quorum.voters), default=0)
    return [
        ControllerHealth(voter.id, voter.id == quorum.leader_id, max(0, end - voter.log_end_offset))
        for voter in sorted(quorum.voters, key=lambda voter: voter.id)
    ]


def _brokers(
    cluster: ClusterDescription, topics: Iterable[TopicDescription], log_dirs: Mapping[int, Mapping[str, LogDir]]
) -> list[BrokerHealth]:
    leaders: Counter[int | None] = Counter()
    replicas: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions:
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
    listed = {node.id: node for node in cluster.nodes}
    # A broker that is gone for good is still named by the replicas that it had.
    ids = sorted({*listed, *replicas})
    rows = []
    for broker_id in ids:
        node, directories = listed.get(broker_id), log_dirs.get(broker_id)
        rows.append(
            BrokerHealth(
                broker_id,
                "-" if node is None else f"{node.host}:{node.port}",
                None if node is None else node.rack,
                node is not None and broker_id not in cluster.fenced,
                leaders[broker_id],
                replicas[broker_id],
                None if directories is None else _size(directories.values()),
                None if directories is None else _free(directories.values()),
                sum(directory.error is not None for directory in (directories or {}).values()),
            )
        )
    return rows


def _size(directories: Iterable[LogDir]) -> int:
    return sum(replica.size_bytes for directory in directories for replica in directory.replicas.values())


def _free(directories: Iterable[LogDir]) -> float | None:
    """The free fraction of the fullest volume."""
    return min(
        (
            each.usable_bytes / each.total_bytes
            for each in directories
            if each.usable_bytes is not None and each.total_bytes
        ),
        default=None,
    )


def _health(
    cluster: ClusterDescription,
    controllers: list[ControllerHealth],
    brokers: list[BrokerHealth],
    topics: Sequence[TopicDescription],
) -> ClusterHealth:
    named = [(f"{topic.name}-{each.partition}", each) for topic in topics for each in topic.partitions]
    leaderless = [name for name, each in named if each.leader is None]
    under_replicated = [name for name, each in named if len(each.isr) < len(each.replicas)]
    problems = [
        *_node_problems(controllers, brokers),
        *([f"{_named(leaderless)} no leader: they cannot be read or written"] if leaderless else []),
        *([f"{_named(under_replicated)} fewer replicas in sync than they should"] if under_replicated else []),
    ]
    alive = [broker.leaders for broker in brokers if broker.is_alive]
    average = sum(alive) / len(alive) if alive else 0
    return ClusterHealth(
        cluster.cluster_id,
        not problems,
        problems,
        controllers,
        brokers,
        len(topics),
        len(named),
        len(leaderless),
        len(under_replicated),
        sum(each.leader is not None and each.leader != each.replicas[0] for _, each in named),
        round(max(alive) / average - 1, 3) if average else 0.0,
    )


def _node_problems(controllers: Sequence[ControllerHealth], brokers: Sequence[BrokerHealth]) -> Iterable[str]:
    if not any(controller.is_leader for controller in controllers):
        yield "the controllers have no leader: nothing can be created or changed"
    for controller in controllers:
        if controller.lag > _VOTER_LAG_MAX:
            yield f"controller {controller.id} is {controller.lag} records behind the leader: check that it runs"
    for broker in brokers:
        if not broker.is_alive:
            yield f"broker {broker.id} is down: start it again, or move its {broker.replicas} replicas elsewhere"
        if broker.failed_log_dirs:
            yield f"broker {broker.id} has {broker.failed_log_dirs} failed log directories; see `kraft log-dirs`"
        if broker.disk_free is not None and broker.disk_free < _FREE_MIN:
            yield f"broker {broker.id} has {_percent(broker.disk_free)} of a disk left: free some room"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    shown = ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{shown} {'has' if len(names) == 1 else 'have'}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


def _disk_style(share: float | None) -> str:
    return "red" if share is not None and share < _FREE_MIN else ""
