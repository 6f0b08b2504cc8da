"""`kraft cluster rejoin`: gives a controller its vote back whose disk was replaced (KIP-853).

The vote belongs to the id of the directory with the metadata log, which went with the disk. The old voter is removed
and the new one added. The quorum and the disk tell which of these steps are done.
"""

from typing import Final

import attrs
import click
import trio

from broker.cli.commands.maintenance import change_options, confirm, resumable
from broker.cli.commands.quorum import controller_endpoints
from broker.cli.grammar import ClusterCommand, CommandFailed, Invocation
from broker.cli.node_config import read_node_config
from broker.cli.output import one
from broker.client.admin import Admin, QuorumDescription
from broker.client.errors import TimedOut
from broker.config import KafkaConfig
from broker.node.formatting import Formatting, FormattingRefused, format_directories
from broker.storage.log_dir import LogDirInUse
from broker.storage.meta_properties import MetaProperties, MetaPropertiesError, read_meta_properties
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import encode_uuid
from kraft.description import SILENT_MS
from kraft.env import real_env
from metadata.configuration import InvalidConfig

_LOOK_S: Final = 0.5
# How long the node may take to start and to fetch the metadata.
_START_S: Final = 600.0


@attrs.frozen
class RejoinedVoter:
    """A controller that votes with the directory that it has now. With `dry_run`, nothing was changed.

    `replaced` is the directory id that had the vote, null if it was removed before.
    """

    node_id: int
    dry_run: bool
    directory_id: str | None
    replaced: str | None


@click.command("rejoin", cls=ClusterCommand, shape=one(RejoinedVoter))
@click.option("-c", "--config", "path", required=True, metavar="FILE", help="The node's server.properties.")
@change_options
async def rejoin(invocation: Invocation, path: str, dry_run: bool, yes: bool) -> None:
    """Give a controller its vote back whose disk was replaced; run it where the node runs.

    It formats the empty disk, waits until the node is started, takes the vote of the old disk, and adds the new one. It
    ends when the node votes and has the metadata. Ctrl-C and a crash are safe: typed again, it goes on.
    """
    try:
        config = read_node_config(path, ())
        present = _directory_id(config)
    except (InvalidConfig, MetaPropertiesError) as error:
        raise CommandFailed(str(error)) from error
    if not config.is_controller:
        raise CommandFailed(f"{path} is not the file of a controller: its process.roles have no controller.")
    async with invocation.admin() as admin:
        quorum = await _describe(admin)
        await _check_cluster(admin, config)
        replaced = _voting_directory(quorum, config.node_id)
        if replaced is not None and replaced == present:
            raise CommandFailed(f"Controller {config.node_id} has its vote, with the disk that it has now.")
        _check_replaceable(quorum, config.node_id, replaced)
        for line in _steps(config, present, replaced):
            invocation.printer.note(f"kraft: {line}")
        if not dry_run:
            confirm("Do that?", yes=yes)
            with resumable(invocation, "The same command goes on."):
                present = await _rejoin(invocation, admin, config, path)
    shown = None if present is None else encode_uuid(present)
    rejoined = RejoinedVoter(config.node_id, dry_run, shown, None if replaced is None else encode_uuid(replaced))
    line = f"Would give controller {config.node_id} its vote." if dry_run else f"Controller {config.node_id} votes."
    invocation.printer.one(rejoined, [line])


async def _rejoin(invocation: Invocation, admin: Admin, config: KafkaConfig, path: str) -> bytes:
    present = _directory_id(config)
    if present is None:
        cluster_id = (await admin.describe_cluster()).cluster_id
        present = await _format(invocation, config, cluster_id)
    await _await_observer(invocation, admin, config.node_id, present, path)
    old = _voting_directory(await _describe(admin), config.node_id)
    # With controller.quorum.auto.join.enable, the node may have made each of the changes itself.
    try:
        if old is not None and old != present:
            await admin.remove_raft_voter(config.node_id, old)
    except KafkaError as error:
        if error.code is not ErrorCode.VOTER_NOT_FOUND:
            raise
    try:
        await admin.add_raft_voter(config.node_id, present, controller_endpoints(config))
    except KafkaError as error:
        if error.code is not ErrorCode.DUPLICATE_VOTER:
            raise
    while _voting_directory(await _describe(admin), config.node_id) != present:
        await trio.sleep(_LOOK_S)
    return present


