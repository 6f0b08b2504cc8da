"""The output of `kraft quorum describe`: the lines and columns of `kafka-metadata-quorum`, which scripts read."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from broker.cli.grammar import CommandFailed
from broker.client.admin import QuorumDescription, QuorumReplica, RaftEndpoint
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
_STATUSES: Final = ("Leader", "Follower", "Observer")


@attrs.frozen
class ReplicaRow:
    """A voter or an observer. `status` is Leader, Follower or Observer; -1 is a time that is not known."""

    node_id: int
    directory_id: str
    status: str
    log_end_offset: int
    lag: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int
    endpoints: list[str]


@attrs.frozen
class DescribedQuorum:
    """The quorum as its leader sees it. The lag is the largest lag of a voter; -1 ms is unknown."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    high_watermark: int
    max_follower_lag: int
    max_follower_lag_ms: int
    replicas: list[ReplicaRow]


class NoLeader(CommandFailed):
    """The answer names no leader among the voters, so nothing can be compared with it."""


def describe_quorum(cluster_id: str, quorum: QuorumDescription) -> DescribedQuorum:
    """Builds the description from the response. Raises NoLeader if the leader is not among the voters."""
    leaders = [voter for voter in quorum.voters if voter.id == quorum.leader_id]
    if not leaders:
        raise NoLeader("The leader of the quorum is unknown, or is not a voter any more.")
    leader = leaders[0]
    voters = [("Leader" if voter is leader else "Follower", voter) for voter in quorum.voters]
    observers = [("Observer", observer) for observer in quorum.observers]
    replicas = [
        _replica(each, status, leader, quorum.endpoints.get(each.id, ())) for status, each in (*voters, *observers)
    ]
    lag, lag_ms = _max_follower_lag(leader, quorum.voters)
    return DescribedQuorum(cluster_id, leader.id, quorum.leader_epoch, quorum.high_watermark, lag, lag_ms, replicas)


def status_lines(quorum: DescribedQuorum) -> list[str]:
    """`describe --status`."""
    voters = [replica for replica in quorum.replicas if replica.status != "Observer"]
    observers = [replica for replica in quorum.replicas if replica.status == "Observer"]
    return [
        f"ClusterId:              {quorum.cluster_id}",
        f"LeaderId:               {quorum.leader_id}",
        f"LeaderEpoch:            {quorum.leader_epoch}",
        f"HighWatermark:          {quorum.high_watermark}",
        f"MaxFollowerLag:         {quorum.max_follower_lag}",
        f"MaxFollowerLagTimeMs:   {quorum.max_follower_lag_ms}",
        f"CurrentVoters:          {_replicas(voters)}",
        f"CurrentObservers:       {_replicas(observers)}",
    ]


def replication_lines(quorum: DescribedQuorum, *, now_ms: int | None) -> list[str]:
    """`describe --replication`; given the time, with times as how long they are ago."""

    def shown(time_ms: int) -> str:
        return str(time_ms) if time_ms == _UNKNOWN or now_ms is None else f"{now_ms - time_ms} ms ago"

    rows = [
        (
            str(each.node_id),
            each.directory_id,
            str(each.log_end_offset),
            str(each.lag),
            shown(each.last_fetch_timestamp_ms),
            shown(each.last_caught_up_timestamp_ms),
            each.status,
        )
        for each in sorted(quorum.replicas, key=lambda replica: _STATUSES.index(replica.status))
    ]
    return _table([COLUMNS, *rows])


def _replica(
    replica: QuorumReplica, status: str, leader: QuorumReplica, endpoints: Iterable[RaftEndpoint]
) -> ReplicaRow:
    return ReplicaRow(
        replica.id,
        encode_uuid(replica.directory_id),
        status,
        replica.log_end_offset,
        leader.log_end_offset - replica.log_end_offset,
        _UNKNOWN if replica.last_fetch_ms is None else replica.last_fetch_ms,
        _UNKNOWN if replica.last_caught_up_ms is None else replica.last_caught_up_ms,
        [f"{each.listener}://{_host(each.host)}:{each.port}" for each in endpoints],
    )


def _max_follower_lag(leader: QuorumReplica, voters: Sequence[QuorumReplica]) -> tuple[int, int]:
    """The lag of the voter that lags most, in records and in milliseconds; -1 ms if that is unknown."""
    last = min(voters, key=lambda voter: voter.log_end_offset)
    lag = leader.log_end_offset - last.log_end_offset
    if last is leader:
        return lag, 0
    if leader.last_caught_up_ms is None or last.last_caught_up_ms is None:
        return lag, _UNKNOWN
    return lag, leader.last_caught_up_ms - last.last_caught_up_ms


def _replicas(replicas: Iterable[ReplicaRow]) -> str:
    """`[{"id": 1, "directoryId": "...", "endpoints": ["CONTROLLER://host:port"]}, ...]`"""
    shown = []
    for replica in replicas:
        is_known = replica.directory_id != encode_uuid(ZERO_UUID)
        fields: dict[str, object] = {"id": replica.node_id, "directoryId": replica.directory_id if is_known else None}
        if replica.endpoints:
            fields["endpoints"] = replica.endpoints
        shown.append(fields)
    return json.dumps(shown, ensure_ascii=False)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in rows]
