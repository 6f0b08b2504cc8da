"""`kraft start [server.properties] [--override key=value ...]`: run a node until it is told to stop.

Without a file it starts one combined controller and broker for development, on ports 9092 and 9093 of this machine,
with its data in ./data. A data directory that is empty is formatted. SIGTERM and Ctrl-C stop it cleanly, a second one
at once.
"""

import contextlib
import gc
import resource
import signal
import sys
from typing import Final, cast

import attrs
import trio

from broker.cli.event_printer import EventPrinter, LogFormat
from broker.cli.loop_watch import LoopWatch
from broker.cli.node_config import read_node_config
from broker.cli.refusals import print_refusals
from broker.cli.signals import heed
from broker.cli.start_arguments import StartArguments
from broker.config import KafkaConfig
from broker.controller_client.lifecycle_protocol import RegistrationFailed
from broker.node import MetadataDirectoryRefused, Node, NotFormatted
from broker.node.connection_limits import client_descriptors_max
from broker.storage.duplicates import DuplicateLogDir
from broker.storage.log_dir import LogDirInUse
from broker.storage.log_dirs import NoLogDirOnline
from broker.storage.meta_properties import MetaPropertiesError
from kraft.env import Tracer, descriptor_limit, real_env
from kraft.events import Level
from kraft.log import CorruptLog
from kraft.recovery import EpochsExhausted
from metadata.configuration import ConfigError
from metadata.records import MalformedRecord, UnknownRecordType

# What a person can do something about; anything else is a bug, and shows its traceback.
_REFUSALS: Final = (
    ConfigError,
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
    OSError,
)


def run_node(arguments: StartArguments) -> int:
    """Run a node until it is told to stop; the command's exit code."""
    exit_code = 0
    try:
        config = read_node_config(arguments.properties, arguments.overrides)
        _raise_descriptor_limit()
        level, log_format = Level[arguments.log_level.upper()], cast(LogFormat, arguments.log_format)
        printer = EventPrinter(config.node_id, level, log_format)
        _warn(config, printer.trace)
        trio.run(_serve, config, printer, arguments.stop_at_eof, restrict_keyboard_interrupt_to_checkpoints=True)
    except* _REFUSALS as group:
        print_refusals(group)
        exit_code = 1
    return exit_code


def _raise_descriptor_limit() -> None:
    """Take all descriptors the system grants: every connection and every active partition holds one.

    Running out of them looks like a disk that fails. Many systems grant 1,024 at first and far more to who asks. Here
    and not in `Node`: an application that embeds a node decides on its process's limits itself.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems grant less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _warn(config: KafkaConfig, trace: Tracer) -> None:
    for name in config.unknown():
        trace("config_warning", warning=f"{name} is not a config that Kafka knows")
    for name in config.ignored():
        trace("config_warning", warning=f"{name} has no effect yet")
    for text in (_about_connections(config), _about_internal_topics(config)):
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


def _about_internal_topics(config: KafkaConfig) -> str | None:
    """Of a node that is the only controller, and so likely the only broker: clients would ask for ever for a
    coordinator whose topic cannot be created. Of two replicas nothing is said: `kraft cluster` has them for two nodes.
    """
    replicas = config.offsets_topic_replication_factor
    if not (config.is_broker and config.is_sole_voter) or replicas <= 2:
        return None
    return (
        f"offsets.topic.replication.factor is {replicas}: no consumer group works before {replicas} brokers are there. "
        "Set it to 1 where this node is to be the only one"
    )


async def _serve(config: KafkaConfig, printer: EventPrinter, stop_at_eof: bool) -> None:
    node = Node(real_env(printer.trace), config)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printer.run)
        nursery.start_soon(LoopWatch(printer.trace).run)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            nursery.start_soon(heed, signals, node.stop, nursery.cancel_scope.cancel)
            if stop_at_eof:
                nursery.start_soon(_stop_at_eof, node)
            await node.run(task_status=_Serving(node, config))
            nursery.cancel_scope.cancel()


@attrs.frozen
class _Serving:
    """Hears that the node has started; one that was stopped while it waited for others does not serve."""

    node: Node
    config: KafkaConfig

    def started(self, value: None = None) -> None:
        if not self.node.is_serving:
            return
        for bound in self.node.bound:
            print(f"kraft: listening on {bound}")
        directories = ", ".join(self.config.log_directories)
        print(f"kraft: node {self.config.node_id} of cluster {self.node.cluster_id}, data in {directories}", flush=True)
        _tune_garbage_collection()


async def _stop_at_eof(node: Node) -> None:
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as stdin:
        with contextlib.suppress(trio.BrokenResourceError):
            async for _ in stdin:
                pass
    node.stop()


def _tune_garbage_collection() -> None:
    """Leaves out what is there now, and looks at the rest less often: worth a few percent, and shorter pauses.

    Error responses leave cycles behind (an exception, its traceback, the frame that collects it). To free 50,000
    objects of such garbage at once holds the loop for 60 to 100 ms; a collection of 5,000 takes less than 10 ms. Every
    fourth one also looks at what was in use during the three before it: 20,000 objects, which takes 2 to 4 ms. Every
    eleventh one took 8 to 14 ms, as much as half of the longest holds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 3, 600)
