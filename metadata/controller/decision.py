"""What a room of the controller comes to: records to append, and the answer once they are committed."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from metadata.records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen
class Decision(Generic[T_co]):
    """`records` go into the log together or not at all; with none, nothing changes and `response` is the answer."""

    records: Sequence[MetadataRecord]
    response: T_co

    def without_records(self) -> "Decision[T_co]":
        """The answer to a request that only wanted to know what would happen (validate only)."""
        return Decision((), self.response)
