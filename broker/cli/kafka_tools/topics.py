"""kafka-topics: create, alter, describe, list and delete topics (TopicCommand.java)."""

import re
import sys
from collections.abc import Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    UsageFailure,
    flag,
    integer,
    option,
)
from broker.cli.kafka_tools.topic_filters import matching_names
from broker.cli.kafka_tools.topics_described import describe_topics
from broker.cli.printing import print_text
from broker.client.admin import Admin, NewPartitions, NewTopic
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import ZERO_UUID, decode_uuid

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
# Options that belong to some actions only.
_ACTIONS_OF: Final = {
    "config": ("create", "alter"),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "topics-with-overrides": ("describe",),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    **dict.fromkeys(_REPORTS, ("describe",)),
}
_REPLICATION_FACTOR_MAX: Final = 2**15 - 1
_USE_CONFIGS: Final = " (To alter topic configurations, the kafka-configs tool can be used.)"

PARSER: Final = OptionParser(
    "This tool helps to create, delete, describe, or change a topic.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("list", "List all topics."),
    flag("create", "Create a topic."),
    flag("delete", "Delete topics."),
    flag("alter", "Give topics more partitions." + _USE_CONFIGS),
    flag("describe", "Describe topics."),
    option("topic", "topic", "The topic; apart from --create, a regular expression."),
    option("topic-id", "topic-id", "The id of the topic to describe."),
    option("config", "name=value", "A config of the topic that --create makes; may be repeated." + _USE_CONFIGS),
    option("delete-config", "name", "No longer supported."),
    option("partitions", "count", "The number of partitions; the cluster's default without it.", integer),
    option("replication-factor", "count", "The number of replicas; the cluster's default without it.", integer),
    option("replica-assignment", "id:id,id:id,...", "The brokers of each partition's replicas."),
    flag("under-replicated-partitions", "Describe only partitions with replicas that are not in sync."),
    flag("unavailable-partitions", "Describe only partitions without a leader that is alive."),
    flag("under-min-isr-partitions", "Describe only partitions with fewer in-sync replicas than they need."),
    flag("at-min-isr-partitions", "Describe only partitions with as many in-sync replicas as they need."),
    flag("topics-with-overrides", "Describe only topics with configs of their own, without their partitions."),
    flag("if-exists", "Alter, delete or describe the topic only if it exists."),
    flag("if-not-exists", "Do not fail if the topic to create exists."),
    flag("exclude-internal", "List or describe no internal topics."),
    option("partition-size-limit-per-response", "count", "The most partitions that one response describes.", integer),
)


class TopicFailure(Exception):
    """The requested action is not possible."""


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = PARSER.parse(arguments)
    action = _check(options)
    try:
        async with open_admin(options) as admin:
            match action:
                case "create":
                    await _create(admin, options)
                case "alter":
                    await _alter(admin, options)
                case "delete":
                    await _delete(admin, options)
                case "describe":
                    await _describe(admin, options)
                case _:
                    print_text("\n".join(await _topics(admin, options)))
    except (TopicFailure, KafkaError, ClientError) as error:
        print_text(f"Error while executing topic command : {message_of(error)}")
        return 1
    return 0


