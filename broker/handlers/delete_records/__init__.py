"""DeleteRecords (key 21)."""

from broker.handlers.delete_records.handler import HANDLER

__all__ = ["HANDLER"]
