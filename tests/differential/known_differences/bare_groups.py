"""The differences that every family with groups meets: whether a group without members and offsets exists."""

from collections.abc import Iterator
from typing import Any, Final

from tests.differential.known_differences.entries import KnownDifference

# Kafka creates a group for each join and each commit of a client that is no member, even if it then refuses them. It
# keeps the group when all offsets are aborted or deleted.
_BARE_GROUP: Final = (
    "a group without members and offsets does not exist; Kafka keeps it as an empty one until it next looks for expired"
    " offsets"
)


def _has_empty_groups_more(kafka: Any, ours: Any) -> bool:
    return all(each in kafka for each in ours) and all(
        each["group_state"] in ("Empty", "") for each in kafka if each not in ours
    )


def bare_groups(family: str) -> Iterator[KnownDifference]:
    """The responses that say whether a group without members and offsets exists."""
    missing = ("GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION")
    offset_codes = r"topics\[\d+\]\.partitions\[\d+\]\.error_code"
    describe = "DescribeMixedGroups" if family == "mixed-groups" else "DescribeGroups"
    for step, path, kafka, ours in (
        ("DeleteOffsets", "error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        ("DeleteOffsets", "topics", lambda topics: bool(topics), []),
        ("DeleteGroups", r"results\[\d+\]\.error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        (describe, r"groups\[\d+\]\.error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        (describe, r"groups\[\d+\]\.error_message", None, lambda message: isinstance(message, str)),
        (describe, r"groups\[\d+\]\.group_state", "Empty", "Dead"),
        ("Commit", offset_codes, "UNKNOWN_MEMBER_ID", missing),
        ("CommitOffsets", offset_codes, "UNKNOWN_MEMBER_ID", missing),
    ):
        yield KnownDifference(family=family, step=step, path=path, kafka=kafka, ours=ours, reason=_BARE_GROUP)
    yield KnownDifference(
        family=family,
        step="MixedJoin" if family == "mixed-groups" else "Join",
        path="error_code",
        kafka="INCONSISTENT_GROUP_PROTOCOL",
        ours="UNKNOWN_MEMBER_ID",
        where=lambda step: not (step.protocols and step.protocol_type),
        reason=_BARE_GROUP,
    )
    yield KnownDifference(
        family=family,
        step="ListGroups",
        path="groups",
        kafka=lambda listed: True,
        ours=lambda listed: True,
        accepts_both=_has_empty_groups_more,
        reason=_BARE_GROUP,
    )
