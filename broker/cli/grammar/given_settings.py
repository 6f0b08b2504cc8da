"""The settings of the cluster on the command line, without those of files, variables and contexts (`settings`)."""

from typing import Final, NamedTuple

SERVERS_VARIABLE: Final = "KRAFT_BOOTSTRAP_SERVERS"


class GivenSettings(NamedTuple):
    """The cluster settings on the command line; None or empty where it has none."""

    bootstrap_servers: str | None = None
    command_config: str | None = None
    context: str | None = None
    properties: tuple[str, ...] = ()
