"""The differences of the families of records: offsets, and fetches."""

from collections.abc import Sequence
from typing import Any, Final

from tests.differential.families.records.fetch_steps import Fetch
from tests.differential.families.records.offset_steps import DeleteRecords
from tests.differential.families.records.readers import Session
from tests.differential.families.records.record_steps import Flaw
from tests.differential.known_differences.entries import KnownDifference

_PRODUCE: Final = r"responses\[0\]\.partition_responses\[0\]\."

_FETCHED: Final = r"responses\[\d+\]\.partitions\[\d+\]\."
_MAX_TIMESTAMP: Final = -3


# Kafka's errors about the id of a deleted topic in a session, where ours is UNKNOWN_TOPIC_ID.
_DELETED: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "INCONSISTENT_TOPIC_ID")


def _has_more_offsets(kafka: Any, ours: Any) -> bool:
    """True if our response has all that Kafka's has, and otherwise partitions without an error and without records.

    Errors about deleted topics are the same here, because they have an entry of their own.
    """
    partitions = [[_with_our_error(each) for each in _partitions(responses)] for responses in (kafka, ours)]
    more = [each for each in partitions[1] if each not in partitions[0]]
    return all(each in partitions[1] for each in partitions[0]) and not any(
        each["error_code"] != "NONE" or each["records"] for each in more
    )


def _with_our_error(partition: Any) -> Any:
    return partition | {"error_code": "UNKNOWN_TOPIC_ID"} if partition["error_code"] in _DELETED else partition


def _partitions(responses: Any) -> list[Any]:
    return [each for response in responses for each in response.get("partitions", [response])]


