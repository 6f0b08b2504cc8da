"""The differences of the family of share groups."""

from collections.abc import Sequence
from typing import Any, Final

from tests.differential.families.groups.administration_steps import DeleteGroups
from tests.differential.families.records.offset_steps import DeleteRecords
from tests.differential.families.records.topic_steps import DeleteTopic
from tests.differential.families.shares.administration_steps import DeleteShareOffsets, LetLocksExpire
from tests.differential.families.shares.delivery_steps import Part, SessionStep, ShareFetch
from tests.differential.families.shares.membership_steps import ShareHeartbeat
from tests.differential.families.shares.share_members import ShareEpoch
from tests.differential.families.transactions.steps import End
from tests.differential.known_differences.entries import KnownDifference, Situation, anything, error_code

_UNKNOWN: Final = ("UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION")
_DELETIONS: Final = (DeleteShareOffsets, DeleteGroups)
_HEARTBEAT_INTERVAL_MS: Final = 5_000
_OFFSETS: Final = r"groups\[\d+\]\.topics\[\d+\]\.partitions\[\d+\]\."


def _has_errors(partition: Any) -> bool:
    return isinstance(partition, dict) and partition["error_code"] != "NONE"


def _is_unknown_partition(kafka: Any) -> bool:
    """True for the results of acknowledgements of a topic or a partition that does not exist."""
    return (kafka["acknowledge_error_code"] if isinstance(kafka, dict) else kafka) in _UNKNOWN


def _is_unknown_id(kafka: Any, ours: Any) -> bool:
    """True if only our response says that a topic id is unknown."""
    return (ours["error_code"] if isinstance(ours, dict) else ours) == "UNKNOWN_TOPIC_ID"


def _is_abort(step: Any) -> bool:
    return isinstance(step, End) and not step.is_commit


def _has_closed(situation: Situation) -> bool:
    """True if a member has closed its session."""
    return any(isinstance(each.step, SessionStep) and each.step.epoch is ShareEpoch.CLOSE for each in situation.earlier)


def _is_unknown_state(kafka: Any, ours: Any) -> bool:
    """True if only our response fails, because the share coordinator has no state."""
    return (ours["error_code"] if isinstance(ours, dict) else ours) == "UNKNOWN_SERVER_ERROR"


def _has_forgotten_and_closed(situation: Situation) -> bool:
    """True if a member has closed its session after partitions have left it."""
    has_forgotten = any(isinstance(each.step, ShareFetch) and each.step.forgotten for each in situation.earlier)
    return has_forgotten and _has_closed(situation)


def _delivers_again(situation: Situation) -> bool:
    """True if Kafka delivers records that were delivered before."""
    partitions = situation.kafka.value["partitions"].values()
    return any(count > 1 for each in partitions for _, _, count in each["acquired"])


def _has_several_members(situation: Situation) -> bool:
    joined = {
        each.value["member_id"]
        for each in (*situation.earlier, situation.kafka)
        if isinstance(each.step, ShareHeartbeat) and error_code(each) == "NONE"
    }
    return len(joined) > 1


