"""Fetch (key 1)."""

from broker.handlers.fetch.shortcut import HANDLER

__all__ = ["HANDLER"]
