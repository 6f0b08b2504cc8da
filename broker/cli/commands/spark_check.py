"""`kraft spark check`: the checkers of the fault suites over a stored history.

It imports `jepsen`, where the checkers are, when it runs. Only `kraft test-server` does so too.
"""

from typing import TYPE_CHECKING, Final

import attrs
import click

from broker.cli.commands.spark_session import spark_options, spark_session
from broker.cli.grammar import Command, CommandFailed, Exit, Invocation
from broker.cli.grammar.units import format_count
from broker.cli.output import one

if TYPE_CHECKING:
    from jepsen.checkers import Verdict

_ANOMALIES_SHOWN: Final = 5
PROMISE_NAMES: Final = (
    "queue",
    "acks1",
    "metadata",
    "offsets",
    "transactions",
    "groups",
    "commits",
    "simulated-queue",
    "simulated-topics",
    "registers",
)


@attrs.frozen
class CheckedPromise:
    """A promise, and how often it is broken."""

    name: str
    broken: int


@attrs.frozen
class CheckedHistory:
    """The verdict on a history. `counts` are operations by function and outcome; `anomalies` some of those found."""

    is_valid: bool
    promises: list[CheckedPromise]
    counts: dict[str, int]
    anomalies: list[str]


@click.command("check", cls=Command, shape=one(CheckedHistory))
@click.argument("histories", nargs=-1, required=True, metavar="HISTORY...")
@click.option(
    "--promises",
    type=click.Choice(PROMISE_NAMES),
    required=True,
    help="The workload that made the history, of `python -m jepsen run` or of the simulator.",
)
@spark_options
def check(
    invocation: Invocation, histories: tuple[str, ...], promises: str, master: str | None, confs: tuple[str, ...]
) -> None:
    """Check a history of operations for anomalies, key by key. An anomaly is exit code 1.

    HISTORY is a file of `python -m jepsen run` (history.jsonl), or Parquet with the same fields as columns.
    """
    with spark_session(invocation, "kraft check", master, confs) as session:
        from jepsen.journal import BadJournal
        from jepsen.spark import PROMISES, check

        try:
            verdict = check(session, histories, PROMISES[promises])
        except BadJournal as error:
            raise CommandFailed(str(error)) from error
    invocation.exit_code = Exit.OK if verdict.is_valid else Exit.FAILED
    found = CheckedHistory(
        verdict.is_valid,
        [CheckedPromise(each.name, each.broken) for each in verdict.promises],
        dict(verdict.counts),
        [str(anomaly) for anomaly in verdict.anomalies()],
    )
    invocation.printer.one(found, _lines(verdict))


def _lines(verdict: "Verdict") -> list[str]:
    lines = [f"{count:,} {what}" for what, count in sorted(verdict.counts.items())]
    lines += [f"BROKEN, {format_count(each.broken, 'time')}: {each.name}" for each in verdict.promises if each.broken]
    lines += [str(anomaly) for anomaly in list(verdict.anomalies())[:_ANOMALIES_SHOWN]]
    return [
        *lines,
        f"{format_count(len(verdict.promises), 'promise')}: {'no anomaly' if verdict.is_valid else 'ANOMALIES'}",
    ]
