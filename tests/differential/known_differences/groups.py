"""The differences of the families of groups."""

from collections.abc import Sequence
from typing import Any, Final

from tests.differential.execution import WAITING, Outcome
from tests.differential.families.groups.classic_steps import Join, Leave, Sync
from tests.differential.families.groups.consumer_steps import ConsumerHeartbeat
from tests.differential.families.groups.members import Epoch
from tests.differential.families.groups.offset_steps import Commit
from tests.differential.known_differences.bare_groups import bare_groups
from tests.differential.known_differences.entries import KnownDifference, Situation, anything, error_code, is_text

_NO_TOPICS: Final = (
    "a member that joins without topics, after another has left, is assigned nothing; Kafka takes it for one that is"
    " subscribed as the others are, or these for one as it is"
)

_NO_RECORD: Final = (
    "a group is described and listed once a member joins; in Kafka, a commit whose offsets are refused makes a group"
    " without a record, and a group of which no record is written yet is neither"
)
_JOINING: Final = ("PreparingRebalance", "CompletingRebalance")


def _joined_without_topics(situation: Situation) -> bool:
    """True if a member has left, and later one has joined without topics."""
    has_left = False
    for each in situation.earlier:
        if isinstance(each.step, ConsumerHeartbeat) and error_code(each) == "NONE":
            if has_left and each.step.epoch == 0 and each.step.topics == ():
                return True
            has_left = has_left or each.value["member_epoch"] == -1
    return False


def _has_several_random_ids(situation: Situation) -> bool:
    """True if several members have joined with version 0, in which the coordinator makes their ids."""
    joined = {
        each.value["member_id"]
        for each in (*situation.earlier, situation.kafka)
        if isinstance(each.step, ConsumerHeartbeat)
        and (each.step.version, each.step.epoch) == (0, 0)
        and error_code(each) == "NONE"
    }
    return len(joined) > 1


def _accepted_assignors(situation: Situation) -> set[str]:
    return {
        each.step.assignor
        for each in situation.earlier
        if isinstance(each.step, ConsumerHeartbeat) and each.step.assignor and error_code(each) == "NONE"
    }


def _leader_has_gone(situation: Situation) -> bool:
    """True if a member has left, or the leader of the last generation has not joined again in time."""
    if any(isinstance(each.step, Leave) for each in situation.earlier):
        return True
    leaders = [
        each.value["leader"] for each in situation.earlier if isinstance(each.step, Join) and error_code(each) == "NONE"
    ]
    now = (situation.kafka.value["leader"], situation.ours.value["leader"])
    return bool(leaders) and leaders[-1] not in now


def _has_no_record(situation: Situation) -> bool:
    """True if a commit that was refused has made the group in Kafka, and no sync has made a record of it since."""
    names = [_outcome_name(each) for each in situation.earlier]
    return "refused" in names and "synced" not in names[names.index("refused") :]


def _lacks_joining_groups(kafka: Any, ours: Any) -> bool:
    return all(each in ours for each in kafka) and all(
        each["group_state"] in _JOINING for each in ours if each not in kafka
    )


def _outcome_name(outcome: Outcome) -> str | None:
    if isinstance(outcome.step, Sync) and error_code(outcome) == "NONE":
        return "synced"
    if not isinstance(outcome.step, Commit) or not isinstance(outcome.value, dict):
        return None
    codes = {partition["error_code"] for topic in outcome.value["topics"] for partition in topic["partitions"]}
    return "refused" if codes == {"OFFSET_METADATA_TOO_LARGE"} else None


