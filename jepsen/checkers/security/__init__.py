"""Promises about authentication and authorization, whose rules an administrator changes all the time."""

from jepsen.checkers.security.security_checkers import SECURITY_CHECKERS

__all__ = ["SECURITY_CHECKERS"]
