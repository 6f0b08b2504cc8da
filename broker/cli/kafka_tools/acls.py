"""kafka-acls: says that there are no ACLs yet, so that a script that sets some does not take them for effective."""

from collections.abc import Sequence

from broker.cli.kafka_tools.options import ToolExit


async def run(arguments: Sequence[str]) -> int:
    """Raises ToolExit, whatever the arguments are."""
    raise ToolExit(
        1, "kafka-acls is not supported yet: nodes allow every request to every client, and no ACL would take effect."
    )