async def _check_cluster(admin: Admin, config: KafkaConfig) -> None:
    """Raises CommandFailed if the directory of the metadata log is formatted for another cluster."""
    properties = _properties(config)
    cluster_id = (await admin.describe_cluster()).cluster_id
    if properties is not None and properties.cluster_id != cluster_id:
        raise CommandFailed(
            f"{config.metadata_directory} belongs to cluster {properties.cluster_id}, and not to {cluster_id}: look at "
            "the servers that are asked, or empty the directory."
        )


async def _describe(admin: Admin) -> QuorumDescription:
    try:
        return await admin.describe_metadata_quorum()
    except TimedOut as error:
        raise CommandFailed(f"The controllers do not answer: a majority of them has to be alive. {error}") from error


def _check_replaceable(quorum: QuorumDescription, node_id: int, replaced: bytes | None) -> None:
    """Raises CommandFailed if the old disk is in use, or if it has the only vote."""
    if replaced is None:
        return
    if len(quorum.voters) == 1:
        raise CommandFailed(f"Controller {node_id} has the only vote: restore its metadata from a backup.")
    now_ms = next((each.last_fetch_ms for each in quorum.voters if each.id == quorum.leader_id), None)
    voter = next(each for each in quorum.voters if each.id == node_id)
    is_leader = node_id == quorum.leader_id
    is_heard = now_ms is not None and voter.last_fetch_ms is not None and now_ms - voter.last_fetch_ms < SILENT_MS
    if is_leader or is_heard:
        raise CommandFailed(
            f"Controller {node_id} runs with the disk that has the vote, {encode_uuid(replaced)}: stop it first."
        )


def _steps(config: KafkaConfig, present: bytes | None, replaced: bytes | None) -> list[str]:
    steps = []
    if present is None:
        steps.append(f"format {config.metadata_directory} and the other empty directories of node {config.node_id}")
    steps.append(f"wait until node {config.node_id} runs and has the metadata")
    if replaced is not None:
        steps.append(f"remove the vote of its old directory {encode_uuid(replaced)}")
    return [*steps, "add the vote of its directory" + ("" if present is None else f" {encode_uuid(present)}")]


async def _format(invocation: Invocation, config: KafkaConfig, cluster_id: str) -> bytes:
    env = real_env(lambda kind, /, **fields: None)
    try:
        await format_directories(
            env,
            config,
            Formatting(cluster_id, None),
            ignore_formatted=True,
            report=lambda line: invocation.printer.note(f"kraft: {line}"),
        )
    except (FormattingRefused, MetaPropertiesError, LogDirInUse) as error:
        raise CommandFailed(str(error)) from error
    present = _directory_id(config)
    assert present is not None, "formatting writes the directory's id"
    return present


async def _await_observer(invocation: Invocation, admin: Admin, node_id: int, directory_id: bytes, path: str) -> None:
    """Wait until the node follows the metadata log and has nearly all of it. Raises CommandFailed."""
    is_told = False
    with trio.move_on_after(_START_S):
        while True:
            quorum = await _describe(admin)
            if any(
                (each.id, each.directory_id) == (node_id, directory_id) and each.log_end_offset >= quorum.high_watermark
                for each in (*quorum.observers, *quorum.voters)
            ):
                return
            if not is_told:
                is_told = True
                invocation.printer.note(f"kraft: waiting for node {node_id}: start it, as with `kraft start {path}`")
            await trio.sleep(_LOOK_S)
    raise CommandFailed(f"Node {node_id} has not fetched the metadata within {_START_S:.0f} s: look at its log.")


def _voting_directory(quorum: QuorumDescription, node_id: int) -> bytes | None:
    return next((voter.directory_id for voter in quorum.voters if voter.id == node_id), None)


def _directory_id(config: KafkaConfig) -> bytes | None:
    """The id of the directory with the metadata log; None if it is not formatted. Raises MetaPropertiesError."""
    properties = _properties(config)
    return None if properties is None else properties.directory_id


def _properties(config: KafkaConfig) -> MetaProperties | None:
    disk = real_env(lambda kind, /, **fields: None).disk
    if not disk.exists(config.metadata_directory):
        return None
    return read_meta_properties(disk, config.metadata_directory)
