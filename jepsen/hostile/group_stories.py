"""Members of groups that join and then send invalid requests, to reach states that need valid requests first."""

from typing import Any, Final

from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from jepsen.hostile.composer import REGEXES, STRINGS, SUBSCRIPTION
from jepsen.hostile.frames import Frame
from jepsen.hostile.story import Story, StoryTools
from jepsen.hostile.target import CLASSIC_GROUPS, CONSUMER_GROUPS, INSTANCES, MEMBERS, TOPICS

_EPOCHS: Final = (-1, -2, 0, 1, 2, 2**31 - 1, -(2**31), -3)


def classic_group(tools: StoryTools) -> Story:
    """A classic member joins and gets its id and generation; then it sends invalid heartbeats, commits and syncs."""
    rng = tools.rng
    group, instance = rng.choice(CLASSIC_GROUPS), rng.choice((None, None, *INSTANCES))
    metadata = rng.choice((SUBSCRIPTION, SUBSCRIPTION, b"", SUBSCRIPTION[:9], b"\xff" * 12))
    protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in ("range", "sticky")]
    member_id = ""
    for _ in range(3):
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=rng.choice((100, 500)),
            rebalance_timeout_ms=30,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=protocols[: rng.choice((1, 2, 2))],
        )
        (response,) = yield [tools.request(join, rng.choice((5, 6, 7, 8, 9)))]
        member_id = getattr(response, "member_id", "") or member_id
        generation = getattr(response, "generation_id", -1)
        yield [_of_member(tools, group, member_id, generation, instance) for _ in range(rng.randint(4, 12))]
    yield [
        tools.request(
            LeaveGroupRequest(group_id=group, member_id=member_id, members=[MemberIdentity(member_id=member_id)])
        )
    ]


def consumer_group(tools: StoryTools) -> Story:
    """A consumer group member (KIP-848) joins, and then sends invalid epochs and partitions."""
    rng = tools.rng
    group, member = rng.choice(CONSUMER_GROUPS), rng.choice(MEMBERS)
    instance = rng.choice((None, None, *INSTANCES))
    epoch, owned = 0, _owned(tools)
    for _ in range(4):
        joins = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            instance_id=instance,
            member_epoch=epoch,
            rebalance_timeout_ms=rng.choice((50, 1000)),
            subscribed_topic_names=rng.sample(TOPICS, rng.randrange(3)),
            subscribed_topic_regex=rng.choice((None, None, *REGEXES)),
            server_assignor=rng.choice((None, "uniform", "range", "none")),
            topic_partitions=[] if epoch == 0 else owned,
        )
        (response,) = yield [tools.request(joins)]
        epoch = max(0, getattr(response, "member_epoch", 0))
        assignment = getattr(response, "assignment", None)
        owned = getattr(assignment, "topic_partitions", None) or _owned(tools)
        frames = [_heartbeat(tools, group, member, epoch, owned) for _ in range(rng.randint(3, 9))]
        yield [*frames, tools.request(_commit(tools, group, member, epoch, None), rng.randint(9, 10))]
    yield [
        tools.request(
            ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=rng.choice((-1, -2)))
        )
    ]


def _heartbeat(tools: StoryTools, group: str, member: str, epoch: int, owned: list[Any]) -> Frame:
    """A heartbeat of a joined member, usually with an invalid field."""
    rng = tools.rng
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=rng.choice((member, member, member, *MEMBERS, rng.choice(STRINGS))),
        instance_id=rng.choice((None, None, *INSTANCES)),
        member_epoch=rng.choice((epoch, epoch, epoch, epoch - 1, epoch + 1, *_EPOCHS)),
        topic_partitions=rng.choice((None, [], _same(owned), _same(owned), _owned(tools))),
    )
    return tools.changed(request) if rng.random() < 0.15 else tools.request(request)


def _of_member(tools: StoryTools, group: str, member_id: str, generation: int, instance: str | None) -> Frame:
    """A request of a joined member, usually with an invalid field."""
    rng = tools.rng
    member_id = rng.choice((member_id, member_id, member_id, "", "nobody", rng.choice(STRINGS)))
    generation = rng.choice((generation, generation, generation, generation - 1, generation + 1, *_EPOCHS))
    message: Any
    match rng.randrange(4):
        case 0:
            message = HeartbeatRequest(
                group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
            )
        case 1:
            assigned = rng.choice((SUBSCRIPTION, b"", b"\xff" * 40, bytes(5_000)))
            message = SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member_id,
                protocol_type=rng.choice(("consumer", None, "connect")),
                protocol_name=rng.choice(("range", "sticky", None)),
                assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)] * rng.randrange(3),
            )
        case 2:
            message = _commit(tools, group, member_id, generation, instance)
        case _:
            identities = [MemberIdentity(member_id=rng.choice((member_id, "nobody")), group_instance_id=instance)]
            message = LeaveGroupRequest(group_id=group, member_id=member_id, members=identities * rng.randrange(3))
    return tools.changed(message) if rng.random() < 0.15 else tools.request(message)


def _commit(
    tools: StoryTools, group: str, member_id: str, generation: int, instance: str | None
) -> OffsetCommitRequest:
    rng = tools.rng
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=rng.choice((0, 1, 2, 99, -1)),
            committed_offset=rng.choice((0, 1, 100, -1, 2**63 - 1, -(2**63))),
            committed_leader_epoch=rng.choice((-1, 0, 1, 2**31 - 1, -2)),
            committed_metadata=rng.choice((None, "", "note", "x" * 4_097)),
        )
    ]
    topic = OffsetCommitRequestTopic(
        name=rng.choice(TOPICS), topic_id=rng.choice(tools.target.topic_ids), partitions=partitions * rng.randrange(3)
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[topic] * rng.choice((0, 1, 1, 1, 2)),
    )


def _owned(tools: StoryTools) -> list[TopicPartitions]:
    rng = tools.rng
    return [
        TopicPartitions(
            topic_id=rng.choice((*tools.target.topic_ids, bytes(16))),
            partitions=rng.choice(([0], [0, 0, 0], [-1], [2**31 - 1], [0, 1, 2], [])),
        )
    ] * rng.randrange(1, 3)


def _same(owned: list[Any]) -> list[TopicPartitions]:
    """Convert the assignment of a response to the form of a request."""
    return [TopicPartitions(topic_id=each.topic_id, partitions=list(each.partitions)) for each in owned]
