"""`kraft` itself: its commands, and how one run ends."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
from click.shell_completion import shell_complete

from broker.cli.grammar.failures import EXPECTED, Exit, WrongSettings, exit_code_of, leaves, sentence
from broker.cli.grammar.groups import LazyCommand, LazyGroup
from broker.cli.grammar.options import given_settings
from broker.cli.grammar.printed_commands import for_same_cluster
from broker.cli.grammar.settings import GivenSettings
from broker.cli.printing import print_error, print_text

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
        return shell_complete(kraft, {}, "kraft", COMPLETION_VARIABLE, instruction)
    ctx: click.Context | None = None
    try:
        with kraft.make_context("kraft", list(arguments)) as ctx:
            exit_code: int = kraft.invoke(ctx)
            sys.stdout.flush()
            return exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print_text(error.format_message(), file=sys.stderr)
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BaseExceptionGroup as group:
        return _report(list(leaves(group)), group, _given(ctx))
    except (*EXPECTED, UnicodeEncodeError) as error:
        return _report([error], error, _given(ctx))


def _given(ctx: click.Context | None) -> GivenSettings:
    return GivenSettings() if ctx is None else given_settings(ctx)


def _report(errors: Iterable[BaseException], raised: BaseException, given: GivenSettings) -> int:
    """Print a sentence for each failure that a person can do something about. Raises `raised` if one is a bug."""
    exit_code = Exit.OK
    for error in errors:
        if isinstance(error, KeyboardInterrupt):
            return Exit.INTERRUPTED
        if isinstance(error, BrokenPipeError):
            _discard_output()
            return Exit.OUTPUT_CLOSED
        if isinstance(error, UnicodeEncodeError):  # a surrogate, for a byte of an argument that is not UTF-8
            error = WrongSettings(f"A name on the command line is not UTF-8: {error.object!r}.")
        if not isinstance(error, EXPECTED):
            raise raised
        assert isinstance(error, Exception), "expected errors are exceptions"
        print_error(for_same_cluster(f"kraft: {sentence(error)}", given))
        exit_code = exit_code or exit_code_of(error)
    return exit_code


def _discard_output() -> None:
    """Redirect output to /dev/null, so that the interpreter's last flush does not fail on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
