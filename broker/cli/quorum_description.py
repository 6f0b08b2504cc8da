"""What `kraft quorum describe` prints: the lines and columns of `kafka-metadata-quorum`, which scripts read."""

from collections.abc import Iterable, Sequence
from typing import Final

from broker.wire.api.describe_quorum import DescribeQuorumResponse, Node, PartitionData, ReplicaState
from broker.wire.uuids import ZERO_UUID, encode_uuid

COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
_UNKNOWN: Final = -1


class NoLeader(Exception):
    """The answer names no leader among the voters, so nothing can be compared with it."""


def status_lines(cluster_id: str, response: DescribeQuorumResponse) -> list[str]:
    """`describe --status`. Raises NoLeader."""
    partition = response.topics[0].partitions[0]
    lag, lag_ms = _max_follower_lag(partition)
    return [
        f"ClusterId:              {cluster_id}",
        f"LeaderId:               {partition.leader_id}",
        f"LeaderEpoch:            {partition.leader_epoch}",
        f"HighWatermark:          {partition.high_watermark}",
        f"MaxFollowerLag:         {lag}",
        f"MaxFollowerLagTimeMs:   {lag_ms}",
        f"CurrentVoters:          {_replicas(partition.current_voters, response.nodes)}",
        f"CurrentObservers:       {_replicas(partition.observers, response.nodes)}",
    ]


def replication_lines(response: DescribeQuorumResponse, *, now_ms: int | None) -> list[str]:
    """`describe --replication`; given the time, with times as how long they are ago. Raises NoLeader."""
    partition = response.topics[0].partitions[0]
    leader = _leader(partition)
    followers = [voter for voter in partition.current_voters if voter is not leader]
    rows = [
        _row(leader, each, status, now_ms)
        for replicas, status in (([leader], "Leader"), (followers, "Follower"), (partition.observers, "Observer"))
        for each in replicas
    ]
    return _table([COLUMNS, *rows])


def _leader(partition: PartitionData) -> ReplicaState:
    for voter in partition.current_voters:
        if voter.replica_id == partition.leader_id:
            return voter
    raise NoLeader("The leader of the quorum is not known, or no voter any more.")


def _max_follower_lag(partition: PartitionData) -> tuple[int, int]:
    """Of the voter that is furthest behind: by how many records, and for how long; -1 ms where that is unknown."""
    leader = _leader(partition)
    last = min(partition.current_voters, key=lambda voter: voter.log_end_offset)
    lag = leader.log_end_offset - last.log_end_offset
    if last is leader:
        return lag, 0
    times = (leader.last_caught_up_timestamp, last.last_caught_up_timestamp)
    return lag, _UNKNOWN if _UNKNOWN in times else times[0] - times[1]


def _replicas(replicas: Iterable[ReplicaState], nodes: Sequence[Node]) -> str:
    """`[{"id": 1, "directoryId": "...", "endpoints": ["CONTROLLER://host:port"]}, ...]`"""
    endpoints = {
        node.node_id: [f'"{each.name}://{_host(each.host)}:{each.port}"' for each in node.listeners] for node in nodes
    }
    shown = []
    for replica in replicas:
        directory_id = replica.replica_directory_id
        fields = [
            f'"id": {replica.replica_id}',
            f'"directoryId": {"null" if directory_id == ZERO_UUID else _quoted(encode_uuid(directory_id))}',
        ]
        if own := endpoints.get(replica.replica_id):
            fields.append(f'"endpoints": [{", ".join(own)}]')
        shown.append(f"{{{', '.join(fields)}}}")
    return f"[{', '.join(shown)}]"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _row(leader: ReplicaState, replica: ReplicaState, status: str, now_ms: int | None) -> tuple[str, ...]:
    def shown(time_ms: int) -> str:
        return str(time_ms) if time_ms == _UNKNOWN or now_ms is None else f"{now_ms - time_ms} ms ago"

    return (
        str(replica.replica_id),
        encode_uuid(replica.replica_directory_id),
        str(replica.log_end_offset),
        str(leader.log_end_offset - replica.log_end_offset),
        shown(replica.last_fetch_timestamp),
        shown(replica.last_caught_up_timestamp),
        status,
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in rows]
