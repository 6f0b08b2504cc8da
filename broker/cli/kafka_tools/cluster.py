"""kafka-cluster: a cluster's id and endpoints; brokers and controllers that are gone for good (ClusterTool.java)."""

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from broker.cli.kafka_tools.argument_parser import ToolParser
from broker.cli.kafka_tools.clients import admin_of, read_properties
from broker.cli.kafka_tools.columns import row, width_of
from broker.cli.kafka_tools.errors import exception_of
from broker.cli.kafka_tools.options import ToolExit, UsageFailure, integer
from broker.cli.printing import print_error, print_line
from broker.client.admin import Admin
from broker.client.errors import ClientError, UnsupportedByBroker
from broker.client.types import Node
from broker.wire.errors import ErrorCode, KafkaError

Run: TypeAlias = Callable[[Admin, Namespace], Awaitable[None]]

_NO_RACK: Final = "null"
_DEPRECATED: Final = "has been deprecated and will be removed in a future version. Use --command-config instead."
_ENDPOINTS: Final = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")


async def run(arguments: Sequence[str]) -> int:
    """Runs the tool and returns its exit code."""
    options = _parser().parse_args(arguments)
    if options.command is None:
        raise UsageFailure("too few arguments")
    if options.config is not None:
        print_line(f"Option --config {_DEPRECATED}")
    path = options.config if options.command_config is None else options.command_config
    properties = {} if path is None else read_properties(path)
    command: Run = options.run
    try:
        async with admin_of(options.bootstrap_server, options.bootstrap_controller, properties) as admin:
            await command(admin, options)
    except (KafkaError, ClientError) as error:
        raise ToolExit(1, exception_of(error)) from error
    return 0


def _parser() -> ArgumentParser:
    parser = ToolParser("kafka-cluster", description="The Kafka cluster tool.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, run: Run, help: str) -> ArgumentParser:
        added: ArgumentParser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        added.set_defaults(run=run)
        added.add_argument("--config", metavar="FILE", help="Deprecated; use --command-config.")
        added.add_argument(
            "--command-config", "-c", metavar="FILE", help="A properties file with configs of the client."
        )
        servers = added.add_mutually_exclusive_group(required=True)
        servers.add_argument("--bootstrap-server", "-b", metavar="host:port", help="The brokers to connect to.")
        servers.add_argument("--bootstrap-controller", "-C", metavar="host:port", help="The controllers to connect to.")
        return added

    command("cluster-id", _cluster_id, "Get information about the ID of a cluster.")
    unregister = command("unregister", _unregister, "Unregister a broker.")
    unregister.add_argument("--id", "-i", type=integer, required=True, help="The ID of the broker to unregister.")
    unregister = command("unregister-controller", _unregister_controller, "Unregister a controller.")
    unregister.add_argument("--id", "-i", type=integer, required=True, help="The ID of the controller to unregister.")
    endpoints = command("list-endpoints", _list_endpoints, "List endpoints.")
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="List fenced brokers, too.")
    return parser


async def _cluster_id(admin: Admin, options: Namespace) -> None:
    print_line(f"Cluster ID: {(await admin.describe_cluster()).cluster_id}")


async def _unregister(admin: Admin, options: Namespace) -> None:
    try:
        await admin.unregister_broker(options.id)
    except UnsupportedByBroker:
        print_line("The target cluster does not support the broker unregistration API.")
    else:
        print_line(f"Broker {options.id} is no longer registered.")


async def _unregister_controller(admin: Admin, options: Namespace) -> None:
    try:
        await admin.unregister_controller(options.id)
    except (KafkaError, UnsupportedByBroker) as error:
        if isinstance(error, UnsupportedByBroker) or error.code is ErrorCode.UNSUPPORTED_VERSION:
            print_line("The target cluster does not support the controller unregistration API.")
        raise
    print_line(f"Controller {options.id} is no longer registered.")


async def _list_endpoints(admin: Admin, options: Namespace) -> None:
    uses_controllers = options.bootstrap_controller is not None
    if uses_controllers and options.include_fenced_brokers:
        raise ToolExit(1, "The option --include-fenced-brokers is only supported with --bootstrap-server option")
    described = await admin.describe_cluster(include_fenced_brokers=options.include_fenced_brokers)
    kind = "controller" if uses_controllers else "broker"
    _print([_cells(node, node.id in described.fenced, kind) for node in sorted(described.nodes)])


def _cells(node: Node, is_fenced: bool, kind: str) -> list[str]:
    state = "fenced" if is_fenced else "unfenced"
    return [str(node.id), node.host, str(node.port), _NO_RACK if node.rack is None else node.rack, state, kind]


def _print(rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        print_error("No endpoints found.")
        return
    hosts, racks = [cells[1] for cells in rows], [cells[3] for cells in rows if cells[3] != _NO_RACK]
    widths = [10, width_of(hosts, 0), 10, width_of(racks, 0) if racks else 10, 10, 15]
    print_line(row(widths, _ENDPOINTS))
    for cells in rows:
        print_line(row(widths, cells))
