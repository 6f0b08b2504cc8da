"""Judges an application's history: in memory, or with Spark."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from jepsen.checkers import Checker, judge
from jepsen.checkers.verdict import checker_name
from jepsen.history import History
from jepsen.journal import BadJournal
from jepsen.testing.histories.loading import OPERATIONS_MAX, Source, history_files, load_history
from jepsen.testing.histories.promises import AnyPromise, PromiseCheckers, checkers_of, promises_named
from jepsen.testing.histories.recorder import Recorder
from jepsen.testing.histories.verdict import HistoryVerdict, compose_verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BAD_JOURNAL: Final = re.compile(r"^jepsen\.journal\.BadJournal: (.+)$", re.MULTILINE)


def check(
    history: History | Recorder | Source | Iterable[Source],
    promises: Iterable[AnyPromise | str],
    *,
    operations_max: int = OPERATIONS_MAX,
) -> HistoryVerdict:
    """Check promises in a history: a recorder's, that of a directory, or of files of several processes.

    Promises are those of `Promise`, `ExactlyOnce`, or their texts. Raises BadJournal for files that are no history,
    HistoryTooLarge for more than `operations_max` operations, FileNotFoundError, and ValueError for unknown promises. A
    broken promise raises nothing.
    """
    wanted = [checkers_of(each) for each in promises_named(promises)]
    if isinstance(history, Recorder):
        history = history.directory
    loaded = history if isinstance(history, History) else load_history(history, operations_max)
    return compose_verdict(wanted, judge(loaded, _all_checkers(wanted)), loaded)


def check_with_spark(
    spark: "SparkSession", history: Source | Iterable[Source], promises: Iterable[AnyPromise | str]
) -> HistoryVerdict:
    """Check promises as `check` does, in a history of any size. Raises BadJournal, FileNotFoundError and ValueError."""
    from pyspark.errors import PythonException

    from jepsen.spark.check import check as check_events

    wanted = [checkers_of(each) for each in promises_named(promises)]
    paths = [str(path) for path in history_files(history)]
    try:
        return compose_verdict(wanted, check_events(spark, paths, _all_checkers(wanted)))
    except PythonException as error:
        # The error of a worker comes as the text of its traceback.
        if reason := _BAD_JOURNAL.search(str(error)):
            raise BadJournal(reason[1]) from error
        raise


def _all_checkers(wanted: Sequence[PromiseCheckers]) -> list[Checker]:
    """The checkers of all promises, each once."""
    return list({checker_name(each): each for one in wanted for each in (*one.breaks, *one.doubts)}.values())
