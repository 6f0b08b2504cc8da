"""`kraft quorum`: look at the controllers' quorum and change its voters, as `kafka-metadata-quorum` does (KIP-853)."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs
import click

from broker.cli.commands.quorum_description import (
    DescribedQuorum,
    describe_quorum,
    replication_lines,
    status_lines,
)
from broker.cli.grammar import ClusterCommand, CommandFailed, CommandGroup, Exit, Invocation
from broker.cli.grammar.arguments import INT32_MAX, Integer
from broker.cli.grammar.clients import open_admin
from broker.cli.grammar.options import given_settings
from broker.cli.grammar.settings import resolve_settings
from broker.cli.node_config import read_node_config
from broker.cli.output import one
from broker.client.admin import Admin, RaftEndpoint
from broker.client.errors import TimedOut
from broker.config import KafkaConfig
from broker.storage.meta_properties import MetaPropertiesError, read_meta_properties
from broker.wire.uuids import decode_uuid, encode_uuid
from kraft.env import real_env
from metadata.configuration import InvalidConfig

_CONTROLLERS: Final = "broker.cli.bootstrap_controllers"
# How long a broker may ask the controllers for the quorum. One that is up has answered by then, and a person who asks
# because it is not should not wait for the minute that a call may take.
_ANSWER_MS: Final = 15_000


@attrs.frozen
class ChangedVoter:
    """A controller whose vote was given or taken. With `dry_run`, nothing was changed."""

    node_id: int
    directory_id: str
    dry_run: bool


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        ctx.meta[_CONTROLLERS] = value
    return value


# Like the options of all clusters, it may stand before or after the name of a command of the group.
_bootstrap_controller = click.option(
    "--bootstrap-controller",
    metavar="HOST:PORT,...",
    callback=_remember,
    expose_value=False,
    help="Bootstrap controllers, instead of brokers.",
)


@click.group("quorum", cls=CommandGroup)
@_bootstrap_controller
def quorum() -> None:
    """Look at the controllers' quorum, and change its voters (KIP-853).

    Wrong options end with exit code 1, as in `kafka-metadata-quorum`.
    """


@quorum.command("describe", cls=ClusterCommand, shape=one(DescribedQuorum))
@_bootstrap_controller
@click.option("--status", is_flag=True, help="Show the leader, the voters, and their lag.")
@click.option("--replication", is_flag=True, help="Show the log end offset and the lag of each replica.")
@click.option("--human-readable", is_flag=True, help="With --replication: show times relative to now.")
async def describe(invocation: Invocation, status: bool, replication: bool, human_readable: bool) -> None:
    """Show the quorum."""
    if status and replication:
        raise CommandFailed("Only one of --status or --replication should be specified with describe sub-command")
    if not (status or replication or invocation.printer.is_json):
        raise CommandFailed("One of --status or --replication must be specified with describe sub-command")
    if status and human_readable:
        raise CommandFailed("The option --human-readable is only supported along with --replication")
    async with _admin(invocation) as admin:
        try:
            found = await admin.describe_metadata_quorum(timeout_ms=_ANSWER_MS)
        except TimedOut as error:
            raise CommandFailed(
                f"The controllers do not answer: {error.__cause__ or error}. A majority of them has to be alive.",
                Exit.UNREACHABLE,
            ) from error
        cluster = await admin.describe_cluster()
    now_ms = int(real_env(lambda kind, /, **fields: None).wall() * 1000)
    described = describe_quorum(cluster.cluster_id, found)
    if replication:
        lines = replication_lines(described, now_ms=now_ms if human_readable else None)
    else:
        lines = status_lines(described)
    invocation.printer.one(described, lines)


@quorum.command("add-controller", cls=ClusterCommand, shape=one(ChangedVoter))
@_bootstrap_controller
@click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")
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
        config = read_node_config(path, ())
        if not config.is_controller:
            raise CommandFailed(
                "process.roles did not contain 'controller' in configuration file. "
                "Is this a valid controller configuration file?"
            )
        directory_id = _directory_id(config)
    except (InvalidConfig, MetaPropertiesError) as error:
        raise CommandFailed(str(error)) from error
    endpoints = controller_endpoints(config)
    if not dry_run:
        async with _admin(invocation) as admin:
            await admin.add_raft_voter(config.node_id, directory_id, endpoints)
    what = "DRY RUN of adding" if dry_run else "Added"
    added = ChangedVoter(config.node_id, encode_uuid(directory_id), dry_run)
    shown = ", ".join(map(_shown, endpoints))
    line = f"{what} controller {added.node_id} with directory id {added.directory_id} and endpoints: {shown}"
    invocation.printer.one(added, [line])


def controller_endpoints(config: KafkaConfig) -> list[RaftEndpoint]:
    """The addresses at which the other controllers reach a controller."""
    return [
        RaftEndpoint(each.name, each.host or "localhost", each.port)
        for each in config.endpoints.advertised_controller_listeners
    ]


@quorum.command("remove-controller", cls=ClusterCommand, shape=one(ChangedVoter))
@_bootstrap_controller
@click.option("-i", "--controller-id", type=Integer(0, INT32_MAX), required=True, metavar="ID", help="Its node id.")
@click.option("-d", "--controller-directory-id", required=True, metavar="ID", help="Its metadata directory's id.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")
async def remove_controller(
    invocation: Invocation, controller_id: int, controller_directory_id: str, dry_run: bool
) -> None:
    """Take a controller's vote."""
    try:
        directory_id = decode_uuid(controller_directory_id)
    except ValueError as error:
        raise CommandFailed(f"Failed to parse --controller-directory-id: {error}") from error
    if not dry_run:
        async with _admin(invocation) as admin:
            await admin.remove_raft_voter(controller_id, directory_id)
    what = "DRY RUN of removing" if dry_run else "Removed"
    removed = ChangedVoter(controller_id, encode_uuid(directory_id), dry_run)
    line = f"{what} KRaft controller {removed.node_id} with directory id {removed.directory_id}"
    invocation.printer.one(removed, [line])


def _admin(invocation: Invocation) -> AbstractAsyncContextManager[Admin]:
    context = click.get_current_context()
    controllers = context.meta.get(_CONTROLLERS)
    if controllers is not None and given_settings(context).bootstrap_servers is not None:
        raise click.UsageError("Use one of --bootstrap-server and --bootstrap-controller.", context)
    if context.info_name != "add-controller":
        return open_admin(invocation.cluster(), controllers)
    # Here --command-config is the new controller's own file, and not one with client configs.
    return open_admin(resolve_settings(given_settings(context)._replace(command_config=None)), controllers)


def _directory_id(config: KafkaConfig) -> bytes:
    """The id of the directory with the controller's metadata log."""
    directory = config.metadata_directory
    properties = read_meta_properties(real_env(lambda kind, /, **fields: None).disk, directory)
    if properties is None:
        raise CommandFailed(f"Unable to read meta.properties from {directory}")
    if properties.directory_id is None:
        raise CommandFailed(f"No directory id found in {directory}")
    return properties.directory_id


def _shown(endpoint: RaftEndpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"
