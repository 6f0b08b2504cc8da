"""The situations of groups with members of both protocols: the steps before a difference, and compared values."""

from ast import literal_eval
from typing import Any, Final

from tests.differential.comparable import UNKNOWN_MEMBER_ID
from tests.differential.execution import WAITING, Outcome
from tests.differential.families.groups.classic_steps import Leave
from tests.differential.families.groups.members import Who
from tests.differential.families.groups.mixed_steps import MixedHeartbeat, MixedJoin
from tests.differential.known_differences.entries import Situation, error_code

_NONE: Final = "NONE"
BOTH_SUCCEED: Final = (_NONE, _NONE)
_LEFT: Final = -1
_LEFT_FOR_A_WHILE: Final = -2
# The first version of JoinGroup with instance ids.
_INSTANCES_FROM: Final = 5


def is_label(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("E", "M")


def has_no_metadata(step: MixedJoin) -> bool:
    return any(topics is None for _, topics in step.protocols)


def is_static(step: Any) -> bool:
    return step.instance is not None


# Earlier steps


def accepted_joins(situation: Situation) -> list[Outcome]:
    return [each for each in situation.earlier if isinstance(each.step, MixedJoin) and error_code(each) == _NONE]


def has_classic_members(situation: Situation) -> bool:
    return bool(accepted_joins(situation))


def follows_refused_join(situation: Situation) -> bool:
    """True if the group had consumers, and a classic join was refused."""
    return any(
        isinstance(each.step, MixedJoin) and error_code(each) not in (None, _NONE) for each in situation.earlier
    ) and any(isinstance(each.step, MixedHeartbeat) and error_code(each) == _NONE for each in situation.earlier)


def has_left(outcome: Outcome) -> bool:
    if isinstance(outcome.step, MixedHeartbeat):
        return error_code(outcome) == _NONE and outcome.value["member_epoch"] == _LEFT
    return isinstance(outcome.step, Leave)


def a_member_has_left(situation: Situation) -> bool:
    return any(has_left(each) for each in situation.earlier)


def assigns(outcome: Outcome) -> bool:
    """True for a request with which Kafka computes the next assignment if the last one is outdated."""
    if not isinstance(outcome.step, MixedJoin | MixedHeartbeat) or error_code(outcome) != _NONE:
        return False
    return outcome.value.get("member_epoch") not in (_LEFT, _LEFT_FOR_A_WHILE)


def assignment_is_outdated(situation: Situation) -> bool:
    """True if a member has left, and Kafka has not computed an assignment since."""
    latest = next((each for each in reversed(situation.earlier) if has_left(each) or assigns(each)), None)
    return latest is not None and has_left(latest)


def has_unordered_ids(situation: Situation) -> bool:
    """True if several members have random ids, or one has beside a consumer whose id may come before it."""
    random_ids = {
        each.value["member_id"]
        for each in accepted_joins(situation)
        if each.step.instance is None or each.step.version < _INSTANCES_FROM
    }
    has_early_id = any(
        isinstance(each.step, MixedHeartbeat)
        and error_code(each) == _NONE
        and each.value["member_id"] == UNKNOWN_MEMBER_ID
        for each in situation.earlier
    )
    return len(random_ids) + has_early_id > 1


def has_shared_id(situation: Situation) -> bool:
    """True if a consumer has joined with the id of another member and an instance id."""
    return any(
        isinstance(each.step, MixedHeartbeat)
        and error_code(each) == _NONE
        and (each.step.who, each.step.epoch) == (Who.OTHER, 0)
        and is_static(each.step)
        for each in situation.earlier
    )


def a_member_has_no_metadata(situation: Situation) -> bool:
    steps = [situation.step, *(each.step for each in accepted_joins(situation))]
    return any(isinstance(step, MixedJoin) and has_no_metadata(step) for step in steps)


# Responses


def succeeds_without_leader(situation: Situation) -> bool:
    """True if Kafka's response has no leader, and ours has one, or waits for other members."""
    kafka, ours = situation.kafka.value, situation.ours.value
    if error_code(situation.kafka) != _NONE or kafka["leader"]:
        return False
    return ours == WAITING or (error_code(situation.ours) == _NONE and ours["leader"] != "")


def has_another_leader(situation: Situation) -> bool:
    leaders = [each.value["leader"] for each in (situation.kafka, situation.ours) if error_code(each) == _NONE]
    return len(leaders) == 2 and all(leaders) and a_member_has_left(situation)


def replaces_classic_member(situation: Situation) -> bool:
    """True for a consumer that joins with the instance id of a classic member, or with its member id."""
    step = situation.step
    if situation.error_codes != BOTH_SUCCEED or step.epoch != 0:
        return False
    return step.who is Who.OTHER or any(
        each.step.instance == step.instance is not None for each in accepted_joins(situation)
    )


def lists_empty_consumer_group(kafka: Any, ours: Any) -> bool:
    """True if our node lists an empty consumer group, and Kafka does not, or as a classic group."""
    more = [each for each in ours if each not in kafka]
    less = [each for each in kafka if each not in ours]
    return all((each["group_state"], each["group_type"]) == ("Empty", "consumer") for each in more) and all(
        (each["group_state"], each["group_type"]) == ("Empty", "classic") for each in less
    )


# Assignments


def partitions(assigned: Any) -> set[Any]:
    """The partitions of several topics, or of one."""
    if all(isinstance(each, int) for each in assigned):
        return set(assigned)
    return {(each["topic_id"], index) for each in assigned for index in each["partitions"]}


def topic_partitions(assignment: Any) -> Any:
    return assignment["topic_partitions"] if isinstance(assignment, dict) else assignment


def is_less(kafka: Any, ours: Any) -> bool:
    """True if our node assigns some of the partitions that Kafka assigns."""
    lists = [[] if each is None else each for each in map(topic_partitions, (kafka, ours))]
    return all(isinstance(each, list) for each in lists) and partitions(lists[1]) < partitions(lists[0])


def is_more(kafka: Any, ours: Any) -> bool:
    return is_less(ours, kafka)


def is_more_of_classic_member(kafka: bytes, ours: bytes) -> bool:
    partitions = [
        {(topic, at) for topic, indexes in literal_eval(each.decode()) for at in indexes} for each in (kafka, ours)
    ]
    return partitions[0] < partitions[1]
