"""What a room of the controller comes to: records to append, and the answer once they are committed."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from metadata.records import MetadataRecord

T = TypeVar("T")


@attrs.frozen
class Decision(Generic[T]):
    """`records` go into the log together or not at all; with none, nothing changes and `response` is the answer."""

    records: Sequence[MetadataRecord]
    response: T

    def without_records(self) -> "Decision[T]":
        """The answer to a request that only wanted to know what would happen (validate only)."""
        return Decision((), self.response)
