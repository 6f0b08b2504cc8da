"""`kraft quorum`: look at the controllers' quorum and change its voters, as `kafka-metadata-quorum` does (KIP-853)."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs
import click

from broker.cli.admin_connection import (
    BROKERS,
    CONTROLLERS,
    REQUEST_TIMEOUT_MS,
    check,
    connected,
    connected_to_controller,
    describe_cluster,
    parse_servers,
)
from broker.cli.commands.quorum_description import (
    QuorumDescription,
    describe_quorum,
    replication_lines,
    status_lines,
)
from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Invocation
from broker.cli.grammar.options import given_settings
from broker.cli.node_config import read_node_config
from broker.cli.output import one
from broker.client import Connection
from broker.config import KafkaConfig
from broker.storage.meta_properties import MetaPropertiesError, read_meta_properties
from broker.wire.api.add_raft_voter import AddRaftVoterRequest, Listener
from broker.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartition,
    RequestedTopic,
)
from broker.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft.env import real_env
from metadata.configuration import ConfigError

METADATA_TOPIC: Final = "__cluster_metadata"


@attrs.frozen
class ChangedVoter:
    """A controller whose vote was given or taken. With `dry_run`, nothing was changed."""

    node_id: int
    directory_id: str
    dry_run: bool


@click.group("quorum", cls=CommandGroup)
@click.option("--bootstrap-controller", metavar="HOST:PORT,...", help="Controllers to ask, in place of brokers.")
def quorum(bootstrap_controller: str | None) -> None:
    """Look at the controllers' quorum, and change its voters (KIP-853)."""
    context = click.get_current_context()
    if bootstrap_controller is not None and given_settings(context).bootstrap_servers is not None:
        raise click.UsageError("Use one of --bootstrap-server and --bootstrap-controller.", context)
    context.obj = bootstrap_controller


@quorum.command("describe", cls=ClusterCommand, shape=one(QuorumDescription))
@click.option("--status", is_flag=True, help="Show the leader, the voters, and how far behind they are.")
@click.option("--replication", is_flag=True, help="Show how far each replica is.")
@click.option("--human-readable", is_flag=True, help="With --replication: show times as how long ago.")
async def describe(invocation: Invocation, status: bool, replication: bool, human_readable: bool) -> None:
    """Show the quorum."""
    if status and replication:
        raise CommandFailed("Only one of --status or --replication should be specified with describe sub-command")
    if not (status or replication or invocation.printer.is_json):
        raise CommandFailed("One of --status or --replication must be specified with describe sub-command")
    if status and human_readable:
        raise CommandFailed("The option --human-readable is only supported along with --replication")
    asks_controllers = click.get_current_context().obj is not None
    async with _connected(invocation) as connection:
        response = await _describe_quorum(connection)
        cluster = await describe_cluster(connection, CONTROLLERS if asks_controllers else BROKERS)
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    described = describe_quorum(cluster.cluster_id, response)
    if replication:
        lines = replication_lines(described, now_ms=now_ms if human_readable else None)
    else:
        lines = status_lines(described)
    invocation.printer.one(described, lines)


async def _describe_quorum(connection: Connection) -> DescribeQuorumResponse:
    topic = RequestedTopic(topic_name=METADATA_TOPIC, partitions=[RequestedPartition(partition_index=0)])
    response = await connection.call(DescribeQuorumRequest(topics=[topic]), 2)
    assert isinstance(response, DescribeQuorumResponse), "the answer to what was asked"
    check(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    return response


@quorum.command("add-controller", cls=ClusterCommand, shape=one(ChangedVoter))
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do not do it.")
async def add_controller(invocation: Invocation, dry_run: bool) -> None:
    """Have a controller vote that runs, and does not vote yet.

    --command-config names the new controller's server.properties.
    """
    path = given_settings(click.get_current_context()).command_config
    if path is None:
        raise CommandFailed(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    try:
        request = _add_request(read_node_config(path, ()))
    except (ConfigError, MetaPropertiesError) as error:
        raise CommandFailed(str(error)) from error
    if not dry_run:
        async with _connected(invocation) as connection:
            response = await connection.call(request, 0)
            check(response.error_code, response.error_message)
    what = "DRY RUN of adding" if dry_run else "Added"
    added = ChangedVoter(request.voter_id, encode_uuid(request.voter_directory_id), dry_run)
    endpoints = ", ".join(map(_shown, request.listeners))
    line = f"{what} controller {added.node_id} with directory id {added.directory_id} and endpoints: {endpoints}"
    invocation.printer.one(added, [line])


def _add_request(config: KafkaConfig) -> AddRaftVoterRequest:
    if not config.is_controller:
        raise CommandFailed(
            "process.roles did not contain 'controller' in configuration file. "
            "Is this a valid controller configuration file?"
        )
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=REQUEST_TIMEOUT_MS,
        voter_id=config.node_id,
        voter_directory_id=_directory_id(config),
        listeners=[
            Listener(name=each.name, host=each.host or "localhost", port=each.port)
            for each in config.endpoints.advertised_controller_listeners
        ],
    )


@quorum.command("remove-controller", cls=ClusterCommand, shape=one(ChangedVoter))
@click.option("-i", "--controller-id", type=int, required=True, metavar="ID", help="The controller's node id.")
@click.option("-d", "--controller-directory-id", required=True, metavar="ID", help="Its metadata directory's id.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do not do it.")
async def remove_controller(
    invocation: Invocation, controller_id: int, controller_directory_id: str, dry_run: bool
) -> None:
    """Take a controller's vote."""
    if controller_id < 0:
        raise CommandFailed(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = decode_uuid(controller_directory_id)
    except ValueError as error:
        raise CommandFailed(f"Failed to parse --controller-directory-id: {error}") from error
    if not dry_run:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=controller_id, voter_directory_id=directory_id)
        async with _connected(invocation) as connection:
            response = await connection.call(request, 0)
            check(response.error_code, response.error_message)
    what = "DRY RUN of removing" if dry_run else "Removed"
    removed = ChangedVoter(controller_id, encode_uuid(directory_id), dry_run)
    line = f"{what} KRaft controller {removed.node_id} with directory id {removed.directory_id}"
    invocation.printer.one(removed, [line])


def _connected(invocation: Invocation) -> AbstractAsyncContextManager[Connection]:
    controllers = click.get_current_context().obj
    if controllers is not None:
        return connected_to_controller(parse_servers(controllers))
    # In add-controller, --command-config is a node's file, which names servers for the node and none for a client.
    return connected(parse_servers(invocation.cluster().bootstrap_servers))


def _directory_id(config: KafkaConfig) -> bytes:
    """The id of the directory with the controller's metadata log."""
    directory = config.metadata_log_dir
    properties = read_meta_properties(real_env(lambda kind, /, **fields: None).disk, directory)
    if properties is None:
        raise CommandFailed(f"Unable to read meta.properties from {directory}")
    if properties.directory_id is None:
        raise CommandFailed(f"No directory id found in {directory}")
    return properties.directory_id


def _shown(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"
