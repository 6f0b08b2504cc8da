"""`kraft` itself: its commands, and how one run ends."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from broker.cli.grammar.given_settings import GivenSettings
from broker.cli.grammar.groups import LazyCommand, LazyGroup
from broker.cli.grammar.options import given_settings

COMPLETION_VARIABLE: Final = "_KRAFT_COMPLETE"
_COMMANDS: Final = "broker.cli.commands"

SECTIONS: Final[Mapping[str, Sequence[LazyCommand]]] = {
    "Nodes": (
        ("start", f"{_COMMANDS}.start:start", "run a node"),
        ("format", f"{_COMMANDS}.format:format_", "format the log directories of a node"),
        ("random-uuid", f"{_COMMANDS}.random_uuid:random_uuid", "print an id for a cluster or a directory"),
        ("accept-loss", f"{_COMMANDS}.accept_loss:accept_loss", "start a node without metadata that its disk has lost"),
        ("dump-log", f"{_COMMANDS}.dump_log:dump_log", "print and check the files of a log"),
        ("test-server", f"{_COMMANDS}.test_server:test_server", "run a cluster for tests, and inject faults by HTTP"),
    ),
    "Data": (
        ("produce", f"{_COMMANDS}.produce:produce", "write records"),
        ("consume", f"{_COMMANDS}.consume:consume", "read records"),
        ("topics", f"{_COMMANDS}.topics:topics", "create, list, describe, alter and delete topics"),
        ("bench", f"{_COMMANDS}.bench:bench", "measure how many records a second the cluster carries"),
        ("spark", f"{_COMMANDS}.spark:spark", "load topics into files and back with Spark, measure and check them"),
        ("groups", f"{_COMMANDS}.groups:groups", "see groups and their lag, reset offsets"),
        ("share-groups", f"{_COMMANDS}.share_groups:share_groups", "see share groups and their lag, reset offsets"),
        ("transactions", f"{_COMMANDS}.transactions:transactions", "see transactions, find and abort hanging ones"),
        ("configs", f"{_COMMANDS}.configs:configs", "see and change configs of topics, brokers and groups"),
    ),
    "Cluster": (
        ("cluster", f"{_COMMANDS}.cluster:cluster", "run a cluster on this machine, check a cluster's health"),
        ("quorum", f"{_COMMANDS}.quorum:quorum", "look at the controllers' quorum, and change its voters"),
        ("log-dirs", f"{_COMMANDS}.log_dirs:log_dirs", "see the log directories of brokers"),
        ("reassign", f"{_COMMANDS}.reassign:reassign", "move replicas to other brokers"),
        ("elect", f"{_COMMANDS}.elect:elect", "elect leaders of partitions"),
        ("quotas", f"{_COMMANDS}.quotas:quotas", "see and change quotas of users, client ids and addresses"),
        ("acls", f"{_COMMANDS}.acls:acls", "see and change access control lists"),
        ("users", f"{_COMMANDS}.users:users", "see, set and remove passwords of users"),
        ("tokens", f"{_COMMANDS}.tokens:tokens", "create, list, renew and remove delegation tokens"),
        ("features", f"{_COMMANDS}.features:features", "see and change the levels of features"),
    ),
    "This command": (
        ("context", f"{_COMMANDS}.context:context", "name clusters, and choose one"),
        ("completion", f"{_COMMANDS}.completion:completion", "print a shell's completion script"),
        ("kafka-tools", f"{_COMMANDS}.kafka_tools:kafka_tools", "put Kafka's own command line tools on a PATH"),
    ),
}


@click.group("kraft", cls=LazyGroup, sections=SECTIONS)
@click.version_option(package_name="kraft", message="kraft %(version)s")
def kraft() -> None:
    """A Kafka-compatible, replicated log: nodes, clusters, topics, records."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. An exception that it raises is a bug."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(kraft, {}, "kraft", COMPLETION_VARIABLE, instruction)
    ctx: click.Context | None = None
    try:
        with kraft.make_context("kraft", list(arguments)) as ctx:
            exit_code: int = kraft.invoke(ctx)
            sys.stdout.flush()
            return exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except BaseException as error:  # noqa: BLE001 - `report` raises again what is a bug
        from broker.cli.grammar.reports import report  # most runs, such as those for help, do without

        return report(error, GivenSettings() if ctx is None else given_settings(ctx))
