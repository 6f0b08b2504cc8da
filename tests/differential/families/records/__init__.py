"""Partitions' records: their offsets and times, and fetches with and without sessions."""

from tests.differential.families.records.fetch_family import FetchSessions
from tests.differential.families.records.offsets_family import Offsets

__all__ = ["FetchSessions", "Offsets"]
