"""The result of a controller operation: records to append, and the response to send once they are committed."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from kraft import lazy_attrs
from metadata.records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)


@lazy_attrs.frozen
class Decision(Generic[T_co]):
    """`records` are appended together, as one batch. `response` is sent once they are committed."""

    records: Sequence[MetadataRecord]
    response: T_co

    def without_records(self) -> "Decision[T_co]":
        """The decision without its records, for a request with validate-only."""
        return Decision((), self.response)
