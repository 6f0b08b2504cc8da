"""`kraft accept-loss`: let a metadata log end before entries that no controller has any more."""

from collections.abc import Sequence

import attrs
import click
import trio

from broker.cli.errors import print_errors
from broker.cli.grammar import Command, CommandFailed, Exit, Invocation
from broker.cli.grammar.units import format_count
from broker.cli.node_config import read_node_config
from broker.cli.output import one
from broker.config import KafkaConfig
from broker.node.metadata_directory import METADATA_DIRECTORY
from broker.storage.log_dir import LogDir, LogDirInUse
from broker.storage.meta_properties import MetaPropertiesError
from kraft.env import real_env
from kraft.log import CorruptLog
from kraft.recovery import Loss, find_loss
from kraft.recovery import accept_loss as give_up
from metadata.configuration import InvalidConfig

_REFUSALS = (InvalidConfig, MetaPropertiesError, LogDirInUse, CorruptLog, OSError)


@attrs.frozen
class AcceptedLoss:
    """`accepted` is False if nothing is lost, and with `dry_run`."""

    accepted: bool
    dry_run: bool
    loss: Loss | None


@click.command("accept-loss", cls=Command, shape=one(AcceptedLoss))
@click.option("-c", "--config", "path", metavar="FILE", help="The node's server.properties, if it has one.")
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A config that wins over the file.")
@click.option("--dry-run", is_flag=True, help="Show what would be given up, without doing it.")
def accept_loss(invocation: Invocation, path: str | None, overrides: Sequence[str], dry_run: bool) -> None:
    """Start a node without metadata that its disk has lost.

    A controller refuses to start if its metadata log ends before what it had acknowledged, and it knows no other
    controller that may have the rest. Restore its directory from a backup if there is one. Otherwise this command lets
    the log end where it ends, without asking again: topics, configs and other changes that were made since are gone,
    and brokers put the partitions of such topics aside, in directories that end in -stray. Keep a copy of the
    directory. The node has to be down. A damaged snapshot cannot be given up.
    """
    try:
        config = read_node_config(path, overrides)
        accepted = trio.run(_accept, config, dry_run)
    except* _REFUSALS as group:
        print_errors(group)
        invocation.exit_code = Exit.FAILED
    else:
        invocation.printer.one(accepted, [_sentence(accepted)])


async def _accept(config: KafkaConfig, dry_run: bool) -> AcceptedLoss:
    env = real_env(lambda kind, /, **fields: None)
    path = f"{config.metadata_directory}/{METADATA_DIRECTORY}"
    if not env.disk.exists(path):
        raise CommandFailed(f"{config.metadata_directory} has no metadata log")
    directory = LogDir(env, config.metadata_directory, producer_expiration_ms=config.producer_id_expiration_ms)
    directory.claim()
    try:
        loss = await find_loss(env.disk, path)
        if loss is not None and not dry_run:
            await give_up(env.disk, path)
    finally:
        directory.release()
    return AcceptedLoss(loss is not None and not dry_run, dry_run, loss)


def _sentence(accepted: AcceptedLoss) -> str:
    loss = accepted.loss
    if loss is None:
        return "Nothing is lost."
    what = "Would give up" if accepted.dry_run else "Gave up"
    count = loss.lost_end_offset - loss.end_offset
    records = format_count(count, "record")
    return f"{what} {records} of the metadata, from offset {loss.end_offset} on: {loss.damage}."
