"""The differences of groups with members of both protocols."""

from ast import literal_eval
from collections.abc import Sequence
from typing import Any, Final

from tests.differential.execution import WAITING, Outcome
from tests.differential.families.groups.classic_steps import Leave
from tests.differential.families.groups.members import Who
from tests.differential.families.groups.mixed_steps import MixedHeartbeat, MixedJoin
from tests.differential.known_differences.entries import KnownDifference, Situation, anything, error_code

_FAMILY: Final = "mixed-groups"
_JOIN: Final = "MixedJoin"
_HEARTBEAT: Final = "MixedHeartbeat"
_GENERATION: Final = "error_code|generation_id|protocol_type|protocol_name|leader|members"

_NONE: Final = "NONE"
_BOTH_SUCCEED: Final = (_NONE, _NONE)
_LEFT: Final = -1
_LEFT_FOR_A_WHILE: Final = -2
# The first version of JoinGroup with instance ids.
_INSTANCES_FROM: Final = 5

_EMPTY_GROUP: Final = (
    "a classic join that is refused leaves an empty consumer group as it is; Kafka makes it a classic group first"
)
_OUTDATED: Final = (
    "after a member has left, a classic member is told at once to join again; Kafka tells it after a heartbeat of a"
    " consumer or a join has computed the next assignment"
)
_RANDOM_IDS: Final = (
    "classic members have random ids, and partitions are assigned in the order of the ids; this is about sequences with"
    " several such ids"
)
_OTHER_PROTOCOL: Final = (
    "a consumer joins a classic group although a member that joins it lacks the protocol of the last generation;"
    " Kafka fails at that"
)
_SHARED_ID: Final = (
    "a consumer that joins with another member's id has two instance ids; Kafka then fails at classic members that take"
    " its place, or does not respond"
)


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("E", "M")


def _has_no_metadata(step: MixedJoin) -> bool:
    return any(topics is None for _, topics in step.protocols)


def _is_static(step: Any) -> bool:
    return step.instance is not None


# Earlier steps


def _accepted_joins(situation: Situation) -> list[Outcome]:
    return [each for each in situation.earlier if isinstance(each.step, MixedJoin) and error_code(each) == _NONE]


def _has_classic_members(situation: Situation) -> bool:
    return bool(_accepted_joins(situation))


def _follows_refused_join(situation: Situation) -> bool:
    """True if the group had consumers, and a classic join was refused."""
    return any(
        isinstance(each.step, MixedJoin) and error_code(each) not in (None, _NONE) for each in situation.earlier
    ) and any(isinstance(each.step, MixedHeartbeat) and error_code(each) == _NONE for each in situation.earlier)


def _has_left(outcome: Outcome) -> bool:
    if isinstance(outcome.step, MixedHeartbeat):
        return error_code(outcome) == _NONE and outcome.value["member_epoch"] == _LEFT
    return isinstance(outcome.step, Leave)


def _a_member_has_left(situation: Situation) -> bool:
    return any(_has_left(each) for each in situation.earlier)


def _assigns(outcome: Outcome) -> bool:
    """True for a request with which Kafka computes the next assignment if the last one is outdated."""
    if not isinstance(outcome.step, MixedJoin | MixedHeartbeat) or error_code(outcome) != _NONE:
        return False
    return outcome.value.get("member_epoch") not in (_LEFT, _LEFT_FOR_A_WHILE)


def _assignment_is_outdated(situation: Situation) -> bool:
    """True if a member has left, and Kafka has not computed an assignment since."""
    latest = next((each for each in reversed(situation.earlier) if _has_left(each) or _assigns(each)), None)
    return latest is not None and _has_left(latest)


def _has_several_random_ids(situation: Situation) -> bool:
    return (
        len(
            {
                each.value["member_id"]
                for each in _accepted_joins(situation)
                if each.step.instance is None or each.step.version < _INSTANCES_FROM
            }
        )
        > 1
    )


