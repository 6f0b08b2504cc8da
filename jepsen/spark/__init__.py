"""Runs the checkers over a stored history with Spark: each judges the operations on one key, many keys in parallel.

The checkers are those of `jepsen.checkers`, unchanged. A projection tells which part of an operation belongs to which
key. Given the projected operations of one key, a checker finds the same anomalies about this key as in the whole
history.
"""

from jepsen.spark.check import check
from jepsen.spark.promises import PROMISES

__all__ = ["PROMISES", "check"]
