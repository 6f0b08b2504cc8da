"""`kraft quorum describe`: the lines that `kafka-metadata-quorum` prints, of quorums as an Admin describes them."""

import attrs
import pytest

from broker.cli.commands.quorum_description import (
    DescribedQuorum,
    NoLeader,
    describe_quorum,
    replication_lines,
    status_lines,
)
from broker.client.admin import QuorumDescription, QuorumReplica, RaftEndpoint
from broker.wire.uuids import ZERO_UUID, decode_uuid

DIRECTORIES = tuple(map(decode_uuid, ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")))
LEADER = QuorumReplica(1, DIRECTORIES[0], log_end_offset=120, last_fetch_ms=1_000_000, last_caught_up_ms=1_000_000)
FOLLOWER = QuorumReplica(2, DIRECTORIES[1], log_end_offset=115, last_fetch_ms=999_900, last_caught_up_ms=999_400)
OBSERVER = QuorumReplica(4, DIRECTORIES[2], log_end_offset=-1, last_fetch_ms=None, last_caught_up_ms=None)


def describe(voters: list[QuorumReplica], observers: list[QuorumReplica] | None = None) -> DescribedQuorum:
    quorum = QuorumDescription(
        leader_id=1,
        leader_epoch=7,
        high_watermark=118,
        voters=tuple(voters),
        observers=tuple(observers or ()),
        endpoints={
            1: (RaftEndpoint("CONTROLLER", "localhost", 9093),),
            2: (RaftEndpoint("CONTROLLER", "::1", 9095),),
        },
    )
    return describe_quorum("4L6g3nShT-eMCtK--X86sw", quorum)


def test_the_status() -> None:
    assert status_lines(describe([FOLLOWER, LEADER], [OBSERVER])) == [
        "ClusterId:              4L6g3nShT-eMCtK--X86sw",
        "LeaderId:               1",
        "LeaderEpoch:            7",
        "HighWatermark:          118",
        "MaxFollowerLag:         5",
        "MaxFollowerLagTimeMs:   600",
        'CurrentVoters:          [{"id": 2, "directoryId": "MvDxzVmcRsaTz33bUuRU6A", "endpoints": '
        '["CONTROLLER://[::1]:9095"]}, {"id": 1, "directoryId": "JEXY6aqzQY-32P5TStzaFg", "endpoints": '
        '["CONTROLLER://localhost:9093"]}]',
        'CurrentObservers:       [{"id": 4, "directoryId": "07R5amHmR32VDA6jHkGbTA"}]',
    ]


def test_a_directory_that_is_not_known_is_null() -> None:
    voter = attrs.evolve(LEADER, directory_id=ZERO_UUID)
    lines = status_lines(describe([voter]))
    assert lines[-2].endswith('[{"id": 1, "directoryId": null, "endpoints": ["CONTROLLER://localhost:9093"]}]')


@pytest.mark.parametrize(
    ("voters", "lag", "lag_ms"),
    [
        ([LEADER], 0, 0),
        ([LEADER, attrs.evolve(FOLLOWER, log_end_offset=120)], 0, 0),
        ([LEADER, attrs.evolve(FOLLOWER, last_caught_up_ms=None)], 5, -1),
    ],
)
def test_max_follower_lag_is_that_of_the_slowest_voter(voters: list[QuorumReplica], lag: int, lag_ms: int) -> None:
    assert status_lines(describe(voters))[4:6] == [
        f"MaxFollowerLag:         {lag}",
        f"MaxFollowerLagTimeMs:   {lag_ms}",
    ]


def test_the_replication() -> None:
    lines = replication_lines(describe([FOLLOWER, LEADER], [OBSERVER]), now_ms=None)
    assert lines == [
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t",
        "1     \tJEXY6aqzQY-32P5TStzaFg\t120         \t0  \t1000000           \t1000000              \tLeader  \t",
        "2     \tMvDxzVmcRsaTz33bUuRU6A\t115         \t5  \t999900            \t999400               \tFollower\t",
        "4     \t07R5amHmR32VDA6jHkGbTA\t-1          \t121\t-1                \t-1                   \tObserver\t",
    ]


def test_the_replication_for_humans() -> None:
    lines = replication_lines(describe([LEADER, FOLLOWER], [OBSERVER]), now_ms=1_000_250)
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines[1:]]
    assert [row[4:6] for row in cells] == [["250 ms ago", "250 ms ago"], ["350 ms ago", "850 ms ago"], ["-1", "-1"]]


def test_without_a_leader_among_the_voters_nothing_can_be_said() -> None:
    with pytest.raises(NoLeader):
        describe([FOLLOWER])
