"""Replaying a log into its producer state, behind the newest snapshot."""

from collections.abc import Sequence

from broker.storage.batch_scan import scan_headers
from broker.storage.producer_state import ProducerStates
from broker.storage.segment import Segment
from broker.wire.records import BatchHeader, iter_records, read_end_transaction_marker


def replay(producers: ProducerStates, segments: Sequence[Segment], offset: int) -> None:
    """Tell `producers` of every batch from `offset` on. Raises WireError for a marker that is none, OSError."""
    for segment in segments:
        found = segment.find(offset)
        if found is not None:
            for position, header in scan_headers(segment.file, found.position, segment.written):
                if header.is_control and header.producer_id >= 0:
                    _replay_marker(producers, segment, position, header)
                elif header.producer_id >= 0:
                    producers.update(header)


def _replay_marker(producers: ProducerStates, segment: Segment, position: int, header: BatchHeader) -> None:
    for record in iter_records(segment.file.read(position, header.size), 0, header):
        marker = read_end_transaction_marker(record)
        if marker is not None:
            completed = producers.end_transaction(
                header,
                coordinator_epoch=marker.coordinator_epoch,
                aborted=not marker.is_commit,
                timestamp=record.timestamp,
            )
            if completed is not None:
                producers.complete(completed)
