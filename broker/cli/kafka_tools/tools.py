"""Kafka's tools by name, and how a run of one ends."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import trio

from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.options import ToolExit, UsageFailure
from broker.cli.main import main as kraft
from broker.cli.printing import print_text
from broker.client.errors import ClientError
from broker.printable import printable
from broker.wire.errors import KafkaError

# The module of each tool. Each has `run(arguments)`, which returns the exit code.
TOOLS: Final[Mapping[str, str]] = {
    "kafka-topics": "topics",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-share-consumer": "console_share_consumer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-groups": "groups",
    "kafka-share-groups": "share_groups",
    "kafka-configs": "configs",
    "kafka-get-offsets": "get_offsets",
    "kafka-delete-records": "delete_records",
    "kafka-features": "features",
    "kafka-cluster": "cluster",
    "kafka-acls": "acls",
    "kafka-delegation-tokens": "delegation_tokens",
    "kafka-storage": "storage",
    "kafka-server-stop": "server_stop",
    "kafka-log-dirs": "log_dirs",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-leader-election": "leader_election",
    "kafka-transactions": "transactions",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-consumer-perf-test": "consumer_perf_test",
}
# `kraft` has these commands with the options and the output of the tools.
COMMANDS_AS_TOOLS: Final = {"kafka-metadata-quorum": "quorum", "kafka-dump-log": "dump-log"}
_STORAGE_TOOL: Final = "kafka-storage"
NAMES: Final = (*TOOLS, *COMMANDS_AS_TOOLS)

_USAGE: Final = 2
_INTERRUPTED: Final = 130
_OUTPUT_CLOSED: Final = 141


async def run_tool(name: str, arguments: Sequence[str]) -> int:
    """Runs a tool and returns its exit code. Errors are printed to standard error."""
    module = import_module(f"broker.cli.kafka_tools.{TOOLS[name]}")
    try:
        exit_code: int = await module.run(arguments)
        return exit_code
    except UsageFailure as failure:
        print_text("\n".join(filter(None, (str(failure), failure.help_text))), file=sys.stderr)
        return 1
    except ToolExit as end:
        if end.message:
            print_text(end.message, file=sys.stderr)
        return end.exit_code
    except BrokenPipeError:
        raise
    except (KafkaError, ClientError, OSError) as error:
        print_text(f"{name}: {exception_of(error)}", file=sys.stderr)
        return 1


def main(arguments: Sequence[str]) -> int:
    """Runs `NAME OPTION...` as a process does."""
    name, options = (arguments[0] if arguments else "").removesuffix(".sh"), arguments[1:]
    if name not in NAMES:
        print_text(f"{printable(name) or 'no name'} is not one of the tools: {', '.join(NAMES)}", file=sys.stderr)
        return _USAGE
    if name in COMMANDS_AS_TOOLS:
        return kraft([COMMANDS_AS_TOOLS[name], *options])
    if name == _STORAGE_TOOL and options[:1] in (["format"], ["random-uuid"]):
        return kraft(options)
    try:
        exit_code = trio.run(run_tool, name, options)
        sys.stdout.flush()
        return exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the interpreter would complain there that it cannot flush the output
        return _OUTPUT_CLOSED