def _check(options: Options) -> str:
    """Returns the action that the options name. Raises UsageFailure for options that do not go together."""
    actions = [action for action in ACTIONS if action in options]
    if len(actions) != 1:
        raise options.failure(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    action = actions[0]
    if "delete-config" in options:
        print_text(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    if "bootstrap-server" not in options:
        raise UsageFailure("--bootstrap-server must be specified")
    _check_action(options, action)
    return action


def _check_action(options: Options, action: str) -> None:
    if action == "describe" and "if-exists" in options and not ("topic" in options or "topic-id" in options):
        raise options.failure("--topic or --topic-id is required to describe a topic")
    if action not in ("list", "describe"):
        options.require("topic")
    if action == "alter":
        if "config" in options:
            option = PARSER.option
            used = f"[{option('bootstrap-server')}, {option('config')}]"
            raise options.failure(
                f'Option combination "{used}" can\'t be used with option "{option("alter")}"{_USE_CONFIGS}'
            )
        options.require("partitions")
    for name, allowed in _ACTIONS_OF.items():
        if action not in allowed:
            options.exclude(name, action)
    if action == "create":
        options.exclude("replica-assignment", "partitions", "replication-factor")
    for report in _REPORTS:
        options.exclude(report, "topics-with-overrides", *(each for each in _REPORTS if each != report))


async def _create(admin: Admin, options: Options) -> None:
    name = options.value("topic")
    topic = NewTopic(
        name,
        options.value("partitions"),
        options.value("replication-factor"),
        assignments=_replica_assignment(options),
        configs=_topic_configs(options.values("config")),
    )
    if "." in name or "_" in name:
        print_text(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if topic.replication_factor is not None and not 1 <= topic.replication_factor <= _REPLICATION_FACTOR_MAX:
        raise TopicFailure(f"The replication factor must be between 1 and {_REPLICATION_FACTOR_MAX} inclusive")
    if topic.num_partitions is not None and topic.num_partitions < 1:
        raise TopicFailure("The partitions must be greater than 0")
    try:
        (await admin.create_topics([topic])).raise_first()
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or "if-not-exists" not in options:
            raise
    else:
        print_text(f"Created topic {printable(name)}.")


async def _alter(admin: Admin, options: Options) -> None:
    names = await _existing(admin, options)
    described = (await admin.describe_topics(names)).raise_first()
    assignments = _replica_assignment(options)
    total = options.value("partitions")
    counts: dict[str, NewPartitions] = {}
    for name, topic in described.items():
        added = None
        if assignments is not None:
            added = [replicas for index, replicas in assignments.items() if index >= len(topic.partitions)]
        counts[str(name)] = NewPartitions(total, added)
    (await admin.create_partitions(counts)).raise_first()


async def _delete(admin: Admin, options: Options) -> None:
    (await admin.delete_topics(await _existing(admin, options))).raise_first()


async def _describe(admin: Admin, options: Options) -> None:
    if "topic-id" in options and (topic_id := await _topic_id(admin, options)) is not None:
        await describe_topics(admin, options, topic_id)
    else:
        await describe_topics(admin, options, await _existing(admin, options))


async def _topic_id(admin: Admin, options: Options) -> list[bytes] | None:
    """The topic of --topic-id, if it exists; None for the id of zeros, which means no topic. Raises TopicFailure."""
    text = options.value("topic-id")
    try:
        wanted = decode_uuid(text)
    except ValueError as error:
        raise TopicFailure(str(error)) from error
    if wanted == ZERO_UUID:
        return None
    listed = await admin.list_topics(include_internal="exclude-internal" not in options)
    if wanted in [topic.topic_id for topic in listed]:
        return [wanted]
    if "if-exists" not in options:
        raise TopicFailure(f"TopicId '{text}' does not exist as expected")
    return []


async def _existing(admin: Admin, options: Options) -> list[str]:
    """Returns the existing topics of --topic. Raises TopicFailure if there are none, unless --if-exists is given."""
    names = await _topics(admin, options)
    if not names and options.value("topic") and "if-exists" not in options:
        raise TopicFailure(f"Topic '{options.value('topic')}' does not exist as expected")
    return names


async def _topics(admin: Admin, options: Options) -> list[str]:
    listed = await admin.list_topics(include_internal="exclude-internal" not in options)
    return matching_names(listed, options.value("topic"))


def _replica_assignment(options: Options) -> dict[int, list[int]] | None:
    """The brokers of --replica-assignment by partition; None without it. Raises TopicFailure."""
    text = options.value("replica-assignment")
    if not text:
        return None
    assignments: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",")):
        try:
            replicas = [integer(broker.strip()) for broker in part.split(":")]
        except ValueError as error:
            raise TopicFailure(f'For input string: "{error}"') from error
        if duplicates := [broker for broker in dict.fromkeys(replicas) if replicas.count(broker) > 1]:
            listed = ",".join(map(str, duplicates))
            raise TopicFailure(f"Partition replica lists may not contain duplicate entries: {listed}")
        assignments[partition] = replicas
        if len(replicas) != len(assignments[0]):
            raise TopicFailure(f"Partition {partition} has different replication factor: {replicas}")
    return assignments


def _topic_configs(settings: Sequence[str]) -> dict[str, str | None]:
    """Parses the values of --config. Raises TopicFailure."""
    pairs = [re.split(r"\s*=\s*", setting) for setting in settings]
    if any(len(pair) != 2 for pair in pairs):
        raise TopicFailure(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return {name.strip(): value.strip() for name, value in pairs}