SHARES: Final[Sequence[KnownDifference]] = (
    KnownDifference(
        family="shares",
        step="ShareHeartbeat",
        path="heartbeat_interval_ms",
        kafka=_HEARTBEAT_INTERVAL_MS,
        ours=lambda interval: 0 < interval < _HEARTBEAT_INTERVAL_MS,
        reason="members send heartbeats more often while they wait for an assignment; in Kafka, a new group has none"
        " for the usual interval",
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=_has_errors,
        ours="absent",
        reason="an error of a partition ends the wait of a share fetch; Kafka waits for the others",
        where=lambda step: step.max_wait_ms > 0,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*\.error_code",
        kafka=anything,
        ours="NONE",
        reason="an error of a partition ends the wait, as above, and the others have the results of acknowledgements",
        where=lambda step: step.max_wait_ms > 0 and bool(step.acknowledged),
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=".*",
        kafka=anything,
        ours=anything,
        reason="an unknown mode of acquisition is an invalid request; Kafka fails at it once it has looked at the"
        " session and begins to acquire",
        where=lambda step: step.mode not in (0, 1) and step.version >= 2,
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=_has_errors,
        ours="absent",
        reason="a share fetch of no bytes or no records looks at no partitions",
        where=lambda step: step.max_bytes <= 0 or step.max_records <= 0,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*\.error_code",
        kafka=anything,
        ours="NONE",
        reason="a share fetch of no bytes or no records, as above, has the results of acknowledgements alone",
        where=lambda step: step.max_bytes <= 0 or step.max_records <= 0,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=anything,
        ours=anything,
        accepts_both=_is_unknown_id,
        reason="the id of a deleted topic is unknown in a session; Kafka's session remembers the topic's name and looks"
        " that up, also after another topic has got it",
        when=lambda situation: any(isinstance(each.step, DeleteTopic) for each in situation.earlier),
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=("absent", []),
        ours=lambda acquired: bool(acquired),
        reason="aborted records are passed over within a fetch, which acquires the marker after them; in Kafka, the"
        " next fetch does",
        when=lambda situation: any(_is_abort(each.step) for each in situation.earlier),
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=_is_unknown_partition,
        ours=("NONE", "absent"),
        reason="partitions without acknowledgements have no result of one; Kafka has one for all unknown partitions in"
        " a request that acknowledges others",
        where=lambda step: bool(step.acknowledged),
    ),
    KnownDifference(
        family="shares",
        step="DescribeShareOffsets",
        path=r"groups\[\d+\]\.(error_code|topics)",
        kafka=("UNKNOWN_SERVER_ERROR", "NONE", []),
        ours=("INVALID_GROUP_ID", []),
        reason="the empty group id is invalid; Kafka fails at it, or has no offsets",
        where=lambda step: "" in step.groups,
    ),
    KnownDifference(
        family="shares",
        step="AlterShareOffsets",
        path=r"responses\[\d+\]\.partitions\[\d+\]\.error_code",
        kafka="NONE",
        ours="INVALID_REQUEST",
        reason="a start offset below -1 is refused; Kafka stores it",
        where=lambda step: step.offset < -1,
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="AlterShareOffsets",
        path=r"error_code|responses",
        kafka=("UNKNOWN_SERVER_ERROR", []),
        ours=anything,
        reason="a partition below 0 is unknown; Kafka fails at it",
        where=lambda step: any(partition < 0 for _, partition in step.partitions),
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="DescribeShareOffsets",
        path=_OFFSETS + "lag",
        kafka=lambda lag: lag < 0,
        ours=0,
        reason="the lag of a start offset beyond the end is 0; Kafka's is negative",
    ),
    *(
        KnownDifference(
            family="shares",
            step=step,
            path=_OFFSETS + "(start_offset|lag)",
            kafka=-1,
            ours=lambda value: value >= 0,
            reason="a start offset that was found at the first load is stored when the group's last session ends; in"
            " Kafka, with the first acknowledgement",
            when=_has_closed,
        )
        for step in ("DescribeShareOffsets", "LetLocksExpire")
    ),
    *(
        KnownDifference(
            family="shares",
            step=step,
            path=path,
            kafka=anything,
            ours=anything,
            reason="after records were deleted, the next request finds them deleted: a fetch returns the records after"
            " them, and acknowledgements of them are accepted and store nothing; in Kafka, a fetch finds them deleted"
            " for the requests after it",
            when=lambda situation: any(isinstance(each.step, DeleteRecords) for each in situation.earlier),
            diverges=step in ("ShareFetch", "ShareAcknowledge"),
        )
        for step, path in (
            ("ShareFetch", r"partitions\..*"),
            ("ShareAcknowledge", r"partitions\..*"),
            ("DescribeShareOffsets", _OFFSETS + "(start_offset|lag)"),
            ("LetLocksExpire", _OFFSETS + "(start_offset|lag)"),
        )
    ),
    KnownDifference(
        family="shares",
        step="DescribeShareOffsets",
        path=_OFFSETS + "start_offset",
        kafka=anything,
        ours=anything,
        accepts_both=lambda kafka, ours: kafka < ours,
        reason="the start offset is stored after the records whose locks have expired are finished; Kafka may store the"
        " one from before",
        when=lambda situation: any(isinstance(each.step, LetLocksExpire) for each in situation.earlier),
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*\.error_code",
        kafka="NONE",
        ours="NOT_LEADER_OR_FOLLOWER",
        reason="an acknowledgement whose write is refused after offsets were altered ends the share-partition, which"
        " the fetch of the same request gets as an error; Kafka's fetch waits",
        where=lambda step: bool(step.acknowledged),
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=anything,
        ours=anything,
        accepts_both=_is_unknown_state,
        reason="a group whose offsets were deleted has no share-partition once its last session has ended; Kafka keeps"
        " those in the memory of their leader",
        when=lambda situation: any(isinstance(each.step, _DELETIONS) for each in situation.earlier),
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=anything,
        ours=anything,
        reason="the end of a session releases all records of its member; Kafka releases those of partitions that the"
        " session still has",
        when=_has_forgotten_and_closed,
        diverges=True,
    ),
    KnownDifference(
        family="shares",
        step="DeleteShareOffsets",
        path=r"responses\[\d+\]\.topic_id",
        kafka=None,
        ours=lambda topic_id: topic_id is not None,
        reason="topics without offsets have their id beside the error",
    ),
    KnownDifference(
        family="shares",
        step="ShareFetch",
        path=r"partitions\..*",
        kafka=anything,
        ours=anything,
        reason="records that were delivered half as often as the limit allows come without others, up to half of their"
        " batch at a time; Kafka delivers other available records of their batch with them",
        when=_delivers_again,
        diverges=True,
    ),
    *(
        KnownDifference(
            family="shares",
            step=step,
            path=".*",
            kafka=anything,
            ours=anything,
            reason="an acknowledgement of records from before the start offset up to one after it, while none is in"
            " flight, has the wrong record state; Kafka fails at the whole request",
            when=lambda situation: situation.error_codes == ("UNKNOWN_SERVER_ERROR", "NONE"),
            where=lambda step: any(each.part is Part.PAST_THE_END for each in step.acknowledged),
            diverges=True,
        )
        for step in ("ShareFetch", "ShareAcknowledge")
    ),
    *(
        KnownDifference(
            family="shares",
            step=step,
            path=r"partitions\..*",
            kafka=("INVALID_RECORD_STATE", "NONE", "UNKNOWN_SERVER_ERROR"),
            ours="UNKNOWN_TOPIC_OR_PARTITION",
            reason="share-partitions of a group without a session leave the memory of their leader, as do those whose"
            " state was deleted; those of which nothing can be fetched are not loaded",
        )
        for step in ("ShareFetch", "ShareAcknowledge")
    ),
    *(
        KnownDifference(
            family="shares",
            step=step,
            path=rf"{path}.*",
            kafka=anything,
            ours=anything,
            reason="which of several members gets a partition depends on the order of hashes in Kafka",
            when=_has_several_members,
        )
        for step, path in (
            ("ShareHeartbeat", "assignment"),
            ("DescribeShareGroups", r"groups\[\d+\]\.members\[\d+\]\.assignment"),
        )
    ),
)
