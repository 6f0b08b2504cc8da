"""kafka-reassign-partitions: move replicas to other brokers and log directories (ReassignPartitionsCommand.java)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from broker.cli.kafka_tools.clients import open_admin
from broker.cli.kafka_tools.errors import message_of
from broker.cli.kafka_tools.java_order import hash_map_order
from broker.cli.kafka_tools.log_dir_moves import Destinations, destinations_of, execute_moves, find_moves
from broker.cli.kafka_tools.options import (
    BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    OptionParser,
    Options,
    ToolExit,
    flag,
    integer,
    long,
    option,
)
from broker.cli.kafka_tools.reassignment_files import (
    Directories,
    check_executable,
    encode_reassignment,
    read_reassignment,
    read_topics,
    shown,
)
from broker.cli.move_throttles import RATES, REPLICAS, moves_of, throttled_replicas
from broker.cli.printing import print_text
from broker.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    PartitionReassignment,
)
from broker.client.environment import Environment
from broker.client.errors import ClientError
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller.placement import StripedReplicaPlacer
from metadata.image import BrokerImage

_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_OF_BROKERS: Final = (*RATES, _LOG_DIRS_RATE)
_GENERAL: Final = ("bootstrap-server", "command-config")
# The required and the optional options of each action.
_ACTIONS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "generate": (("topics-to-move-json-file", "broker-list"), ("disable-rack-aware",)),
    "execute": (
        ("reassignment-json-file",),
        ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout", "disallow-replication-factor-change"),
    ),
    "verify": (("reassignment-json-file",), ("preserve-throttles",)),
    "cancel": (("reassignment-json-file",), ("preserve-throttles", "timeout", "bootstrap-controller")),
    "list": ((), ("bootstrap-controller",)),
}

_THROTTLED: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
# Messages before which Kafka's tool puts no "Error: ".
_COMPLETE: Final = ("Cannot execute", "Error reassigning", "Error cancelling")

PARSER: Final = OptionParser(
    "This tool helps to move topic partitions between replicas.",
    *BOOTSTRAP_SERVER_OR_CONTROLLER,
    COMMAND_CONFIG,
    flag("generate", "Propose a reassignment of topics to brokers."),
    flag("execute", "Begin a reassignment."),
    flag("verify", "Say whether a reassignment is finished, and remove its throttles if it is."),
    flag("cancel", "Cancel a reassignment that is under way."),
    flag("list", "List the reassignments that are under way."),
    option(
        "reassignment-json-file",
        "file",
        'The reassignment: {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2, 3]}], "version": 1}.',
    ),
    option("topics-to-move-json-file", "file", 'The topics to move: {"topics": [{"topic": "foo"}], "version": 1}.'),
    option("broker-list", "id,...", "The brokers to move the topics to."),
    flag("disable-rack-aware", "Propose replicas without regard to racks."),
    option("throttle", "bytes/s", "How fast replicas may move between brokers.", long, default=-1),
    option("replica-alter-log-dirs-throttle", "bytes/s", "How fast they may move within a broker.", long, default=-1),
    option("timeout", "ms", "How long moves between log directories may take to begin.", long, default=10_000),
    flag("additional", "Execute it beside the reassignments that are under way."),
    flag("preserve-throttles", "Leave the throttles."),
    flag("disallow-replication-factor-change", "Refuse a reassignment that changes the number of replicas."),
)


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code. Kafka's tool prints its complaints on standard output."""
    options = PARSER.parse(arguments)
    action = _action(options)
    calls = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
    try:
        async with open_admin(options) as admin:
            await calls[action](admin, options)
    except ToolExit as end:
        print_text(end.message if end.message.startswith(_COMPLETE) else f"Error: {end.message}")
        return end.exit_code
    except (KafkaError, ClientError) as error:
        print_text(f"Error: {message_of(error)}")
        return 1
    return 0


