"""The differences of groups with members of both protocols."""

from collections.abc import Sequence
from typing import Any, Final

from tests.differential.families.groups.members import Who
from tests.differential.families.groups.mixed_steps import MixedJoin
from tests.differential.known_differences.entries import KnownDifference, anything

_FAMILY: Final = "mixed-groups"
_JOIN: Final = "MixedJoin"
_HEARTBEAT: Final = "MixedHeartbeat"


_LATER_ERRORS: Final = ("UNKNOWN_SERVER_ERROR", "MEMBER_ID_REQUIRED", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "")
_EMPTY_GROUP: Final = (
    "a classic join that is refused leaves an empty consumer group as it is; Kafka makes it a classic group first"
)


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in ("E", "M")


def _has_no_metadata(step: MixedJoin) -> bool:
    return any(topics is None for _, topics in step.protocols)


def _is_static(step: MixedJoin) -> bool:
    return step.instance is not None


def _partitions(assigned: Any) -> set[tuple[str, int]]:
    return {(each["topic_id"], index) for each in assigned for index in each["partitions"]}


def _topic_partitions(assignment: Any) -> Any:
    return assignment["topic_partitions"] if isinstance(assignment, dict) else assignment


def _is_less(kafka: Any, ours: Any) -> bool:
    """True if our node assigns some of the partitions that Kafka assigns."""
    lists = [[] if each is None else each for each in (kafka, ours)]
    return all(isinstance(each, list) for each in lists) and _partitions(lists[1]) < _partitions(lists[0])


MIXED_GROUPS: Final[Sequence[KnownDifference]] = (
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
        path="error_code|member_id",
        kafka=lambda value: value in _LATER_ERRORS or _is_label(value),
        ours=("INCONSISTENT_GROUP_PROTOCOL", ""),
        reason="metadata that is no subscription is refused before the member gets an id; Kafka fails at it later",
        where=_has_no_metadata,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code",
        kafka="UNKNOWN_SERVER_ERROR",
        ours=("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "NONE"),
        reason="a client that was given a member id and then joins with an instance id as well is unknown; Kafka takes"
        " that for a bug of its own",
        where=_is_static,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="member_id",
        kafka="",
        ours=lambda member_id: member_id.startswith("M"),
        reason="the response to a join that fails has the member id of its request",
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code|generation_id|protocol_type|protocol_name|member_id|leader|members",
        kafka=("INCONSISTENT_GROUP_PROTOCOL", -1, None, "", []),
        ours=anything,
        reason="a member that joins again may have other protocols than before; Kafka compares them with its own"
        " earlier ones, too",
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="generation_id|leader|members|skip_assignment",
        kafka=anything,
        ours=anything,
        reason="a classic member that takes the place of the last static consumer begins a generation of the classic"
        " group, and leads it; Kafka's response has no leader, and the member has to join again",
        where=_is_static,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="generation_id",
        kafka=anything,
        ours=anything,
        reason="if a client joins in the classic protocol with the id of a consumer, the group's epoch is raised",
        where=lambda step: step.who is Who.OTHER,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code|generation_id|protocol_type|protocol_name|leader|members",
        kafka=anything,
        ours=("UNKNOWN_MEMBER_ID", -1, None, "", []),
        reason="a member id that the group does not know is refused, as in a classic group; Kafka's consumer group"
        " takes it for that of a new member",
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path="error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="UNKNOWN_MEMBER_ID",
        reason=_EMPTY_GROUP,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="FetchOffsets",
        path=r"groups\[\d+\]\.(error_code|topics)",
        kafka=lambda value: value == "NONE" or isinstance(value, list),
        ours=("UNKNOWN_MEMBER_ID", []),
        reason=_EMPTY_GROUP,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=r"member_epoch|assignment(\.topic_partitions)?",
        kafka=anything,
        ours=anything,
        reason="a consumer that takes the place of a classic member raises the group's epoch, and the group is"
        " assigned; in Kafka it keeps the assignment of that member, even if the classic group had yet to make one",
        where=lambda step: step.epoch == 0 and (step.who is Who.OTHER or step.instance is not None),
        diverges=True,
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
            diverges=True,
        )
        for step, path, joins in (
            (_JOIN, "generation_id", lambda step: True),
            (_HEARTBEAT, "member_epoch", lambda step: step.epoch == 0),
        )
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=r"assignment|assignment\.topic_partitions",
        kafka=anything,
        ours=anything,
        accepts_both=lambda kafka, ours: _is_less(*(_topic_partitions(each) for each in (kafka, ours))),
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again;"
        " Kafka gives those at once to others that the last assignment did not have",
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="error_code|generation_id|protocol_type|protocol_name|leader|members",
        kafka=("REBALANCE_IN_PROGRESS", -1, None, "", []),
        ours=anything,
        reason="a classic group of which a member has no subscription goes on when a consumer joins it in vain; Kafka"
        " ends its rebalance before it looks at the subscriptions",
        where=_has_no_metadata,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.\w+",
        kafka=("GROUP_ID_NOT_FOUND", "message", "", 0),
        ours=anything,
        reason=_EMPTY_GROUP,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.assignment\.topic_partitions",
        kafka=[],
        ours=lambda assigned: bool(assigned),
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again",
    ),
    KnownDifference(
        family=_FAMILY,
        step="DeleteGroups",
        path=r"results\[\d+\]\.error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="NONE",
        reason=_EMPTY_GROUP,
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
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeMixedGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.member_assignment",
        kafka=anything,
        ours=anything,
        reason="in a consumer group that becomes a classic one, a member's assignment includes the partitions that it"
        " was asked to give back; the generation that begins assigns all of them again",
    ),
)
