"""Produce (key 0)."""

from broker.handlers.produce.shortcut import HANDLER

__all__ = ["HANDLER"]
