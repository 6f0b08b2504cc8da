"""What a history must not show, however much went wrong meanwhile: one class for each promise."""

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.queue import QUEUE_CHECKERS
from jepsen.checkers.registers import REGISTER_CHECKERS
from jepsen.checkers.topics import TOPIC_CHECKERS
from jepsen.checkers.verdict import Promise, Verdict, judge

__all__ = [
    "QUEUE_CHECKERS",
    "REGISTER_CHECKERS",
    "TOPIC_CHECKERS",
    "Anomaly",
    "Checker",
    "Promise",
    "Verdict",
    "judge",
]