def _has_shared_id(situation: Situation) -> bool:
    """True if a consumer has joined with the id of another member and an instance id."""
    return any(
        isinstance(each.step, MixedHeartbeat)
        and error_code(each) == _NONE
        and (each.step.who, each.step.epoch) == (Who.OTHER, 0)
        and _is_static(each.step)
        for each in situation.earlier
    )


def _a_member_has_no_metadata(situation: Situation) -> bool:
    steps = [situation.step, *(each.step for each in _accepted_joins(situation))]
    return any(isinstance(step, MixedJoin) and _has_no_metadata(step) for step in steps)


# Responses


def _succeeds_without_leader(situation: Situation) -> bool:
    """True if Kafka's response has no leader, and ours has one, or waits for other members."""
    kafka, ours = situation.kafka.value, situation.ours.value
    if error_code(situation.kafka) != _NONE or kafka["leader"]:
        return False
    return ours == WAITING or (error_code(situation.ours) == _NONE and ours["leader"] != "")


def _has_another_leader(situation: Situation) -> bool:
    leaders = [each.value["leader"] for each in (situation.kafka, situation.ours) if error_code(each) == _NONE]
    return len(leaders) == 2 and all(leaders) and _a_member_has_left(situation)


def _replaces_classic_member(situation: Situation) -> bool:
    """True for a consumer that joins with the instance id of a classic member, or with its member id."""
    step = situation.step
    if situation.error_codes != _BOTH_SUCCEED or step.epoch != 0:
        return False
    return step.who is Who.OTHER or any(
        each.step.instance == step.instance is not None for each in _accepted_joins(situation)
    )


def _lists_empty_consumer_group(kafka: Any, ours: Any) -> bool:
    """True if our node lists an empty consumer group, and Kafka does not, or as a classic group."""
    more = [each for each in ours if each not in kafka]
    less = [each for each in kafka if each not in ours]
    return all((each["group_state"], each["group_type"]) == ("Empty", "consumer") for each in more) and all(
        (each["group_state"], each["group_type"]) == ("Empty", "classic") for each in less
    )


# Assignments


def _partitions(assigned: Any) -> set[Any]:
    """The partitions of several topics, or of one."""
    if all(isinstance(each, int) for each in assigned):
        return set(assigned)
    return {(each["topic_id"], index) for each in assigned for index in each["partitions"]}


def _topic_partitions(assignment: Any) -> Any:
    return assignment["topic_partitions"] if isinstance(assignment, dict) else assignment


def _is_less(kafka: Any, ours: Any) -> bool:
    """True if our node assigns some of the partitions that Kafka assigns."""
    lists = [[] if each is None else each for each in map(_topic_partitions, (kafka, ours))]
    return all(isinstance(each, list) for each in lists) and _partitions(lists[1]) < _partitions(lists[0])


def _is_more(kafka: Any, ours: Any) -> bool:
    return _is_less(ours, kafka)


def _is_more_of_classic_member(kafka: bytes, ours: bytes) -> bool:
    partitions = [
        {(topic, at) for topic, indexes in literal_eval(each.decode()) for at in indexes} for each in (kafka, ours)
    ]
    return partitions[0] < partitions[1]


