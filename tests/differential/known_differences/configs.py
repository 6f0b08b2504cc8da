"""The differences of topics and configs."""

from collections.abc import Iterator, Sequence
from typing import Final

from tests.differential.execution import SILENCE
from tests.differential.families.configs.config_steps import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    SUBTRACT,
    TOPIC,
    AlterIncrementally,
    DescribeConfigs,
)
from tests.differential.families.configs.topic_steps import CreateTopics
from tests.differential.known_differences.entries import KnownDifference, anything, containing, is_text

_FAMILIES: Final = ("configs", "broker-configs")
_TYPES: Final = (TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP)
_RESULT: Final = r"results\[\d+\]\."
_RESPONSE: Final = r"responses\[\d+\]\."
_TOPIC: Final = r"topics\[\d+\]\."
_INT_MAX: Final = 2**31 - 1
_PARTITIONS_MAX: Final = 10_000


def _repeats_resource(step: DescribeConfigs) -> bool:
    return len({each[:2] for each in step.resources}) < len(step.resources)


def _has_unknown_type(step: DescribeConfigs) -> bool:
    return any(kind not in _TYPES for kind, _, _ in step.resources)


def _changes_list_of_metrics(step: AlterIncrementally) -> bool:
    return any(
        kind == CLIENT_METRICS and op in (APPEND, SUBTRACT)
        for kind, _, changes in step.resources
        for _, op, _ in changes
    )


def _changes_several_as_lists(step: AlterIncrementally) -> bool:
    return any(sum(op in (APPEND, SUBTRACT) for _, op, _ in changes) > 1 for _, _, changes in step.resources)


def _has_unknown_operation(step: AlterIncrementally) -> bool:
    return any(op not in range(SUBTRACT + 1) for _, _, changes in step.resources for _, op, _ in changes)


def _names(step: CreateTopics) -> list[str]:
    return [each.name for each in step.topics]


def _partitions(step: CreateTopics) -> int:
    """The partitions of the topics that are named once."""
    names = _names(step)
    return sum(max(each.partitions, 0) or 1 for each in step.topics if names.count(each.name) == 1)


def _entries(family: str) -> Iterator[KnownDifference]:
    for step, path in (
        ("DescribeConfigs", _RESULT + "error_message"),
        ("CreatePartitions", _RESULT + "error_message"),
    ):
        yield KnownDifference(
            family=family,
            step=step,
            path=path,
            kafka=lambda message: not message,
            ours=is_text,
            reason="an error has a message, where Kafka's response has the error code alone",
        )
    yield KnownDifference(
        family=family,
        step="DescribeConfigs",
        path=_RESULT + r"configs\.(share|streams)\..*",
        kafka=lambda config: isinstance(config, dict),
        ours="absent",
        reason="groups have no configs of share groups and streams groups, which are not supported",
    )
    yield KnownDifference(
        family=family,
        step="DescribeConfigs",
        path=_RESULT + r"configs\.consumer\.heartbeat\.interval\.ms\.synonyms\[\d+\]",
        kafka=is_text,
        ours=is_text,
        reason="the default heartbeat interval of consumer groups is 4 seconds; Kafka's is 5 seconds",
    )
    yield KnownDifference(
        family=family,
        step="DescribeConfigs",
        path="results",
        kafka=anything,
        ours=anything,
        reason="a resource that a request names several times is described once: all configs of one can be described"
        " for a few bytes of a request",
        where=_repeats_resource,
    )
    yield KnownDifference(
        family=family,
        step="DescribeConfigs",
        path=_RESULT + r"(error_code|error_message|configs\..*)",
        kafka=anything,
        ours=anything,
        reason="a resource of a type that is unknown fails alone; Kafka then fails all resources of the request",
        where=_has_unknown_type,
    )
    yield KnownDifference(
        family=family,
        step="AlterIncrementally",
        path=_RESPONSE + "(error_code|error_message)",
        kafka=containing("INVALID_CONFIG", "because its type is not LIST"),
        ours=anything,
        reason="APPEND and SUBTRACT change the lists of client metrics subscriptions, too; Kafka's controller knows the"
        " types of topics' and brokers' configs alone",
        where=_changes_list_of_metrics,
        diverges=True,
    )
    yield KnownDifference(
        family=family,
        step="CreateTopics",
        path=_TOPIC + ".*",
        kafka=anything,
        ours=anything,
        reason="a request for more than 10,000 partitions in all is refused as a whole; Kafka's sum is an int and"
        " overflows",
        where=lambda step: _partitions(step) > _INT_MAX,
        when=lambda situation: all(each["error_code"] == "POLICY_VIOLATION" for each in situation.ours.value["topics"]),
        diverges=True,
    )
    yield KnownDifference(
        family=family,
        step="CreateTopics",
        path="topics",
        kafka=anything,
        ours=anything,
        reason="if a request is refused as a whole, a topic that it has twice has one result, as in other responses",
        where=lambda step: _partitions(step) > _PARTITIONS_MAX and len(set(_names(step))) < len(step.topics),
    )
    yield KnownDifference(
        family=family,
        step="CreatePartitions",
        path=_RESULT + "(error_code|error_message)",
        kafka=anything,
        ours=containing("POLICY_VIOLATION", "Unable to perform excessively large batch operation."),
        reason="a request for more than 10,000 new partitions is refused as a whole; Kafka fails at the topic that has"
        " too many, and creates 10,000 of them",
        when=lambda situation: any(
            each["error_code"] == "UNKNOWN_SERVER_ERROR" for each in situation.kafka.value["results"]
        ),
        diverges=True,
    )
    yield KnownDifference(
        family=family,
        step="AlterIncrementally",
        path=_RESPONSE + "error_message",
        kafka=containing("because its type is not LIST"),
        ours=containing("because its type is not LIST"),
        reason="the first of several wrong changes is named; Kafka takes them in the order of their hashes",
        where=_changes_several_as_lists,
    )
    yield KnownDifference(
        family=family,
        step="AlterIncrementally",
        path=_RESPONSE + "(error_code|error_message)",
        kafka=anything,
        ours=anything,
        reason="a resource with an operation that is unknown fails alone, with INVALID_REQUEST; Kafka's controller"
        " fails at it",
        where=_has_unknown_operation,
        diverges=True,
    )
    yield KnownDifference(
        family=family,
        step="AlterAll",
        path="",
        kafka=SILENCE,
        ours=lambda response: isinstance(response, dict),
        reason="Kafka's broker responds to no request of which it refuses several resources itself",
        where=lambda step: len(step.resources) > 1,
    )
    yield KnownDifference(
        family=family,
        step="Metadata",
        path="brokers|controller_id|topics",
        kafka=anything,
        ours=anything,
        reason="a topic without a name and an id is left out; Kafka fails at it",
        where=lambda step: (None, None) in (step.topics or ()),
    )
    yield KnownDifference(
        family=family,
        step="Metadata",
        path="error_code",
        kafka="UNKNOWN_SERVER_ERROR",
        ours="NONE",
        reason="as above; from version 13 on, the response has an error code of its own",
        where=lambda step: (None, None) in (step.topics or ()),
    )
    yield KnownDifference(
        family=family,
        step="DescribeTopicPartitions",
        path="topics|next_cursor|" + _TOPIC + ".*",
        kafka=anything,
        ours=anything,
        reason="a topic without a name is invalid, and the others are described; Kafka fails at its name",
        where=lambda step: "" in step.topics,
    )