def _action(options: Options) -> str:
    """The action. Raises UsageFailure for options that do not belong to it."""
    actions = [action for action in _ACTIONS if action in options]
    if len(actions) != 1:
        named = ", ".join(f"--{action}" for action in _ACTIONS)
        raise options.failure(f"Command must include exactly one action: {named}")
    if "bootstrap-server" in options and "bootstrap-controller" in options:
        raise options.failure("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if "bootstrap-server" not in options and "bootstrap-controller" not in options:
        raise options.failure("Please specify either --bootstrap-server or --bootstrap-controller")
    action = actions[0]
    required, permitted = _ACTIONS[action]
    options.require(*required)
    for name in sorted({name for names in _ACTIONS.values() for each in names for name in each}):
        if name in options and name not in (*required, *permitted, *_GENERAL):
            raise options.failure(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


async def _list(admin: Admin, options: Options) -> None:
    moving = await admin.list_partition_reassignments()
    if not moving:
        print_text("No partition reassignments found.")
        return
    print_text("Current partition reassignments:")
    for each in sorted(moving):
        found = moving[each]
        adding = f" adding: {_ids(found.adding_replicas)}." if found.adding_replicas else ""
        removing = f" removing: {_ids(found.removing_replicas)}." if found.removing_replicas else ""
        print_text(f"{shown(each)}: replicas: {_ids(found.replicas)}.{adding}{removing}")


async def _generate(admin: Admin, options: Options) -> None:
    """Prints a plan that spreads the topics over the brokers. Raises ToolExit, KafkaError, ClientError."""
    topics = read_topics(options.value("topics-to-move-json-file"))
    try:
        brokers = [integer(part) for part in options.value("broker-list").split(",")]
    except ValueError as error:
        raise ToolExit(1, f'For input string: "{error}"') from error
    if duplicates := [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]:
        raise ToolExit(1, f"Broker list contains duplicate entries: [{_ids(duplicates)}]")
    current = await _replicas(admin, topics)
    directories = await _directories(admin, current)
    racks = await _racks(admin, options, brokers)
    proposed = _place(current, racks)
    print_text(f"Current partition replica assignment\n{encode_reassignment(current, directories)}\n")
    print_text(f"Proposed partition reassignment configuration\n{encode_reassignment(proposed, {})}")


async def _racks(admin: Admin, options: Options, brokers: Sequence[int]) -> dict[int, str | None]:
    """Returns the racks of the brokers; None for each if racks are disabled. Raises ToolExit if some have no rack."""
    nodes = (await admin.describe_cluster()).nodes
    racks = {node.id: node.rack for node in nodes if node.id in brokers}
    if "disable-rack-aware" in options:
        return dict.fromkeys(racks)
    if len({rack is None for rack in racks.values()}) > 1:
        raise ToolExit(
            1,
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        )
    return racks


def _place(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas for partitions as if their topics were new. Raises ToolExit."""
    brokers = [BrokerImage(broker, 0, bytes(16), {}, {}, rack, False, False, ()) for broker, rack in racks.items()]
    rng = Environment().rng
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    placers: dict[str, StripedReplicaPlacer] = {}
    for each in sorted(current):
        if each.topic not in placers:
            try:
                placers[each.topic] = StripedReplicaPlacer(brokers, len(current[each]), rng)
            except KafkaError as error:
                raise ToolExit(1, str(error)) from error
        proposed[each] = placers[each.topic].place()
    return proposed


async def _execute(admin: Admin, options: Options) -> None:
    """Begins the reassignment in the file. Raises ToolExit, KafkaError, ClientError."""
    wanted = read_reassignment(options.value("reassignment-json-file"))
    check_executable(wanted)
    destinations = destinations_of(wanted.directories)
    moving = await admin.list_partition_reassignments()
    if moving and "additional" not in options:
        raise ToolExit(
            1,
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
            "to change the throttle by resubmitting the current reassignment.",
        )
    current = await _current(admin, wanted.replicas)
    await _print_current(admin, current)
    rate, rate_of_log_dirs = options.value("throttle"), options.value("replica-alter-log-dirs-throttle")
    if rate >= 0 or rate_of_log_dirs >= 0:
        print_text(_THROTTLED)
    if rate >= 0:
        await _set_throttle(admin, rate, current, wanted.replicas, moving)
    if rate_of_log_dirs >= 0:
        await _throttle_log_dirs(admin, rate_of_log_dirs, destinations)
    allows_change = "disallow-replication-factor-change" not in options
    results = await admin.alter_partition_reassignments(wanted.replicas, allow_replication_factor_change=allows_change)
    if results.failed:
        failures = [f"{shown(each)}: {message_of(results.failed[each])}" for each in sorted(results.failed)]
        raise ToolExit(1, "Error reassigning partition(s):", *failures)
    begun = ",".join(shown(each) for each in sorted(wanted.replicas))
    print_text(f"Successfully started partition reassignment{_plural(wanted.replicas)} for {begun}")
    if destinations:
        await execute_moves(admin, destinations, options.value("timeout"))


async def _current(admin: Admin, wanted: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, Sequence[int]]:
    """The present replicas of the partitions. Raises ToolExit where a broker or a partition does not exist."""
    alive = [node.id for node in (await admin.describe_cluster()).nodes]
    if unknown := [broker for replicas in wanted.values() for broker in replicas if broker not in alive]:
        raise ToolExit(1, f"Unknown broker id {unknown[0]}")
    found = await _replicas(admin, dict.fromkeys(each.topic for each in wanted))
    if missing := [shown(each) for each in wanted if each not in found]:
        raise ToolExit(1, f"Unable to find partition: {', '.join(missing)}")
    return {each: found[each] for each in wanted}


async def _print_current(admin: Admin, current: Mapping[TopicPartition, Sequence[int]]) -> None:
    directories = await _directories(admin, current)
    print_text(
        f"Current partition replica assignment\n\n{encode_reassignment(current, directories)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


async def _verify(admin: Admin, options: Options) -> None:
    """Prints the reassignment's state; removes throttles at its end. Raises ToolExit, KafkaError, ClientError."""
    reassignment = read_reassignment(options.value("reassignment-json-file"))
    wanted = reassignment.replicas
    moving = await admin.list_partition_reassignments()
    described = await admin.describe_topics(dict.fromkeys(each.topic for each in wanted))
    current = {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in described.succeeded.values()
        for each in topic.partitions
    }
    print_text("Status of partition reassignment:")
    for each in sorted(wanted):
        replicas = current.get(each, ())
        if each in moving:
            print_text(f"Reassignment of partition {shown(each)} is still in progress.")
        elif list(replicas) == wanted[each]:
            print_text(f"Reassignment of partition {shown(each)} is completed.")
        else:
            print_text(
                f"There is no active reassignment of partition {shown(each)}, but replica set is {_ids(replicas)} "
                f"rather than {_ids(wanted[each])}."
            )
    moves = await find_moves(admin, destinations_of(reassignment.directories))
    print_text("\n".join(moves[replica].describe(replica) for replica in sorted(moves)))
    if not moving and all(move.is_done for move in moves.values()) and "preserve-throttles" not in options:
        await _clear_throttles(admin, wanted)


async def _cancel(admin: Admin, options: Options) -> None:
    """Cancels the partitions' reassignments that are under way. Raises ToolExit, KafkaError, ClientError."""
    reassignment = read_reassignment(options.value("reassignment-json-file"))
    wanted = reassignment.replicas
    moving = sorted(await admin.list_partition_reassignments(wanted))
    if moving:
        results = await admin.alter_partition_reassignments(dict.fromkeys(moving))
        if results.failed:
            failures = [f"{shown(each)}: {message_of(results.failed[each])}" for each in sorted(results.failed)]
            message = f"Error cancelling partition reassignment{_plural(results.failed)} for:"
            raise ToolExit(1, message, *failures)
        cancelled = ",".join(map(shown, moving))
        print_text(f"Successfully cancelled partition reassignment{_plural(moving)} for: {cancelled}")
    else:
        print_text("None of the specified partition reassignments are active.")
    moves = await find_moves(admin, destinations_of(reassignment.directories))
    present = {replica: move.current for replica, move in moves.items() if move.is_active and move.current is not None}
    if present:
        await execute_moves(admin, present, options.value("timeout"))
    else:
        print_text("None of the specified partition moves are active.", end="")
    if "preserve-throttles" not in options:
        await _clear_throttles(admin, wanted)


async def _replicas(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, Sequence[int]]:
    """The replicas of the topics' partitions. Raises ToolExit where a topic does not exist."""
    described = await admin.describe_topics(topics)
    for topic, error in described.failed.items():
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ToolExit(1, f"Topic {topic!s} not found.")
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in described.raise_first().values()
        for each in topic.partitions
    }


async def _directories(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> Directories:
    """Returns the log directories of the replicas. Brokers that do not answer are left out."""
    brokers = sorted({broker for each in replicas.values() for broker in each})
    described = await admin.describe_log_dirs(brokers, partitions=list(replicas))
    return {
        (partition, broker): path
        for broker, directories in described.succeeded.items()
        for path, directory in directories.items()
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }


async def _clear_throttles(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Removes the throttles of all brokers and of the partitions' topics, also those that others have set.

    Raises KafkaError, ClientError.
    """
    brokers = {node.id for node in (await admin.describe_cluster()).nodes}
    brokers.update(broker for each in replicas.values() for broker in each)
    listed = ",".join(map(str, sorted(brokers)))
    print_text(f"Clearing broker-level throttles on broker{_plural(brokers)} {listed}")
    await _delete_configs(admin, ConfigResourceType.BROKER, map(str, sorted(brokers)), _OF_BROKERS)
    topics = hash_map_order(each.topic for each in replicas)
    print_text(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    await _delete_configs(admin, ConfigResourceType.TOPIC, topics, REPLICAS)


async def _set_throttle(
    admin: Admin,
    rate: int,
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    moving: Mapping[TopicPartition, PartitionReassignment],
) -> None:
    """Limits the replication of what moves, also of what moves already, to a rate in bytes per second."""
    adding = {each: [*found.replicas] for each, found in moving.items()}
    moves = moves_of(current, {**adding, **wanted}, moving)
    changes: dict[ConfigResource, list[ConfigChange]] = {}
    for (topic, name), entries in throttled_replicas(moves).items():
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        changes.setdefault(resource, []).append(ConfigChange(name, ",".join(entries)))
    brokers = {broker for sources, targets in moves.values() for broker in sources | targets}
    for broker in sorted(brokers):
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker))
        changes[resource] = [ConfigChange(name, str(rate)) for name in RATES]
    (await admin.incremental_alter_configs(changes)).raise_first()
    print_text(f"The inter-broker throttle limit was set to {rate} B/s")


async def _throttle_log_dirs(admin: Admin, rate: int, destinations: Destinations) -> None:
    """Limits the moves between log directories of brokers to a rate in bytes per second."""
    brokers = sorted({replica.broker_id for replica in destinations})
    changes = {
        ConfigResource(ConfigResourceType.BROKER, str(each)): [ConfigChange(_LOG_DIRS_RATE, str(rate))]
        for each in brokers
    }
    (await admin.incremental_alter_configs(changes)).raise_first()
    print_text(f"The replica-alter-dir throttle limit was set to {rate} B/s")


async def _delete_configs(admin: Admin, kind: ConfigResourceType, names: Iterable[str], keys: Sequence[str]) -> None:
    changes = {
        ConfigResource(kind, name): [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys] for name in names
    }
    (await admin.incremental_alter_configs(changes)).raise_first()


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _plural(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"
