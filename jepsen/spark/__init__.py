"""The checkers over a stored history, with Spark: each judges the operations on one key, and many keys at a time.

The checkers are those of `jepsen.checkers`, unchanged. A projection says which part of an operation belongs to which
key; a checker that is given the projected operations of a key finds there what it finds about this key in the whole
history.
"""

from jepsen.spark.check import check
from jepsen.spark.promises import PROMISES

__all__ = ["PROMISES", "check"]