GROUPS: Final[Sequence[KnownDifference]] = (
    *(
        KnownDifference(
            family="classic-groups",
            step=step,
            path="",
            kafka=WAITING,
            ours=lambda response: isinstance(response, dict) and response["error_code"] == "REBALANCE_IN_PROGRESS",
            reason="if a member joins or syncs again on another connection, its first request is completed; Kafka never"
            " responds to it, which blocks the first connection",
            diverges=True,
        )
        for step in ("Join", "Sync")
    ),
    KnownDifference(
        family="classic-groups",
        step="Sync",
        path="",
        kafka=WAITING,
        ours=lambda response: isinstance(response, dict) and response["error_code"] == "UNKNOWN_MEMBER_ID",
        reason="if a member leaves whose sync waits, the sync is completed; Kafka never responds to it, which blocks"
        " the connection",
        diverges=True,
    ),
    KnownDifference(
        family="classic-groups",
        step="Join",
        path="error_code",
        kafka="UNKNOWN_SERVER_ERROR",
        ours=("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"),
        reason="a client that was given a member id and then joins with an instance id as well is unknown; Kafka takes"
        " that for a bug of its own",
        where=lambda step: step.instance is not None,
    ),
    KnownDifference(
        family="classic-groups",
        step="Join",
        path="member_id",
        kafka="",
        ours=lambda member_id: bool(member_id),
        reason="the response to a join that fails as above has the member id of its request",
        where=lambda step: step.instance is not None,
    ),
    KnownDifference(
        family="classic-groups",
        step="Join",
        path="leader|members",
        kafka=lambda value: bool(value) or value == [],
        ours=lambda value: bool(value) or value == [],
        reason="after the leader has left, or has not joined again in time, the first of the other members leads; Kafka"
        " takes one in the order of the hashes of their ids",
        when=lambda situation: situation.error_codes == ("NONE", "NONE") and _leader_has_gone(situation),
        diverges=True,
    ),
    *(
        KnownDifference(
            family="classic-groups",
            step="DescribeGroups",
            path=rf"groups\[\d+\]\.{path}",
            kafka=kafka,
            ours=ours,
            reason=_NO_RECORD,
            when=_has_no_record,
        )
        for path, kafka, ours in (
            ("error_code", "GROUP_ID_NOT_FOUND", "NONE"),
            ("error_message", is_text, None),
            ("group_state", "Dead", _JOINING),
            ("protocol_type", "", "consumer"),
            ("members", [], lambda members: bool(members)),
        )
    ),
    KnownDifference(
        family="classic-groups",
        step="ListGroups",
        path="groups",
        kafka=anything,
        ours=anything,
        accepts_both=_lacks_joining_groups,
        reason=_NO_RECORD,
        when=_has_no_record,
    ),
    *(
        KnownDifference(
            family=family,
            step="FetchOffsets",
            path=r"groups\[\d+\]\.error_code",
            kafka="UNKNOWN_SERVER_ERROR",
            ours="UNKNOWN_MEMBER_ID",
            reason="a member epoch without a member id belongs to no member; Kafka fails at that",
            where=lambda step: step.epoch is not Epoch.NONE,
        )
        for family in ("consumer-groups", "mixed-groups")
    ),
    *(
        KnownDifference(
            family=family,
            step=step,
            path="heartbeat_interval_ms",
            kafka=lambda interval_ms: interval_ms > 0,
            ours=lambda interval_ms: interval_ms > 0,
            reason="members heartbeat more often while partitions move; Kafka's interval is always the configured one",
        )
        for family, step in (("consumer-groups", "ConsumerHeartbeat"), ("mixed-groups", "MixedHeartbeat"))
    ),
    KnownDifference(
        family="consumer-groups",
        step="ConsumerHeartbeat",
        path=r"assignment|assignment\.topic_partitions|member_epoch",
        kafka=lambda value: True,
        ours=lambda value: True,
        reason="the topics of a regular expression are known in the response to the heartbeat that has it; Kafka looks"
        " them up later, and assigns them in the response to a later heartbeat",
        where=lambda step: step.regex is not None,
        diverges=True,
    ),
    KnownDifference(
        family="consumer-groups",
        step="ConsumerHeartbeat",
        path=r"assignment\.topic_partitions",
        kafka=[],
        ours=lambda assigned: bool(assigned),
        reason="a member that joins again, with an instance id that is new, has its target assignment; Kafka looks that"
        " up by the instance id alone, and leaves its partitions without a consumer until the next assignment",
        where=lambda step: step.epoch == 0 and step.instance is not None,
        diverges=True,
    ),
    *(
        KnownDifference(
            family="consumer-groups",
            step=step,
            path=path,
            kafka=anything,
            ours=anything,
            reason=_NO_TOPICS,
            when=_joined_without_topics,
            diverges=True,
        )
        for step, path in (
            ("ConsumerHeartbeat", "member_epoch|assignment.*"),
            ("DescribeConsumerGroups", r"groups\[\d+\]\.members\[\d+\]\.(target_)?assignment.*"),
        )
    ),
    *(
        KnownDifference(
            family="consumer-groups",
            step=step,
            path=path,
            kafka=anything,
            ours=anything,
            reason="ids that the coordinator makes are random, and partitions are assigned in the order of the ids;"
            " this is about sequences with several such ids",
            when=_has_several_random_ids,
            diverges=True,
        )
        for step, path in (
            ("ConsumerHeartbeat", "member_epoch|assignment.*"),
            ("DescribeConsumerGroups", r"groups\[\d+\]\.members\[\d+\]\.(target_)?assignment.*"),
        )
    ),
    KnownDifference(
        family="consumer-groups",
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.assignor_name",
        kafka=("range", "uniform"),
        ours=("range", "uniform"),
        reason="of assignors that as many members prefer, the first by name counts; Kafka takes one in the order of"
        " their hashes",
        when=lambda situation: len(_accepted_assignors(situation)) > 1,
    ),
    *(each for family in ("classic-groups", "consumer-groups", "mixed-groups") for each in bare_groups(family)),
)