RECORDS: Final[Sequence[KnownDifference]] = (
    *(
        KnownDifference(
            family=family,
            step=step,
            path=_PRODUCE + "error_message",
            kafka=None,
            ours=lambda message: isinstance(message, str),
            reason="says why a batch was refused where Kafka's response has the error code alone",
        )
        for family in ("offsets", "fetch-sessions", "shares")
        for step in ("Append", "Produce")
    ),
    *(
        KnownDifference(
            family=family,
            step=step,
            path=".*",
            kafka=lambda value: True,
            ours=lambda value: True,
            reason="an isolation level that does not exist is read_uncommitted; Kafka fails at it",
            where=lambda step: step.isolation_level not in (0, 1),
            diverges=step == "Fetch",
        )
        for family, step in (("fetch-sessions", "Fetch"), ("offsets", "ListOffsets"))
    ),
    KnownDifference(
        family="offsets",
        step="Append",
        path=_PRODUCE + "error_code",
        kafka=(
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_ID",
            "INVALID_RECORD",
            "CORRUPT_MESSAGE",
            "UNSUPPORTED_COMPRESSION_TYPE",
        ),
        ours="INVALID_REQUIRED_ACKS",
        reason="the acks of a request are looked at before its partitions; Kafka does that afterwards",
    ),
    KnownDifference(
        family="offsets",
        step="Append",
        path=_PRODUCE + ".*",
        kafka=lambda value: True,
        ours=lambda value: True,
        reason="bytes after the last batch are refused; Kafka drops them if they are too few for a batch",
        where=lambda step: step.flaw is Flaw.TRAILING_BYTES,
        diverges=True,
    ),
    KnownDifference(
        family="offsets",
        step="Append",
        path=_PRODUCE + "error_code",
        kafka="CORRUPT_MESSAGE",
        ours=("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"),
        reason="batches are looked at one by one, after their topic; Kafka looks at all batches of each request first,"
        " which costs every producer time",
        where=lambda step: step.flaw in (Flaw.WRONG_MAGIC, Flaw.CUT),
    ),
    KnownDifference(
        family="offsets",
        step="Append",
        path=_PRODUCE + "log_start_offset",
        kafka=-1,
        ours=lambda offset: offset >= 0,
        reason="the response about a batch that was refused has the start of the log; Kafka's has it only if it refused"
        " the batch at the log",
    ),
    KnownDifference(
        family="offsets",
        step="Append",
        path=_PRODUCE + "(error_code|base_offset)",
        kafka=("UNKNOWN_SERVER_ERROR", -1),
        ours=lambda value: value == "NONE" or isinstance(value, int),
        reason="batches keep negative timestamps, which no client sends, also where the topic compresses them again;"
        " Kafka fails at that",
        where=lambda step: min(step.timestamps) < -1,
        diverges=True,
    ),
    KnownDifference(
        family="offsets",
        step="Fetch",
        path=r"responses\[\d+\]\.partitions\[\d+\]\.records\[\d+\]\.max_timestamp",
        kafka=-1,
        ours=lambda timestamp: timestamp < -1,
        reason="batches keep the largest timestamp of their records even if all are negative, which no client sends",
    ),
    KnownDifference(
        family="offsets",
        step="ListOffsets",
        path=r"topics\[\d+\]\.partitions\[\d+\]\.(timestamp|offset|leader_epoch)",
        kafka=-1,
        ours=lambda value: value == "time" or isinstance(value, int),
        reason="finds the first record of a time that is not deleted; Kafka looks into the first segment of the time"
        " alone, even if all its records are deleted",
        where=lambda step: any(timestamp >= 0 for _, _, timestamp in step.asked),
    ),
    KnownDifference(
        family="offsets",
        step="ListOffsets",
        path=r"topics\[\d+\]\.partitions\[\d+\]\.(offset|leader_epoch)",
        kafka=lambda value: value >= 0,
        ours=-1,
        reason="a log whose records have no time has no largest time; Kafka names the first one of a compressed batch",
        where=lambda step: any(timestamp == _MAX_TIMESTAMP for _, _, timestamp in step.asked),
    ),
    *(
        KnownDifference(
            family=family,
            step=step,
            path=path,
            kafka=lambda offset: True,
            ours=lambda offset: True,
            accepts_both=lambda kafka, ours: isinstance(ours, int) and 0 <= kafka < ours,
            reason="the last stable offset is not below the start of the log after records of an open transaction were"
            " deleted; Kafka's is the start of the batch that has the log's first record",
            where=lambda step: step.isolation_level == 1 or isinstance(step, Fetch),
        )
        for family, step, path in (
            ("offsets", "ListOffsets", r"topics\[\d+\]\.partitions\[\d+\]\.offset"),
            ("offsets", "Fetch", _FETCHED + "last_stable_offset"),
            ("fetch-sessions", "Fetch", _FETCHED + "last_stable_offset"),
        )
    ),
    KnownDifference(
        family="offsets",
        step="ListOffsets",
        path=r"topics\[\d+\]\.partitions\[\d+\]\.(timestamp|offset|leader_epoch)",
        kafka=-1,
        ours=lambda value: isinstance(value, int),
        reason="the last stable offset is not below the start of the log, as above, so a record that was deleted can"
        " have the largest time; Kafka names it without an isolation level alone",
        where=lambda step: step.isolation_level == 1 and any(time == _MAX_TIMESTAMP for _, _, time in step.asked),
        when=lambda situation: any(isinstance(each.step, DeleteRecords) for each in situation.earlier),
    ),
    KnownDifference(
        family="offsets",
        step="DeleteRecords",
        path=r"topics\[\d+\]\.partitions",
        kafka=lambda results: True,
        ours=lambda results: True,
        accepts_both=lambda kafka, ours: len(kafka) < len(ours),
        reason="a partition that a request names twice has two results; Kafka carries out the last one alone",
        diverges=True,
    ),
    KnownDifference(
        family="fetch-sessions",
        step="Fetch",
        path=r"responses\[\d+\]\.partitions\[\d+\]\.error_code",
        kafka=_DELETED,
        ours="UNKNOWN_TOPIC_ID",
        reason="the id of a deleted topic is unknown in a session as it is outside of one; Kafka's session remembers"
        " the topic's name and looks that up. Clients do the same after all three errors",
    ),
    KnownDifference(
        family="fetch-sessions",
        step="Fetch",
        path=r"responses(\[\d+\]\.partitions)?",
        kafka=lambda responses: True,
        ours=lambda responses: True,
        accepts_both=_has_more_offsets,
        reason="a partition for which the client names another leader epoch is in the response with all its offsets;"
        " Kafka sends those that have changed",
        where=lambda step: step.session is Session.NEXT and bool(step.asked),
    ),
)
