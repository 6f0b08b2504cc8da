"""`kraft start [server.properties] [--override key=value ...]`: runs a node until a signal stops it.

Without a file, the command starts a combined controller and broker for development, on ports 9092 and 9093 of this
machine, with its data in ./data. An empty data directory is formatted. SIGTERM and Ctrl-C stop the node cleanly; a
second one stops it at once. With `kraft.brokers`, it starts several (`broker.cli.host_brokers`).
"""

import gc
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, cast

import trio

from broker.cli.errors import UnreadableFile, print_errors
from broker.cli.event_printer import EventPrinter, LogFormat
from broker.cli.loop_watch import LoopWatch
from broker.cli.node_config import read_host
from broker.cli.printing import print_error, print_line
from broker.cli.signals import call_at_eof, handle_signals
from broker.cli.start_arguments import StartArguments, read_start_arguments
from broker.config import KafkaConfig
from broker.controller_client.lifecycle_protocol import RegistrationFailed
from broker.coordinator.internal_topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    internal_topic,
    replication_key,
)
from broker.events import ALL_CATALOGUES
from broker.log_levels import LogLevels
from broker.node import MetadataDirectoryRefused, Node, NotFormatted
from broker.node.connection_limits import client_descriptors_max
from broker.storage.duplicate_log_dirs import DuplicateLogDir
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import MetaPropertiesError
from broker.storage.offline_directories import NoLogDirOnline
from kraft import lazy_attrs
from kraft.env import Tracer, real_env
from kraft.events import Level
from kraft.file_descriptors import descriptor_limit, enlarge_descriptor_table, raise_descriptor_limit
from kraft.log import CorruptLog
from kraft.recovery import EpochsExhausted
from metadata.configuration import InvalidConfig
from metadata.records import MalformedRecord, UnknownRecordType

# Enough for some thousand connections.
_TABLE_DESCRIPTORS: Final = 8_192
# The exit code of a wrong command line, as of all commands (`broker.cli.grammar.failures.Exit`).
_USAGE: Final = 2

# Errors that an operator can resolve. Any other error is a bug and shows its traceback.
_REFUSALS: Final = (
    InvalidConfig,
    NotFormatted,
    MetadataDirectoryRefused,
    RegistrationFailed,
    LogDirInUse,
    MetaPropertiesError,
    DuplicateLogDir,
    NoLogDirOnline,
    CorruptLog,
    EpochsExhausted,
    MalformedRecord,
    UnknownRecordType,
    ImportError,
    OSError,
)


def run_node(arguments: StartArguments) -> int:
    """Run a node until a signal stops it. Returns the exit code of the command."""
    exit_code = 0
    _tune_garbage_collection()
    try:
        try:
            host = read_host(arguments.properties, arguments.settings)
        except UnreadableFile as error:
            print_error(f"kraft: {error}")
            return _USAGE
        if len(host.brokers) > 1:
            from broker.cli.host_brokers import run_brokers

            return run_brokers(host, arguments, _run_fork)
        config = host.config
        # Not part of `Node`: an application that embeds a node sets the limits of its process itself.
        raise_descriptor_limit()
        enlarge_descriptor_table(_TABLE_DESCRIPTORS)
        level, log_format = Level[arguments.log_level.upper()], cast(LogFormat, arguments.log_format)
        levels = LogLevels([catalogue.package for catalogue in ALL_CATALOGUES], level)
        printer = EventPrinter(config.node_id, levels, log_format)
        _warn(config, printer.trace)
        serve = partial(_serve, Node(real_env(printer.trace), config, levels), config, printer)
        trio.run(serve, arguments.stop_at_eof, restrict_keyboard_interrupt_to_checkpoints=True)
    except* _REFUSALS as group:
        print_errors(group)
        exit_code = 1
    return exit_code


def _run_fork(arguments: Sequence[str]) -> int:
    """Run a node in a fork of a supervisor. `arguments` are those of `kraft`."""
    started = read_start_arguments(arguments[1:])
    assert started is not None, "the supervisor has made the arguments"
    return run_node(started)


def _warn(config: KafkaConfig, trace: Tracer) -> None:
    for name in config.unknown():
        trace("config_warning", warning=f"{name} is not a config that Kafka knows")
    for name in config.unknown_ignored():
        trace("config_warning", warning=f"dynamic.configs.ignored: {name} is no dynamic config, and no quota")
    for name in config.ignored():
        trace("config_warning", warning=f"{name} has no effect yet")
    for text in (_about_connections(config), *_about_internal_topics(config)):
        if text is not None:
            trace("config_warning", warning=text)


def _about_connections(config: KafkaConfig) -> str | None:
    descriptors = descriptor_limit()
    connections = client_descriptors_max(descriptors)
    if KafkaConfig.max_connections.name not in config.layers.static or config.max_connections <= connections:
        return None
    return (
        f"max.connections={config.max_connections} is more than the {connections} connections that this process can "
        f"serve: it may open {descriptors} files and connections. Raise that limit (ulimit -n)"
    )


def _about_internal_topics(config: KafkaConfig) -> Iterator[str]:
    """The warnings that the topics of the coordinators cannot be created.

    A node that is the only controller is probably the only broker, too. Its clients would retry for ever to find a
    coordinator. Two replicas are accepted, because `kraft cluster` sets them for two nodes.
    """
    if not (config.is_broker and config.is_sole_voter):
        return
    for name, client in ((CONSUMER_OFFSETS, "consumer group"), (TRANSACTION_STATE, "transaction")):
        topic = internal_topic(name, config)
        assert topic is not None, "it is one of the coordinators'"
        replicas = topic.replication_factor
        if replicas > 2:
            yield (
                f"{replication_key(name)} is {replicas}: no {client} works before {replicas} brokers are there. "
                "Set it to 1 if this node is the only one"
            )


async def _serve(node: Node, config: KafkaConfig, printer: EventPrinter, stop_at_eof: bool) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printer.run)
        nursery.start_soon(LoopWatch(printer.trace).run)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            nursery.start_soon(handle_signals, signals, node.stop, nursery.cancel_scope.cancel)
            if stop_at_eof:
                nursery.start_soon(call_at_eof, node.stop)
            await node.run(task_status=_Serving(node, config))
            nursery.cancel_scope.cancel()


@lazy_attrs.frozen
class _Serving:
    """The `task_status` of the node: prints where the node listens once it serves.

    A node that is stopped while it waits for other nodes reports a start, too, and does not serve.
    """

    node: Node
    config: KafkaConfig

    def started(self, value: None = None) -> None:
        if not self.node.is_serving:
            return
        for bound in self.node.bound:
            print_line(f"kraft: listening on {bound}")
        directories = ", ".join(self.config.log_directories)
        serves = f"kraft: node {self.config.node_id} of cluster {self.node.cluster_id}, data in {directories}"
        print_line(serves, flush=True)
        gc.freeze()


def _tune_garbage_collection() -> None:
    """Exclude all present objects from garbage collection, and collect less often.

    This saves a few percent of CPU time and shortens the pauses. Error responses leave reference cycles (an exception,
    its traceback, and the frame that holds both). Freeing 50,000 objects of such garbage at once holds the event loop
    for 60 to 100 ms; a collection after 5,000 allocations takes less than 10 ms. Every fourth collection also examines
    the objects that survived the three before it: 20,000 objects, which takes 2 to 4 ms. With every eleventh instead of
    every fourth, this took 8 to 14 ms, half of the longest hold. A collection here would delay the first response by
    30 ms and free less than a megabyte.
    """
    gc.freeze()
    gc.set_threshold(5_000, 3, 600)