def _has_other_broker(step: AlterIncrementally) -> bool:
    return any(kind == BROKER and name not in ("", "1") for kind, name, _ in step.resources)


def _keys_of(message: str) -> tuple[str, list[str]]:
    """A message, with the keys in its brackets apart."""
    begin, _, keys = message.removesuffix("]").partition("[")
    return begin, sorted(keys.split(", "))


def _of_brokers(family: str) -> Iterator[KnownDifference]:
    for step in ("AlterIncrementally", "AlterAll"):
        yield KnownDifference(
            family=family,
            step=step,
            path=_RESPONSE + "(error_code|error_message)",
            kafka=containing("INVALID_REQUEST", "Unexpected broker id"),
            ours=anything,
            reason="the controller checks the configs of brokers, so each node takes those of all; Kafka's brokers take"
            " their own alone",
            where=_has_other_broker,
        )
        for kafka, ours, reason in (
            ("requirement failed: ", is_text, "the message has no words of the Scala library"),
            ("Error parsing configuration property", is_text, "the message has no words of the Java library"),
            ("/ by zero", is_text, "the message has no words of the Java library"),
            ("For input string: ", is_text, "the message has no words of the Java library"),
            ("org.apache.kafka.common.config.ConfigException: ", is_text, "the message names no class of Java"),
        ):
            yield KnownDifference(
                family=family,
                step=step,
                path=_RESPONSE + "error_message",
                kafka=containing(kafka),
                ours=ours,
                reason=reason,
            )
    for step in ("AlterIncrementally", "AlterAll"):
        yield KnownDifference(
            family=family,
            step=step,
            path=_RESPONSE + "error_message",
            kafka=containing("Cannot update these configs dynamically: ["),
            ours=containing("Cannot update these configs dynamically: ["),
            accepts_both=lambda kafka, ours: _keys_of(kafka) == _keys_of(ours),
            reason="the keys are in the order of the request; Kafka has them in the order of their hashes",
        )
    yield KnownDifference(
        family=family,
        step="DescribeConfigs",
        path=_RESULT + r"configs\.((leader|follower)\.replication\.throttled\.rate"
        r"|replica\.alter\.log\.dirs\.io\.max\.bytes\.per\.second)\.documentation",
        kafka=None,
        ours="documented",
        reason="rates of replication throttles are documented; in Kafka they are not among the broker's configs",
    )
    for keys, reason in (
        (
            r"(controller\.quorum\.(bootstrap\.servers|voters)|inter\.broker\.listener\.name|listeners|log\.dirs)",
            "each server has addresses and directories of its own",
        ),
        (
            r"(num\.(io|network)\.threads|share\.coordinator\.state\.topic\.(min\.isr|replication\.factor))",
            "Kafka's server runs with one thread of each kind, and our node with one replica of each topic",
        ),
        (
            r"(group\.consumer\.(min\.)?heartbeat\.interval\.ms|socket\.listen\.backlog\.size)",
            "the default is another one, which `docs/compatibility.md` explains",
        ),
        (
            r"(dynamic\.configs\.ignored|http\.listener|log\.scrub\.(enable|interval\.ms|io\.max\.bytes\.per\.second)"
            r"|request\.log\.(client\.ids|slow\.ms|topics))",
            "the config is this project's own",
        ),
    ):
        yield KnownDifference(
            family=family,
            step="DescribeConfigs",
            path=_RESULT + r"configs\." + keys + r"(\.(value|config_source|synonyms(\[\d+\])?))?",
            kafka=anything,
            ours=anything,
            reason=reason,
            where=lambda step: any(kind == BROKER for kind, _, _ in step.resources),
        )


CONFIGS: Final[Sequence[KnownDifference]] = (
    *(each for family in _FAMILIES for each in _entries(family)),
    *_of_brokers("broker-configs"),
)