MIXED_GROUPS: Final[Sequence[KnownDifference]] = (
    # Joins
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code",
        kafka="REBALANCE_IN_PROGRESS",
        ours="COORDINATOR_LOAD_IN_PROGRESS",
        reason="a member whose classic group becomes a consumer group while it waits is told to ask again; Kafka's"
        " error ends some clients",
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="member_id",
        kafka=_is_label,
        ours=_is_label,
        reason=_OTHER_PROTOCOL,
        when=lambda situation: situation.error_codes == ("REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS"),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=".*",
        kafka=anything,
        ours=anything,
        reason=_OTHER_PROTOCOL,
        when=lambda situation: (
            situation.error_codes == ("UNKNOWN_SERVER_ERROR", _NONE)
            and situation.step.epoch == 0
            and any(
                isinstance(each.step, MixedJoin) and error_code(each) == "REBALANCE_IN_PROGRESS"
                for each in situation.earlier
            )
        ),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code|member_id",
        kafka=anything,
        ours=("INCONSISTENT_GROUP_PROTOCOL", ""),
        reason="metadata that is no subscription is refused before the member gets an id; Kafka fails at it later",
        where=_has_no_metadata,
        when=lambda situation: (
            situation.error_codes[0]
            in ("UNKNOWN_SERVER_ERROR", "MEMBER_ID_REQUIRED", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID")
        ),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code",
        kafka="UNKNOWN_SERVER_ERROR",
        ours=("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"),
        reason="a client that was given a member id and then joins with an instance id as well is unknown; Kafka takes"
        " that for a bug of its own",
        where=_is_static,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="member_id",
        kafka="",
        ours=lambda member_id: bool(member_id),
        reason="the response to a join that fails has the member id of its request",
        when=lambda situation: _NONE not in situation.error_codes,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path=f"{_GENERATION}|member_id",
        kafka=anything,
        ours=anything,
        reason="a member that joins again may have other protocols than before; Kafka compares them with its own"
        " earlier ones, too",
        where=lambda step: step.protocol_type == "consumer" and bool(step.protocols),
        when=lambda situation: (
            situation.error_codes[0] == "INCONSISTENT_GROUP_PROTOCOL"
            and situation.error_codes[1] in (_NONE, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
            and _has_classic_members(situation)
        ),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="generation_id|protocol_name|leader|members|skip_assignment|",
        kafka=anything,
        ours=anything,
        reason="a classic member that takes the place of the last static consumer begins a generation of the classic"
        " group, and leads it; Kafka's response has no leader, and the member has to join again",
        where=_is_static,
        when=_succeeds_without_leader,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="leader|members",
        kafka=anything,
        ours=anything,
        reason="after members have left, the first one of the others leads the classic group; Kafka takes one in the"
        " order of the hashes of their ids",
        when=_has_another_leader,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path=_GENERATION,
        kafka=anything,
        ours=anything,
        reason="a member id that the group does not know is refused, as in a classic group; Kafka's consumer group"
        " takes it for that of a new member",
        when=lambda situation: situation.error_codes == (_NONE, "UNKNOWN_MEMBER_ID"),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path=f"{_GENERATION}|",
        kafka=anything,
        ours=anything,
        reason="a classic group of which a member has no subscription goes on when a consumer joins it in vain; Kafka"
        " ends its rebalance before it looks at the subscriptions",
        when=lambda situation: (
            situation.error_codes[0] == "REBALANCE_IN_PROGRESS"
            and (situation.error_codes[1] == _NONE or situation.ours.value == WAITING)
            and _a_member_has_no_metadata(situation)
        ),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="",
        kafka=WAITING,
        ours=lambda response: isinstance(response, dict),
        reason=_SHARED_ID,
        when=_has_shared_id,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path=f"{_GENERATION}|member_id|skip_assignment",
        kafka=anything,
        ours=anything,
        reason=_SHARED_ID,
        where=_is_static,
        when=lambda situation: (
            situation.error_codes in (("UNKNOWN_SERVER_ERROR", _NONE), ("UNKNOWN_MEMBER_ID", _NONE))
            and _has_shared_id(situation)
        ),
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="MixedSync",
        path="",
        kafka=WAITING,
        ours=lambda response: isinstance(response, dict) and response["error_code"] == "REBALANCE_IN_PROGRESS",
        reason="if a member syncs again on another connection, its first request is completed; Kafka never responds to"
        " it",
        diverges=True,
    ),
    # Empty groups
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path="error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="UNKNOWN_MEMBER_ID",
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="FetchOffsets",
        path=r"groups\[\d+\]\.(error_code|topics)",
        kafka=lambda value: value == _NONE or isinstance(value, list),
        ours=("UNKNOWN_MEMBER_ID", []),
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.(error_code|error_message|group_state|group_epoch|assignment_epoch|assignor_name)",
        kafka=("GROUP_ID_NOT_FOUND", "message", "", 0),
        ours=lambda value: value in (_NONE, None, "Empty") or isinstance(value, str),
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DeleteOffsets",
        path="error_code|topics",
        kafka=("GROUP_ID_NOT_FOUND", []),
        ours=lambda value: value == _NONE or isinstance(value, list),
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="Commit",
        path=r"topics\[\d+\]\.partitions\[\d+\]\.error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="UNKNOWN_MEMBER_ID",
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DeleteGroups",
        path=r"results\[\d+\]\.error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours=_NONE,
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="ListGroups",
        path="groups",
        kafka=anything,
        ours=anything,
        accepts_both=_lists_empty_consumer_group,
        reason=_EMPTY_GROUP,
        when=_follows_refused_join,
    ),
    *(
        KnownDifference(
            family=_FAMILY,
            step=step,
            path=path,
            kafka=_is_label,
            ours=_is_label,
            reason="the epochs of a group that was empty begin again; the first ones may be numbers that its classic"
            " generations had",
            where=joins,
            when=_a_member_has_left,
            diverges=True,
        )
        for step, path, joins in (
            (_JOIN, "generation_id", lambda step: True),
            (_HEARTBEAT, "member_epoch", lambda step: step.epoch == 0),
        )
    ),
    # Both protocols in one group
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=r"member_epoch|assignment(\.topic_partitions(\[\d+\]\.partitions)?)?",
        kafka=anything,
        ours=anything,
        reason="a consumer that takes the place of a classic member raises the group's epoch, and the group is"
        " assigned; in Kafka it keeps the assignment of that member, even if the classic group had yet to make one",
        when=_replaces_classic_member,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=r"assignment(\.topic_partitions(\[\d+\]\.partitions)?)?",
        kafka=anything,
        ours=anything,
        accepts_both=_is_less,
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again;"
        " Kafka gives those at once to others that the last assignment did not have",
        when=_has_classic_members,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.assignment\.topic_partitions(\[\d+\]\.partitions)?",
        kafka=anything,
        ours=anything,
        accepts_both=_is_more,
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again",
        when=_has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.(group_state|members\[\d+\]\.assignment\.topic_partitions(\[\d+\]\.partitions)?)",
        kafka=anything,
        ours=anything,
        accepts_both=lambda kafka, ours: (kafka, ours) == ("Stable", "Reconciling") or _is_less(kafka, ours),
        reason="partitions that a classic member named as its own, and then gave up, are not assigned to another one"
        " before that joins again; Kafka assigns them at once",
        when=_has_classic_members,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path="error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="FENCED_INSTANCE_ID",
        reason="a static consumer of which a classic member took the place is fenced, also where that made the group a"
        " classic one",
        where=_is_static,
        when=_has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeMixedGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.member_assignment",
        kafka=anything,
        ours=anything,
        accepts_both=_is_more_of_classic_member,
        reason="in a consumer group that becomes a classic one, a member's assignment includes the partitions that it"
        " was asked to give back; the generation that begins assigns all of them again",
        when=_has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="Heartbeat",
        path="error_code",
        kafka=_NONE,
        ours="REBALANCE_IN_PROGRESS",
        reason=_OUTDATED,
        when=_assignment_is_outdated,
    ),
    KnownDifference(
        family=_FAMILY,
        step="MixedSync",
        path="error_code|protocol_type|protocol_name|assignment",
        kafka=anything,
        ours=anything,
        reason=_OUTDATED,
        when=lambda situation: (
            situation.error_codes == (_NONE, "REBALANCE_IN_PROGRESS") and _assignment_is_outdated(situation)
        ),
        diverges=True,
    ),
    *(
        KnownDifference(
            family=_FAMILY,
            step=step,
            path=path,
            kafka=anything,
            ours=anything,
            reason=_RANDOM_IDS,
            when=_has_several_random_ids,
            diverges=True,
        )
        for step, path in (
            (_HEARTBEAT, r"member_epoch|assignment.*"),
            ("MixedSync", r"assignment.*"),
            ("DescribeConsumerGroups", r"groups\[\d+\]\.members\[\d+\]\.(target_)?assignment.*"),
            ("DescribeMixedGroups", r"groups\[\d+\]\.members\[\d+\]\.member_assignment"),
        )
    ),
)
