"""`kraft quorum describe`: the lines that `kafka-metadata-quorum` prints, of answers as DescribeQuorum gives them."""

import attrs
import pytest

from broker.cli.commands.quorum_description import (
    NoLeader,
    QuorumDescription,
    describe_quorum,
    replication_lines,
    status_lines,
)
from broker.wire.api.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from broker.wire.uuids import ZERO_UUID, decode_uuid

DIRECTORIES = tuple(map(decode_uuid, ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")))
LEADER = ReplicaState(
    replica_id=1,
    replica_directory_id=DIRECTORIES[0],
    log_end_offset=120,
    last_fetch_timestamp=1_000_000,
    last_caught_up_timestamp=1_000_000,
)
FOLLOWER = ReplicaState(
    replica_id=2,
    replica_directory_id=DIRECTORIES[1],
    log_end_offset=115,
    last_fetch_timestamp=999_900,
    last_caught_up_timestamp=999_400,
)
OBSERVER = ReplicaState(replica_id=4, replica_directory_id=DIRECTORIES[2], log_end_offset=-1)


def answer(
    voters: list[ReplicaState], observers: list[ReplicaState] | None = None, leader_id: int = 1
) -> DescribeQuorumResponse:
    partition = PartitionData(
        leader_id=leader_id, leader_epoch=7, high_watermark=118, current_voters=voters, observers=observers or []
    )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[partition])],
        nodes=[
            Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="localhost", port=9093)]),
            Node(node_id=2, listeners=[Listener(name="CONTROLLER", host="::1", port=9095)]),
        ],
    )


def describe(voters: list[ReplicaState], observers: list[ReplicaState] | None = None) -> QuorumDescription:
    return describe_quorum("4L6g3nShT-eMCtK--X86sw", answer(voters, observers))


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
    voter = attrs.evolve(LEADER, replica_directory_id=ZERO_UUID)
    lines = status_lines(describe([voter]))
    assert lines[-2].endswith('[{"id": 1, "directoryId": null, "endpoints": ["CONTROLLER://localhost:9093"]}]')


@pytest.mark.parametrize(
    ("voters", "lag", "lag_ms"),
    [
        ([LEADER], 0, 0),
        ([LEADER, attrs.evolve(FOLLOWER, log_end_offset=120)], 0, 0),
        ([LEADER, attrs.evolve(FOLLOWER, last_caught_up_timestamp=-1)], 5, -1),
    ],
)
def test_how_far_the_last_voter_is_behind(voters: list[ReplicaState], lag: int, lag_ms: int) -> None:
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
