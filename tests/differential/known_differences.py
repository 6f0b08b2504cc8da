"""The differences from Apache Kafka that stay, each with its reason. The only list of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs

from tests.differential.comparable import differing_paths
from tests.differential.execution import WAITING, Outcome
from tests.differential.families.groups.members import Epoch
from tests.differential.sequences import Step


@attrs.frozen(kw_only=True)
class KnownDifference:
    """A difference in the response to one kind of step.

    `path` is a regular expression for the place in the response. `kafka` and `ours` are the two values there, or tuples
    of values or functions that accept them; `accepts_both` looks at the two together. `where` accepts the steps that it
    is about. After a difference that
    `diverges`, the rest of a sequence is not compared.
    """

    family: str
    step: str
    path: str
    kafka: Any
    ours: Any
    reason: str
    where: Callable[[Any], bool] = lambda step: True
    diverges: bool = False
    accepts_both: Callable[[Any, Any], bool] = lambda kafka, ours: True

    def covers(self, family: str, step: Step, path: str, kafka: Any, ours: Any) -> bool:
        return (
            (family, type(step).__name__) == (self.family, self.step)
            and self.where(step)
            and re.fullmatch(self.path, path) is not None
            and _accepts(self.kafka, kafka)
            and _accepts(self.ours, ours)
            and self.accepts_both(kafka, ours)
        )


def _accepts(expected: Any, value: Any) -> bool:
    if isinstance(expected, tuple):
        return value in expected
    return bool(expected(value) if callable(expected) else expected == value)


_INDEX: Final = re.compile(r"\[\d+\]")
_PRODUCE: Final = r"responses\[0\]\.partition_responses\[0\]\."

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


def _of_bare_groups(family: str) -> Iterator[KnownDifference]:
    """The responses that say whether a group without members and offsets exists."""
    missing = ("GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION")
    offset_codes = r"topics\[\d+\]\.partitions\[\d+\]\.error_code"
    for step, path, kafka, ours in (
        ("DeleteOffsets", "error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        ("DeleteOffsets", "topics", lambda topics: bool(topics), []),
        ("DeleteGroups", r"results\[\d+\]\.error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        ("DescribeGroups", r"groups\[\d+\]\.error_code", "NONE", "GROUP_ID_NOT_FOUND"),
        ("DescribeGroups", r"groups\[\d+\]\.error_message", None, lambda message: isinstance(message, str)),
        ("DescribeGroups", r"groups\[\d+\]\.group_state", "Empty", "Dead"),
        ("Commit", offset_codes, "UNKNOWN_MEMBER_ID", missing),
        ("CommitOffsets", offset_codes, "UNKNOWN_MEMBER_ID", missing),
    ):
        yield KnownDifference(family=family, step=step, path=path, kafka=kafka, ours=ours, reason=_BARE_GROUP)
    yield KnownDifference(
        family=family,
        step="ListGroups",
        path="groups",
        kafka=lambda listed: True,
        ours=lambda listed: True,
        accepts_both=_has_empty_groups_more,
        reason=_BARE_GROUP,
    )


KNOWN_DIFFERENCES: Final[Sequence[KnownDifference]] = (
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "error_message",
        kafka=None,
        ours=lambda message: isinstance(message, str),
        reason="says why a batch was refused where Kafka's response has the error code alone",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "log_append_time_ms",
        kafka=lambda time_ms: time_ms >= 0,
        ours=-1,
        reason="a duplicate has no append time where producers set the timestamps; Kafka puts the batch's largest"
        " timestamp there, which clients take for that of each record",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "error_code",
        kafka="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ours=("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"),
        reason="transactional batches without a transactional id are refused one by one, after a look at their topic;"
        " Kafka looks at all batches of each request first, which costs every producer time",
    ),
    KnownDifference(
        family="transactions",
        step="Produce",
        path=_PRODUCE + "(error_code|base_offset|log_start_offset)",
        kafka=("OUT_OF_ORDER_SEQUENCE_NUMBER", -1),
        ours=lambda value: value == "NONE" or isinstance(value, int),
        reason="a batch that belongs to no transaction is not compared with the sequence numbers of a transactional one"
        " that was refused before; no client sends both with one producer id",
        where=lambda step: not step.is_transactional,
        diverges=True,
    ),
    *(
        KnownDifference(
            family="transactions",
            step=step,
            path=path,
            kafka=("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", *messages),
            ours=("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", *messages),
            reason="clients that know TRANSACTION_ABORTABLE are told it, and older ones INVALID_TXN_STATE; Kafka asks"
            " the coordinator for several clients at once, and then answers all of them as it would the first one",
            where=is_old,
        )
        for step, is_old, path, *messages in (
            ("CommitOffsets", lambda step: step.version < 5, r"topics\[\d+\]\.partitions\[\d+\]\.error_code"),
            (
                "Produce",
                lambda step: step.version < 12,
                _PRODUCE + "(error_code|error_message)",
                "Partition was not added to the transaction",
                "Unable to verify the partition has been added to the transaction. "
                "Underlying error: TRANSACTION_ABORTABLE",
            ),
        )
    ),
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
        ours=lambda member_id: member_id.startswith("M"),
        reason="the response to a join that fails as above has the member id of its request",
        where=lambda step: step.instance is not None,
    ),
    *(each for family in ("transactions", "classic-groups", "consumer-groups") for each in _of_bare_groups(family)),
    KnownDifference(
        family="consumer-groups",
        step="FetchOffsets",
        path=r"groups\[\d+\]\.error_code",
        kafka="UNKNOWN_SERVER_ERROR",
        ours="UNKNOWN_MEMBER_ID",
        reason="a member epoch without a member id belongs to no member; Kafka fails at that",
        where=lambda step: step.epoch is not Epoch.NONE,
    ),
    KnownDifference(
        family="consumer-groups",
        step="ConsumerHeartbeat",
        path="heartbeat_interval_ms",
        kafka=lambda interval_ms: interval_ms > 0,
        ours=lambda interval_ms: interval_ms > 0,
        reason="members heartbeat more often while partitions move; Kafka's interval is always the configured one",
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
)


@attrs.frozen
class Difference:
    """A step to which the two servers responded differently."""

    family: str
    index: int
    kafka: Outcome
    ours: Outcome

    @property
    def paths(self) -> list[tuple[str, Any, Any]]:
        return differing_paths(self.kafka.value, self.ours.value)

    @property
    def step_name(self) -> str:
        return type(self.kafka.step).__name__

    @property
    def kind(self) -> str:
        """The same for differences that are probably the same one."""
        shown = [f"{_INDEX.sub('', path)}: {_kind(kafka)} / {_kind(ours)}" for path, kafka, ours in self.paths]
        return f"{self.step_name} {'; '.join(dict.fromkeys(shown))}"


def _kind(value: Any) -> str:
    return re.sub(r"[0-9a-f]{4,}|-?[0-9]+", "N", value) if isinstance(value, str) else type(value).__name__


def first_difference(
    family: str, kafka: Sequence[Outcome], ours: Sequence[Outcome], known: Sequence[KnownDifference], used: list[int]
) -> Difference | None:
    """The first difference that no entry of `known` covers. Counts in `used` how often each entry was needed."""
    for index, (one, other) in enumerate(zip(kafka, ours, strict=True)):
        difference = Difference(family, index, one, other)
        diverges = False
        for path, in_kafka, in_ours in difference.paths:
            covering = [at for at, each in enumerate(known) if each.covers(family, one.step, path, in_kafka, in_ours)]
            if not covering:
                return difference
            for at in covering:
                used[at] += 1
                diverges = diverges or known[at].diverges
        if diverges:
            return None
    return None
