"""The acknowledgements of one member, and the states of records that follow from them (KIP-932, KIP-1191)."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from broker.share_partitions.in_flight import RecordState
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AcknowledgeType

# A record that is rejected is ARCHIVED at once if its group has no dead-letter topic.
STATE_AFTER: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVING,
}
_ACKNOWLEDGE_TYPES: Final = frozenset(AcknowledgeType)


class AcknowledgementBatch(NamedTuple):
    """The records from `first_offset` to `last_offset`, with one `AcknowledgeType` for all or one for each offset."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def check_types(self) -> None:
        """Raise KafkaError INVALID_REQUEST for an unknown type."""
        unknown = next((kind for kind in self.types if kind not in _ACKNOWLEDGE_TYPES), None)
        if unknown is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {unknown}")

    def runs(self, start_offset: int) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """The parts from `start_offset` on that have one type, with their first and last offsets."""
        if len(self.types) == 1:
            yield max(self.first_offset, start_offset), self.last_offset, AcknowledgeType(self.types[0])
            return
        first = self.first_offset
        for kind, same in groupby(self.types):
            end = first + sum(1 for _ in same)
            if end > start_offset:
                yield max(first, start_offset), end - 1, AcknowledgeType(kind)
            first = end
