"""ShareFetch (key 78)."""

from broker.handlers.share_fetch.handler import HANDLER

__all__ = ["HANDLER"]
