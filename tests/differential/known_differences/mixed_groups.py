"""The differences of groups with members of both protocols."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.differential.execution import WAITING
from tests.differential.families.groups.mixed_steps import MixedJoin
from tests.differential.known_differences.entries import KnownDifference, anything, error_code
from tests.differential.known_differences.mixed_situations import (
    a_member_has_left,
    a_member_has_no_metadata,
    assignment_is_outdated,
    follows_refused_join,
    has_another_leader,
    has_classic_members,
    has_no_metadata,
    has_shared_id,
    has_unordered_ids,
    is_label,
    is_less,
    is_more,
    is_more_of_classic_member,
    is_static,
    lists_empty_consumer_group,
    replaces_classic_member,
    succeeds_without_leader,
)

_FAMILY: Final = "mixed-groups"
_JOIN: Final = "MixedJoin"
_HEARTBEAT: Final = "MixedHeartbeat"
_GENERATION: Final = "error_code|generation_id|protocol_type|protocol_name|leader|members"

_NONE: Final = "NONE"

_EMPTY_GROUP: Final = (
    "a classic join that is refused leaves an empty consumer group as it is; Kafka makes it a classic group first"
)
_OUTDATED: Final = (
    "after a member has left, a classic member is told at once to join again; Kafka tells it after a heartbeat of a"
    " consumer or a join has computed the next assignment"
)
_RANDOM_IDS: Final = (
    "classic members have random ids, and partitions are assigned in the order of the ids; this is about sequences with"
    " several such ids, or one beside the id of a consumer that may come before it"
)
_OTHER_PROTOCOL: Final = (
    "a consumer joins a classic group although a member that joins it lacks the protocol of the last generation;"
    " Kafka fails at that"
)
_SHARED_ID: Final = (
    "a consumer that joins with another member's id has two instance ids; Kafka then fails at classic members that take"
    " its place, or does not respond"
)

# Entries about groups that Kafka has made classic groups.
_in_empty_group = partial(
    KnownDifference, family=_FAMILY, reason=_EMPTY_GROUP, when=follows_refused_join, diverges=True
)

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
        kafka=is_label,
        ours=is_label,
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
        where=has_no_metadata,
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
        where=is_static,
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
            and has_classic_members(situation)
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
        where=is_static,
        when=succeeds_without_leader,
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
        when=has_another_leader,
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
            and a_member_has_no_metadata(situation)
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
        when=has_shared_id,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path="",
        kafka=lambda response: isinstance(response, dict) and response["error_code"] == "UNKNOWN_SERVER_ERROR",
        ours=WAITING,
        reason=_SHARED_ID,
        where=is_static,
        when=has_shared_id,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_JOIN,
        path=f"{_GENERATION}|member_id|skip_assignment",
        kafka=anything,
        ours=anything,
        reason=_SHARED_ID,
        where=is_static,
        when=lambda situation: (
            situation.error_codes in (("UNKNOWN_SERVER_ERROR", _NONE), ("UNKNOWN_MEMBER_ID", _NONE))
            and has_shared_id(situation)
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
    _in_empty_group(
        step=_HEARTBEAT,
        path="error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="UNKNOWN_MEMBER_ID",
    ),
    _in_empty_group(
        step="FetchOffsets",
        path=r"groups\[\d+\]\.(error_code|topics)",
        kafka=lambda value: value == _NONE or isinstance(value, list),
        ours=("UNKNOWN_MEMBER_ID", []),
    ),
    _in_empty_group(
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.(error_code|error_message|group_state|group_epoch|assignment_epoch|assignor_name)",
        kafka=("GROUP_ID_NOT_FOUND", "message", "", 0),
        ours=lambda value: value in (_NONE, None, "Empty") or isinstance(value, str),
    ),
    _in_empty_group(
        step="DeleteOffsets",
        path="error_code|topics",
        kafka=("GROUP_ID_NOT_FOUND", []),
        ours=lambda value: value == _NONE or isinstance(value, list),
    ),
    _in_empty_group(
        step="Commit",
        path=r"topics\[\d+\]\.partitions\[\d+\]\.error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours="UNKNOWN_MEMBER_ID",
    ),
    _in_empty_group(
        step="DeleteGroups",
        path=r"results\[\d+\]\.error_code",
        kafka="GROUP_ID_NOT_FOUND",
        ours=_NONE,
    ),
    KnownDifference(
        family=_FAMILY,
        step="ListGroups",
        path="groups",
        kafka=anything,
        ours=anything,
        accepts_both=lists_empty_consumer_group,
        reason=_EMPTY_GROUP,
        when=follows_refused_join,
    ),
    *(
        KnownDifference(
            family=_FAMILY,
            step=step,
            path=path,
            kafka=is_label,
            ours=is_label,
            reason="the epochs of a group that was empty begin again; the first ones may be numbers that its classic"
            " generations had",
            where=joins,
            when=a_member_has_left,
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
        when=replaces_classic_member,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step=_HEARTBEAT,
        path=r"assignment(\.topic_partitions(\[\d+\]\.partitions)?)?",
        kafka=anything,
        ours=anything,
        accepts_both=is_less,
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again;"
        " Kafka gives those at once to others that the last assignment did not have",
        when=has_classic_members,
        diverges=True,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.assignment\.topic_partitions(\[\d+\]\.partitions)?",
        kafka=anything,
        ours=anything,
        accepts_both=is_more,
        reason="partitions that a classic member named as its own when it joined stay its own until it joins again",
        when=has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeConsumerGroups",
        path=r"groups\[\d+\]\.(group_state|members\[\d+\]\.assignment\.topic_partitions(\[\d+\]\.partitions)?)",
        kafka=anything,
        ours=anything,
        accepts_both=lambda kafka, ours: (kafka, ours) == ("Stable", "Reconciling") or is_less(kafka, ours),
        reason="partitions that a classic member named as its own, and then gave up, are not assigned to another one"
        " before that joins again; Kafka assigns them at once",
        when=has_classic_members,
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
        where=is_static,
        when=has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="DescribeMixedGroups",
        path=r"groups\[\d+\]\.members\[\d+\]\.member_assignment",
        kafka=anything,
        ours=anything,
        accepts_both=is_more_of_classic_member,
        reason="in a consumer group that becomes a classic one, a member's assignment includes the partitions that it"
        " was asked to give back; the generation that begins assigns all of them again",
        when=has_classic_members,
    ),
    KnownDifference(
        family=_FAMILY,
        step="Heartbeat",
        path="error_code",
        kafka=_NONE,
        ours="REBALANCE_IN_PROGRESS",
        reason=_OUTDATED,
        when=assignment_is_outdated,
    ),
    KnownDifference(
        family=_FAMILY,
        step="MixedSync",
        path="error_code|protocol_type|protocol_name|assignment",
        kafka=anything,
        ours=anything,
        reason=_OUTDATED,
        when=lambda situation: (
            situation.error_codes == (_NONE, "REBALANCE_IN_PROGRESS") and assignment_is_outdated(situation)
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
            when=has_unordered_ids,
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
