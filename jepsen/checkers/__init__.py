"""Checkers: one class for each promise that a history must keep, whatever faults occurred."""

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.dead_letters import DEAD_LETTER_CHECKERS
from jepsen.checkers.groups import GROUP_CHECKERS
from jepsen.checkers.losses import Losses, count_losses
from jepsen.checkers.queue import ACKS_ONE_CHECKERS, IDEMPOTENT_CHECKERS, QUEUE_CHECKERS
from jepsen.checkers.quotas import QUOTA_CHECKERS
from jepsen.checkers.registers import REGISTER_CHECKERS
from jepsen.checkers.security import SECURITY_CHECKERS
from jepsen.checkers.shares import SHARE_CHECKERS
from jepsen.checkers.topics import TOPIC_CHECKERS
from jepsen.checkers.transactions import TRANSACTION_CHECKERS
from jepsen.checkers.verdict import Promise, Verdict, judge

__all__ = [
    "ACKS_ONE_CHECKERS",
    "DEAD_LETTER_CHECKERS",
    "GROUP_CHECKERS",
    "IDEMPOTENT_CHECKERS",
    "QUEUE_CHECKERS",
    "QUOTA_CHECKERS",
    "REGISTER_CHECKERS",
    "SECURITY_CHECKERS",
    "SHARE_CHECKERS",
    "TOPIC_CHECKERS",
    "TRANSACTION_CHECKERS",
    "Anomaly",
    "Checker",
    "Losses",
    "Promise",
    "Verdict",
    "count_losses",
    "judge",
]
