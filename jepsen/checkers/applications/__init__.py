"""Checkers of what an application promises, in histories that recorders have written (`jepsen.testing.histories`).

Values are names of records, and may be equal: an application may send the same value twice. A record is known by its
partition and offset where an operation tells these. The history has no power cuts. Checkers of `doubts` yield what the
history cannot decide.
"""

from jepsen.checkers.applications.doubts import NothingIsUnrecorded, PartitionsAreReadToTheEnd, ProcessingEnds
from jepsen.checkers.applications.exactly_once import ExactlyOnce, OutputIsDecided
from jepsen.checkers.applications.losses import (
    AcknowledgedRecordsAreStored,
    ReceivedRecordsAreProcessed,
    RecordsReachGroups,
)
from jepsen.checkers.applications.once import (
    EachNameOnce,
    NothingAbortedIsReceived,
    RecordsAreProcessedOnce,
    SendsAreWrittenOnce,
)
from jepsen.checkers.applications.order import KeysAreInOrder
from jepsen.checkers.applications.positions import CommitsNeverGoBack, MembersResumeAfterCommits, ReadersNeverGoBack
from jepsen.checkers.applications.unreached import RecordsAreReached

__all__ = [
    "AcknowledgedRecordsAreStored",
    "CommitsNeverGoBack",
    "EachNameOnce",
    "ExactlyOnce",
    "KeysAreInOrder",
    "MembersResumeAfterCommits",
    "NothingAbortedIsReceived",
    "NothingIsUnrecorded",
    "OutputIsDecided",
    "PartitionsAreReadToTheEnd",
    "ProcessingEnds",
    "ReadersNeverGoBack",
    "ReceivedRecordsAreProcessed",
    "RecordsAreProcessedOnce",
    "RecordsAreReached",
    "RecordsReachGroups",
    "SendsAreWrittenOnce",
]
