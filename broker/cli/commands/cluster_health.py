"""The health of a cluster on one screen: controllers, brokers, partitions and disks, and their problems."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from broker.cli.commands.clock_health import clock_problems
from broker.cli.commands.partition_health import (
    NAMED_MAX,
    PartitionFacts,
    partition_problems,
    request_partition_facts,
)
from broker.cli.commands.placement import cordoned_brokers, describe_brokers
from broker.cli.grammar.units import format_count, format_size
from broker.cli.output import Column
from broker.client.admin import (
    Admin,
    ClusterDescription,
    LogDir,
    PartitionReassignment,
    QuorumDescription,
    Results,
    TopicDescription,
)
from broker.client.environment import Environment
from broker.client.errors import ClientError, TimedOut
from broker.client.types import TopicPartition
from broker.wire.uuids import encode_uuid
from kraft.description import SILENT_MS

# A volume with less room than this is reported.
_FREE_MIN: Final = 0.1
# A voter that lags the leader of the quorum by this many records is reported.
_VOTER_LAG_MAX: Final = 1000
# A leader that has just been elected may not have heard of its voters yet.
_ELECTION_SECONDS: Final = 1.0
# How long an active controller, and each broker, is waited for.
_TIMEOUT_MS: Final = 10_000
_ALIVE: Final = "alive"
_CORDONED: Final = "cordoned"


@attrs.frozen
class ControllerHealth:
    """A voter of the quorum. `lag` is in records of the metadata log.

    `silent_ms` is the time since the voter has last fetched from the leader; null if it has not since the election.
    `replaced_by` is the directory id of a node with the voter's id and another disk, which has no vote.
    """

    id: int
    directory_id: str
    is_leader: bool
    lag: int
    silent_ms: int | None
    replaced_by: str | None

    @property
    def is_silent(self) -> bool:
        return self.silent_ms is None or self.silent_ms > SILENT_MS


@attrs.frozen
class BrokerHealth:
    """A broker. `is_alive` is the cluster's view; `unreachable` says why this command got no answer from it.

    `disk_free` is the free fraction of its fullest volume, null if the broker does not report it. A cordoned broker
    gets no new replicas (KIP-1066): `kraft cluster drain` cordons.
    """

    id: int
    address: str
    rack: str | None
    is_alive: bool
    unreachable: str | None
    leaders: int
    replicas: int
    size_bytes: int | None
    disk_free: float | None
    failed_log_dirs: int
    is_cordoned: bool


@attrs.frozen
class ClusterHealth:
    """A cluster. `leader_skew` is how far the broker with the most leaders is above the average: 0.5 is 50 % more.
    Drained brokers do not count, nor do replicas that a reassignment adds as `under_replicated`, as in Apache Kafka.

    `under_min_isr` partitions refuse writes with acks=all. `reassignments` are under way. Partitions beyond the first
    5,000, and those whose leader does not answer, are not searched for hanging transactions: `hanging_unsearched`
    counts them.
    """

    cluster_id: str
    is_healthy: bool
    problems: list[str]
    controllers: list[ControllerHealth]
    brokers: list[BrokerHealth]
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    under_min_isr: int
    reassignments: int
    hanging_transactions: int
    hanging_unsearched: int
    damaged_replicas: int
    not_led_by_preferred: int
    leader_skew: float


CONTROLLER_COLUMNS: Sequence[Column[ControllerHealth]] = (
    Column("controller", lambda row: row.id, is_number=True),
    Column("role", lambda row: "leader" if row.is_leader else "voter", style=lambda row: "bold" * row.is_leader),
    Column("state", lambda row: _controller_state(row), style=lambda row: _state_style(_controller_state(row))),
    Column("lag", lambda row: row.lag, True, lambda row: "yellow" if row.lag > _VOTER_LAG_MAX else ""),
)
BROKER_COLUMNS: Sequence[Column[BrokerHealth]] = (
    Column("broker", lambda row: row.id, is_number=True),
    Column("address", lambda row: row.address),
    Column("rack", lambda row: row.rack or "-"),
    Column("state", lambda row: _broker_state(row), style=lambda row: _state_style(_broker_state(row))),
    Column("leaders", lambda row: row.leaders, is_number=True),
    Column("replicas", lambda row: row.replicas, is_number=True),
    Column("size", lambda row: "-" if row.size_bytes is None else format_size(row.size_bytes), is_number=True),
    Column("disk free", lambda row: _percent(row.disk_free), True, lambda row: _disk_style(row.disk_free)),
)


async def examine_cluster(admin: Admin) -> ClusterHealth:
    """Request everything that the health of the cluster consists of. Raises ClientError, KafkaError."""
    cluster = await describe_brokers(admin)
    names = [topic.name for topic in await admin.list_topics(include_internal=True)]
    topics = (await admin.describe_topics(names)).succeeded if names else {}
    alive = [node.id for node in cluster.nodes if node.id not in cluster.fenced]
    asked_ms = Environment().now_ms()
    log_dirs = await admin.describe_log_dirs(alive, timeout_ms=_TIMEOUT_MS)
    answered_ms = Environment().now_ms()
    brokers = _brokers(cluster, list(topics.values()), log_dirs)
    silent = {broker for broker, error in log_dirs.failed.items() if isinstance(error, ClientError)}
    facts = await request_partition_facts(admin, topics.values(), alive, silent, _TIMEOUT_MS)
    # Last: without an active controller, the broker that is asked answers nothing else meanwhile.
    controllers = await _examine_quorum(admin)
    damage = list(_damage_problems(log_dirs.succeeded))
    if any(controller.is_leader for controller in controllers):
        facts = attrs.evolve(facts, moving=await _reassignments(admin))
    problems = [
        *_controller_problems(controllers),
        *_broker_problems(brokers, facts.replicas_max),
        *clock_problems(log_dirs.succeeded, asked_ms, answered_ms),
        *_metadata_problems(log_dirs.succeeded),
        *_first(damage),
        *partition_problems(facts),
    ]
    return _health(cluster, controllers, brokers, facts, problems, len(damage))


async def _reassignments(admin: Admin) -> dict[TopicPartition, PartitionReassignment]:
    """The reassignments that are under way; none if the active controller is lost meanwhile."""
    try:
        return await admin.list_partition_reassignments(timeout_ms=_TIMEOUT_MS)
    except TimedOut:
        return {}


async def _examine_quorum(admin: Admin) -> list[ControllerHealth]:
    """The voters as the active controller sees them; none if there is no active controller."""
    try:
        voters = _voters(await admin.describe_metadata_quorum(timeout_ms=_TIMEOUT_MS))
        if any(voter.silent_ms is None for voter in voters):
            await trio.sleep(_ELECTION_SECONDS)
            voters = _voters(await admin.describe_metadata_quorum(timeout_ms=_TIMEOUT_MS))
    except TimedOut:
        return []
    return voters


def _voters(quorum: QuorumDescription) -> list[ControllerHealth]:
    end = max((voter.log_end_offset for voter in quorum.voters), default=0)
    # The leader's own time is that of the response.
    now_ms = next((voter.last_fetch_ms for voter in quorum.voters if voter.id == quorum.leader_id), None)
    observers = {observer.id: observer.directory_id for observer in quorum.observers}
    return [
        ControllerHealth(
            voter.id,
            encode_uuid(voter.directory_id),
            voter.id == quorum.leader_id,
            max(0, end - voter.log_end_offset),
            None if now_ms is None or voter.last_fetch_ms is None else max(0, now_ms - voter.last_fetch_ms),
            encode_uuid(observers[voter.id]) if voter.id in observers else None,
        )
        for voter in sorted(quorum.voters, key=lambda voter: voter.id)
    ]


def _broker_state(broker: BrokerHealth) -> str:
    if not broker.is_alive:
        return "down"
    if broker.unreachable is not None:
        return "unreachable"
    return _CORDONED if broker.is_cordoned else _ALIVE


def _controller_state(voter: ControllerHealth) -> str:
    if voter.replaced_by is not None:
        return "has another disk"
    if voter.silent_ms is None:
        return "down"
    return f"silent for {voter.silent_ms // 1000} s" if voter.is_silent else _ALIVE


def _lacks_vote(voter: ControllerHealth) -> bool:
    return voter.is_silent or voter.replaced_by is not None


def _brokers(
    cluster: ClusterDescription, topics: Iterable[TopicDescription], log_dirs: Results[int, dict[str, LogDir]]
) -> list[BrokerHealth]:
    partitions = [partition for topic in topics for partition in topic.partitions]
    leaders = Counter(partition.leader for partition in partitions)
    replicas = Counter(replica for partition in partitions for replica in partition.replicas)
    listed = {node.id: node for node in cluster.nodes}
    cordoned = cordoned_brokers(log_dirs.succeeded)
    # A broker that is gone for good is still named by the replicas that it had.
    ids = sorted({*listed, *replicas})
    rows = []
    for broker_id in ids:
        node, directories = listed.get(broker_id), log_dirs.succeeded.get(broker_id)
        found = list((directories or {}).values())
        rows.append(
            BrokerHealth(
                broker_id,
                "-" if node is None else f"{node.host}:{node.port}",
                None if node is None else node.rack,
                node is not None and broker_id not in cluster.fenced,
                str(log_dirs.failed[broker_id]) if broker_id in log_dirs.failed else None,
                leaders[broker_id],
                replicas[broker_id],
                None if directories is None else _size(found),
                None if directories is None else _free(found),
                sum(directory.error is not None for directory in found),
                broker_id in cordoned,
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
    facts: PartitionFacts,
    problems: list[str],
    damaged_replicas: int,
) -> ClusterHealth:
    return ClusterHealth(
        cluster.cluster_id,
        not problems,
        problems,
        controllers,
        brokers,
        len({name.topic for name in facts.partitions}),
        len(facts.partitions),
        len(facts.without_leader),
        len(facts.under_replicated),
        len(facts.under_min_isr),
        len(facts.moving),
        len(facts.hanging),
        facts.unsearched,
        damaged_replicas,
        facts.not_led_by_preferred,
        _leader_skew(
            [broker.leaders for broker in brokers if broker.is_alive and (broker.leaders or not broker.is_cordoned)]
        ),
    )


def _leader_skew(leaders: Sequence[int]) -> float:
    average = sum(leaders) / len(leaders) if leaders else 0
    return round(max(leaders) / average - 1, 3) if average else 0.0


def _first(damage: Sequence[str]) -> list[str]:
    more = len(damage) - NAMED_MAX
    return [*damage[:NAMED_MAX], *([f"{more} more replicas are damaged"] if more > 0 else [])]


def _broker_problems(brokers: Sequence[BrokerHealth], replicas_max: Mapping[int, int]) -> Iterable[str]:
    alive = sum(broker.is_alive for broker in brokers)
    for broker in brokers:
        if not broker.is_alive:
            yield _down(broker, replicas_max[broker.id] - alive)
        elif broker.unreachable is not None:
            yield (
                f"broker {broker.id} is alive for the cluster, and does not answer here at {broker.address}: "
                f"{broker.unreachable}; if clients cannot reach that address either, mend its advertised.listeners "
                "and restart it"
            )
        if broker.failed_log_dirs:
            yield f"broker {broker.id} has {broker.failed_log_dirs} failed log directories; see `kraft log-dirs`"
        if broker.disk_free is not None and broker.disk_free < _FREE_MIN:
            yield f"broker {broker.id} has {_percent(broker.disk_free)} of a disk left: free some room"


def _down(broker: BrokerHealth, lacking: int) -> str:
    """A broker that is down. `lacking` brokers have to be added before others can have its replicas."""
    start = (
        f"broker {broker.id} is down: start it again with `kraft start <its server.properties>`, whose last lines say "
        "why if it ends (a full disk, a lost disk)"
    )
    remove = f"`kraft cluster unregister {broker.id}`"
    if not broker.replicas:
        return f"{start}; if it is gone for good, {remove}"
    first = f"start {format_count(lacking, 'more broker')}, then " if lacking > 0 else ""
    return (
        f"{start}; if it is gone for good, move its {broker.replicas} replicas: {first}`kraft cluster drain "
        f"{broker.id}`, then {remove}"
    )


def _controller_problems(controllers: Sequence[ControllerHealth]) -> Iterable[str]:
    if not any(controller.is_leader for controller in controllers):
        yield (
            "the controllers have no leader, or the brokers do not reach it: nothing can be created or changed; start "
            "the controllers that are down"
        )
        return
    for controller in controllers:
        remove = f"kraft quorum remove-controller -i {controller.id} -d {controller.directory_id}"
        if controller.replaced_by is not None:
            yield (
                f"controller {controller.id} runs with another disk than the one that has its vote: `{remove}`, then "
                "`kraft quorum --command-config <its server.properties> add-controller`"
            )
        elif controller.is_silent:
            yield f"{_silence(controller)}: start it again; if it is gone for good, `{remove}`"
        elif controller.lag > _VOTER_LAG_MAX:
            yield f"controller {controller.id} is {controller.lag} records behind the leader: check that it runs"
    lost = sum(map(_lacks_vote, controllers))
    if lost and (len(controllers) - 1) // 2 <= lost:
        yield f"{len(controllers) - lost} of {len(controllers)} controllers vote: no further one may be lost"


def _silence(controller: ControllerHealth) -> str:
    if controller.silent_ms is None:
        return f"controller {controller.id} is down: it has not fetched since the leader was elected"
    return f"controller {controller.id} is down: it has not fetched for {controller.silent_ms // 1000} s"


def _damage_problems(log_dirs: Mapping[int, Mapping[str, LogDir]]) -> Iterable[str]:
    for broker_id, directories in sorted(log_dirs.items()):
        for directory in directories.values():
            for partition, damage in sorted(directory.damaged.items()):
                yield (
                    f"{partition.topic}-{partition.partition} is damaged on broker {broker_id}, at offsets "
                    f"{damage.first_offset} to {damage.end_offset - 1} in {damage.path} ({damage.cause}): "
                    f"{damage.remedy}"
                )


def _metadata_problems(log_dirs: Mapping[int, Mapping[str, LogDir]]) -> Iterable[str]:
    for broker_id, directories in sorted(log_dirs.items()):
        for directory in directories.values():
            for path, problem in sorted(directory.unrepaired_files.items()):
                yield (
                    f"{path} of the metadata is damaged on broker {broker_id} ({problem}): a new snapshot replaces it "
                    "as soon as all entries are committed, for which a majority of the controllers has to run"
                )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


def _state_style(state: str) -> str:
    return "green" if state == _ALIVE else "yellow" if state == _CORDONED else "red"


def _disk_style(share: float | None) -> str:
    return "red" if share is not None and share < _FREE_MIN else ""
