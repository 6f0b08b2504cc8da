"""Histories of applications: what their clients did and were told, and whether promises hold in it.

from jepsen.testing.histories import Recorder, check

recorder = Recorder("history")
producer = recorder.wrap(Producer(config))
...
recorder.read_to_end("localhost:9092")
assert check(recorder, ["nothing lost", "nothing twice"])
"""

from jepsen.journal import BadJournal
from jepsen.testing.histories.judging import check, check_with_spark
from jepsen.testing.histories.loading import HistoryTooLarge, load_history
from jepsen.testing.histories.promises import ExactlyOnce, Promise
from jepsen.testing.histories.recorder import Recorder
from jepsen.testing.histories.recording.identities import RecordView
from jepsen.testing.histories.reports import report
from jepsen.testing.histories.verdict import Finding, HistoryVerdict, PromiseBroken, PromiseVerdict, Status

__all__ = [
    "BadJournal",
    "ExactlyOnce",
    "Finding",
    "HistoryTooLarge",
    "HistoryVerdict",
    "Promise",
    "PromiseBroken",
    "PromiseVerdict",
    "RecordView",
    "Recorder",
    "Status",
    "check",
    "check_with_spark",
    "load_history",
    "report",
]
