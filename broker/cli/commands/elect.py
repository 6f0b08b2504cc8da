"""`kraft elect`: requests elections of partition leaders."""

from collections.abc import Sequence

import attrs
import click

from broker.cli.grammar import ClusterCommand, Invocation
from broker.cli.grammar.arguments import TOPIC_PARTITIONS, TopicPartitions
from broker.cli.grammar.partitions import find_partitions
from broker.cli.output import list_of
from broker.client.admin import ElectionType
from broker.wire.errors import ErrorCode


@attrs.frozen
class ElectedPartition:
    """A partition whose leader was elected."""

    topic: str
    partition: int


@click.command("elect", cls=ClusterCommand, shape=list_of(ElectedPartition))
@click.argument("topics", nargs=-1, type=TOPIC_PARTITIONS, metavar="[TOPIC[:PARTITION,...]]...")
@click.option("--unclean", is_flag=True, help="Elect a replica that is not in sync; records may be lost.")
async def elect(invocation: Invocation, topics: Sequence[TopicPartitions], unclean: bool) -> None:
    """Have the preferred replicas lead again; without TOPIC those of all partitions."""
    if unclean and not topics:
        raise click.UsageError(
            "Name the topics of an unclean election: it may lose records.", click.get_current_context()
        )
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    async with invocation.admin() as admin:
        partitions = await find_partitions(admin, topics) if topics else None
        results = await admin.elect_leaders(partitions, election_type=kind)
    elected = invocation.succeeded(results, "partition", ignored={ErrorCode.ELECTION_NOT_NEEDED})
    rows = [ElectedPartition(each.topic, each.partition) for each in sorted(elected)]
    invocation.printer.each(rows, lambda row: f"Elected a leader of {row.topic}-{row.partition}.")
    if not rows and not invocation.exit_code:
        invocation.printer.say("No election was needed.")
