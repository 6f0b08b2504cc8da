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
    from pyspark.sql import SparkSession

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
    """A promise, and how often it is broken. `doubts` are what the history of an application does not decide."""

    name: str
    broken: int
    doubts: list[str] = attrs.field(factory=list)


@attrs.frozen
class CheckedHistory:
    """The verdict on a history. `counts` are operations by function and outcome; `anomalies` some of those found.

    `is_decided` is false if the history leaves a promise undecided.
    """

    is_valid: bool
    is_decided: bool
    promises: list[CheckedPromise]
    counts: dict[str, int]
    anomalies: list[str]


@click.command("check", cls=Command, shape=one(CheckedHistory))
@click.argument("histories", nargs=-1, required=True, metavar="HISTORY...")
@click.option(
    "--promises",
    type=click.Choice(PROMISE_NAMES),
    help="The workload that made the history, of `python -m jepsen run` or of the simulator.",
)
@click.option(
    "--promise",
    "names",
    multiple=True,
    metavar="PROMISE",
    help="A promise of an application, such as 'nothing lost', whose recorders made the history; may be repeated.",
)
@spark_options
def check(
    invocation: Invocation,
    histories: tuple[str, ...],
    promises: str | None,
    names: tuple[str, ...],
    master: str | None,
    confs: tuple[str, ...],
) -> None:
    """Check a history of operations for anomalies, key by key. An anomaly is exit code 1, as is an undecided promise.

    HISTORY is a file of `python -m jepsen run` (history.jsonl), or Parquet with the same fields as columns, or the
    directory of an application's recorders.
    """
    if (promises is None) == (not names):
        raise click.UsageError("Give --promises for a workload, or --promise for an application.")
    with spark_session(invocation, "kraft check", master, confs) as session:
        verdict = _verdict(session, histories, promises, names)
    is_kept = verdict.is_valid and verdict.is_decided
    invocation.exit_code = Exit.OK if is_kept else Exit.FAILED
    found = CheckedHistory(
        verdict.is_valid,
        verdict.is_decided,
        [CheckedPromise(each.name, each.broken, list(each.doubts)) for each in verdict.promises],
        dict(verdict.counts),
        [str(anomaly) for anomaly in verdict.anomalies()],
    )
    invocation.printer.one(found, _lines(verdict))


def _verdict(
    session: "SparkSession", histories: tuple[str, ...], promises: str | None, names: tuple[str, ...]
) -> "Verdict":
    from jepsen.journal import BadJournal
    from jepsen.spark import PROMISES, check
    from jepsen.testing.histories import check_with_spark

    try:
        if promises is not None:
            return check(session, histories, PROMISES[promises])
        return check_with_spark(session, histories, names).checked()
    except (BadJournal, FileNotFoundError, ValueError) as error:
        raise CommandFailed(str(error)) from error


def _lines(verdict: "Verdict") -> list[str]:
    lines = [f"{count:,} {what}" for what, count in sorted(verdict.counts.items())]
    lines += [f"BROKEN, {format_count(each.broken, 'time')}: {each.name}" for each in verdict.promises if each.broken]
    lines += [str(anomaly) for anomaly in list(verdict.anomalies())[:_ANOMALIES_SHOWN]]
    undecided = [each for each in verdict.promises if each.doubts and not each.broken]
    lines += [f"UNKNOWN: {each.name}: {doubt}" for each in undecided for doubt in each.doubts[:_ANOMALIES_SHOWN]]
    end = "ANOMALIES" if not verdict.is_valid else "UNKNOWN" if undecided else "no anomaly"
    return [*lines, f"{format_count(len(verdict.promises), 'promise')}: {end}"]
