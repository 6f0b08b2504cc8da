"""`kraft cluster`: a cluster on this machine, the state of a cluster, and nodes that leave it or come back."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from broker.cli.grammar.groups import LazyCommand, LazyGroup

_COMMANDS: Final = "broker.cli.commands"

_SECTIONS: Final[Mapping[str, Sequence[LazyCommand]]] = {
    "Commands": (
        ("describe", f"{_COMMANDS}.cluster_state:describe", "show the brokers of a cluster"),
        ("drain", f"{_COMMANDS}.cluster_drain:drain", "move leaders, then replicas, off a broker"),
        ("health", f"{_COMMANDS}.cluster_state:health", "show how a cluster is, on one screen"),
        ("rebalance", f"{_COMMANDS}.cluster_rebalance:rebalance", "spread the replicas of all topics over the brokers"),
        ("rejoin", f"{_COMMANDS}.cluster_rejoin:rejoin", "give a controller whose disk was replaced its vote back"),
        ("restart", f"{_COMMANDS}.cluster_restart:restart", "restart the nodes one after the other"),
        ("start", f"{_COMMANDS}.cluster_start:start", "run a cluster on this machine until SIGTERM or Ctrl-C"),
        ("undrain", f"{_COMMANDS}.cluster_drain:undrain", "let a drained broker have replicas again"),
        ("unregister", f"{_COMMANDS}.cluster_unregister:unregister", "remove a broker that is shut down for good"),
    )
}


@click.group("cluster", cls=LazyGroup, sections=_SECTIONS)
def cluster() -> None:
    """Run a cluster on this machine; see how a cluster is; take nodes out of it and back."""
